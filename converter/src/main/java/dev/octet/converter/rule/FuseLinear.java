package dev.octet.converter.rule;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * {@code Linear(x, w, b?)} from the spellings of exporters.
 *
 * <ol>
 *   <li>{@code MatMul(x, w)}, w a constant [in, out], with or without {@code Add} of a 1-D constant on either side.
 *   <li>{@code Gemm(x, w, b?)} with alpha = beta = 1 and x not transposed; b is [out] or [1, out]. Reshapes around it that flatten
 *       a 3-D x stay.
 *   <li>{@code Transpose} of the constant: transB flips.
 *   <li>{@code Identity}, or {@code Cast} from a narrower float type, between constant and product.
 *   <li>{@code Conv} that is a product in disguise (1x1, or kernel = stride as in patch embeddings): refused for now.
 * </ol>
 *
 * <p>A product of two computed values belongs to attention, is not a Linear, and is not reported.
 */
final class FuseLinear implements FusionRule {
    /**
     * The constant side.
     *
     * @param name value that the Linear reads
     * @param made the constant itself when it is a new one
     */
    private record Weight(
            String name,
            TensorSpec spec,
            boolean transposed,
            @Nullable Initializer made) {
        long out() {
            return spec.shape().dim(transposed ? 0 : 1);
        }
    }

    private record Bias(String name, @Nullable Initializer made) {}

    private sealed interface WeightSide {}

    private record Found(Weight weight) implements WeightSide {}

    private record Unfit(String reason) implements WeightSide {}

    private record Computed() implements WeightSide {}

    @Override
    public String name() {
        return CanonicalOps.LINEAR;
    }

    @Override
    public Outcome apply(GraphFacts graph, Node anchor) {
        return anchor.is("MatMul")
                ? ofMatMul(graph, anchor)
                : anchor.is("Gemm")
                        ? ofGemm(graph, anchor)
                        : anchor.is("Conv") ? ofConv(graph, anchor) : Outcome.NO_MATCH;
    }

    // case 1
    private static Outcome ofMatMul(GraphFacts graph, Node matmul) {
        if (graph.constant(matmul.input(0)) != null) {
            return Outcome.NO_MATCH; // constant · x mixes the rows of x, not its last axis
        }
        return switch (weight(graph, matmul.input(1))) {
            case Computed _ -> Outcome.NO_MATCH;
            case Unfit u -> Outcome.refused(matmul, u.reason());
            case Found f -> {
                GraphFacts.Reader add = graph.reader(matmul.output(), "Add");
                Bias bias = add == null ? null : bias(graph, add, f.weight());
                List<Node> matched = add == null || bias == null ? List.of(matmul) : List.of(matmul, add.node());
                yield fused(graph, matched, matmul, f.weight(), bias);
            }
        };
    }

    /** The other side of an Add when it is a constant [out] of the weight's type; anything else stays an Add of its own. */
    private static @Nullable Bias bias(GraphFacts graph, GraphFacts.Reader add, Weight weight) {
        String side = add.other();
        GraphFacts.Constant c = side == null ? null : graph.vector(side);
        return c != null
                        && c.tensor().shape().elementCount() == weight.out()
                        && c.tensor().dtype() == weight.spec().dtype()
                ? new Bias(c.name(), null)
                : null;
    }

    // case 2
    private static Outcome ofGemm(GraphFacts graph, Node gemm) {
        WeightSide side = weight(graph, gemm.input(1));
        if (side instanceof Computed) {
            return Outcome.NO_MATCH;
        }
        if (side instanceof Unfit u) {
            return Outcome.refused(gemm, u.reason());
        }
        if (graph.constant(gemm.input(0)) != null) {
            return Outcome.refused(gemm, "both factors are constant");
        }
        if (gemm.intAttribute("transA", 0) != 0) {
            return Outcome.refused(gemm, "the input is transposed (transA = 1)");
        }
        if (gemm.floatAttribute("alpha", 1) != 1 || (gemm.hasInput(2) && gemm.floatAttribute("beta", 1) != 1)) {
            return Outcome.refused(gemm, "alpha and beta are not 1");
        }
        Weight found = ((Found) side).weight();
        Weight w = gemm.intAttribute("transB", 0) == 0
                ? found
                : new Weight(found.name(), found.spec(), !found.transposed(), found.made());
        if (!gemm.hasInput(2)) {
            return fused(graph, List.of(gemm), gemm, w, null);
        }
        Bias bias = gemmBias(graph, gemm, w);
        return bias == null
                ? Outcome.refused(gemm, "bias '" + gemm.input(2) + "' is not a constant of shape [" + w.out() + "]")
                : fused(graph, List.of(gemm), gemm, w, bias);
    }

    /** Gemm's C when it is a constant [out], or [1, out], which is stored anew as [out]. */
    private static @Nullable Bias gemmBias(GraphFacts graph, Node gemm, Weight w) {
        GraphFacts.Constant c = graph.constant(gemm.input(2));
        if (c == null || c.tensor().dtype() != w.spec().dtype()) {
            return null;
        }
        if (c.tensor().shape().equals(Shape.of(w.out()))) {
            return new Bias(c.name(), null);
        }
        if (c.tensor().shape().equals(Shape.of(1, w.out()))) {
            String name = c.name() + ".flat";
            return new Bias(name, Initializer.of(GraphFacts.flattened(c.tensor(), name)));
        }
        return null;
    }

    // cases 3 and 4
    private static WeightSide weight(GraphFacts graph, String value) {
        String v = graph.bare(value);
        boolean transposed = false;
        DType wanted = null;
        int casts = 0;
        while (true) {
            Node transpose = graph.producer(v, "Transpose");
            Node cast = graph.producer(v, "Cast");
            if (transpose != null) {
                if (!transpose.intsAttribute("perm").orElse(List.of(1L, 0L)).equals(List.of(1L, 0L))) {
                    return graph.constant(transpose.input(0)) == null
                            ? new Computed()
                            : new Unfit("weight '" + v + "' is not 2-D");
                }
                transposed = !transposed;
                v = graph.bare(transpose.input(0));
            } else if (cast != null) {
                wanted = casts++ == 0 ? graph.dtype(v) : wanted;
                v = graph.bare(cast.input(0));
            } else {
                break;
            }
        }
        TensorSpec constant = graph.matrix(v);
        if (constant != null) {
            if (casts > 1) {
                return new Unfit("weight '" + constant.name() + "' is cast more than once");
            }
            return weight(graph, constant, transposed, wanted);
        }
        if (graph.isOverridable(v)) {
            return new Unfit("weight '" + v + "' is also a graph input, so callers may override it");
        }
        Node dequantize = graph.producer(v, "DequantizeLinear");
        return dequantize != null && graph.constant(dequantize.input(0)) != null
                ? new Unfit("weight '" + dequantize.input(0) + "' is quantised already")
                : new Computed();
    }

    private static WeightSide weight(
            GraphFacts graph, TensorSpec constant, boolean transposed, @Nullable DType wanted) {
        if (constant.shape().rank() != 2) {
            return new Unfit("weight '" + constant.name() + "' is not 2-D: " + constant.shape());
        }
        if (!GraphFacts.isWeightType(constant.dtype())) {
            return new Unfit("weight '" + constant.name() + "' is " + constant.dtype() + ", not F32, F16 or BF16");
        }
        if (wanted == null || wanted == constant.dtype()) {
            return new Found(new Weight(constant.name(), constant, transposed, null));
        }
        GraphFacts.Constant dense = graph.constant(constant.name());
        if (wanted != DType.F32 || dense == null) {
            return new Unfit("weight '" + constant.name() + "' is cast from " + constant.dtype() + " to " + wanted);
        }
        String name = constant.name() + ".f32";
        Tensor wide = GraphFacts.widened(dense.tensor(), name);
        return new Found(new Weight(name, wide.spec(), transposed, Initializer.of(wide)));
    }

    private static Outcome fused(GraphFacts graph, List<Node> nodes, Node product, Weight w, @Nullable Bias bias) {
        List<Node> matched = graph.closed(nodes);
        String leak = graph.leak(matched);
        if (leak != null) {
            return Outcome.refused(product, leak);
        }
        List<String> inputs = new ArrayList<>(List.of(product.input(0), w.name()));
        List<Initializer> made = new ArrayList<>();
        if (w.made() != null) {
            made.add(w.made());
        }
        if (bias != null) {
            inputs.add(bias.name());
            if (bias.made() != null) {
                made.add(bias.made());
            }
        }
        Node linear = Node.of(
                        name(product, w.name()),
                        CanonicalOps.LINEAR,
                        Node.OCTET_DOMAIN,
                        inputs,
                        List.of(matched.getLast().output()),
                        Attribute.of("transB", w.transposed() ? 1 : 0))
                .withMetadata(ModulePath.metadataFor(product));
        return new Outcome.Fused(matched, linear, made);
    }

    /**
     * The module, or the one inside it that the weight belongs to: {@code nn.MultiheadAttention} calls the function for the projection
     * {@code out_proj} itself.
     */
    private static String name(Node product, String weight) {
        ModulePath path = ModulePath.of(product);
        int end = weight.lastIndexOf(".weight");
        return path != null
                        && end > 0
                        && weight.startsWith(path.dotted() + ".")
                        && end > path.dotted().length()
                ? path + "/" + weight.substring(path.dotted().length() + 1, end)
                : ModulePath.nameFor(product);
    }

    // case 5
    private static Outcome ofConv(GraphFacts graph, Node conv) {
        GraphFacts.Constant c = graph.constant(conv.input(1));
        if (c == null || c.tensor().shape().rank() < 3 || conv.intAttribute("group", 1) != 1) {
            return Outcome.NO_MATCH;
        }
        long[] shape = c.tensor().shape().toArray();
        List<Long> kernel = new ArrayList<>();
        for (int i = 2; i < shape.length; i++) {
            kernel.add(shape[i]);
        }
        List<Long> ones = kernel.stream().map(_ -> 1L).toList();
        boolean padded = conv.intsAttribute("pads").orElse(List.of()).stream().anyMatch(p -> p != 0);
        boolean dilated = !conv.intsAttribute("dilations").orElse(ones).equals(ones);
        if (padded || dilated) {
            return Outcome.NO_MATCH;
        }
        if (kernel.equals(ones)) {
            return Outcome.refused(conv, "1x1 Conv, kept");
        }
        return conv.intsAttribute("strides").orElse(ones).equals(kernel)
                ? Outcome.refused(conv, "Conv with kernel = stride (patch embedding), kept")
                : Outcome.NO_MATCH;
    }
}
