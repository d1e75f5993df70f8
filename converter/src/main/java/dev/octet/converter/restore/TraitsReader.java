package dev.octet.converter.restore;

import dev.octet.converter.hf.GraphTraits;
import dev.octet.converter.rule.CanonicalOps;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalInt;
import org.jspecify.annotations.Nullable;

/** Reads {@link GraphTraits} off a graph. */
final class TraitsReader {
    /** No transformer in use is deeper, and the comparison of graphs would recurse too deep. */
    static final int MAX_LAYERS = 256;

    private final FixedGraph graph;
    private final Map<String, Shape> named;
    private final OptionalInt window;
    private final String where;

    private TraitsReader(FixedGraph graph, Map<String, Shape> named, OptionalInt window, String where) {
        this.graph = graph;
        this.named = named;
        this.window = window;
        this.where = where;
    }

    /**
     * @param named shapes of constants by the names of parameters
     * @param window number of positions in the attention window, read while sizes were symbols
     * @param notes why attention was not fused, for the message
     * @throws UnsupportedModelException when a part of a transformer is missing; names the part
     */
    static GraphTraits of(
            FixedGraph graph, Map<String, Shape> named, OptionalInt window, List<String> notes, String where) {
        return new TraitsReader(graph, named, window, where).read(notes);
    }

    private GraphTraits read(List<String> notes) {
        List<Node> attentions =
                graph.nodes().stream().filter(n -> n.is("Attention")).toList();
        boolean mixed = named.keySet().stream().anyMatch(n -> n.contains(".experts."));
        if (attentions.isEmpty() && !mixed) {
            throw missing("there is no attention in it" + (notes.isEmpty() ? "" : " (" + notes.getFirst() + ")"));
        }
        if (attentions.size() > MAX_LAYERS) {
            throw missing("it has " + attentions.size() + " attentions, at most " + MAX_LAYERS + " are looked at");
        }
        Node norm = norms().getLast();
        int hidden = width(norm);
        Heads heads = attentions.isEmpty() ? headsOfScores() : Heads.of(graph, attentions.getFirst());
        if (heads == null) {
            throw missing("the heads of attention are not known");
        }
        Mlp mlp = mlp(hidden, mixed);
        Map<FixedGraph.Index, Integer> tables = tables();
        Node conv = graph.nodes().stream().filter(n -> n.is("Conv")).findFirst().orElse(null);
        List<Long> kernel = conv == null ? List.of() : kernel(conv);
        ValueInfo output = graph.outputs().getFirst();
        List<Long> shape = graph.shape(output.name());
        boolean headNorms = norms().stream().anyMatch(n -> width(n) == heads.size() && width(n) != hidden);
        return new GraphTraits(
                norm.isOctet(CanonicalOps.RMS_NORM),
                graph.constant(norm.input(1)) == null,
                epsilon(norm),
                hidden,
                attentions.size(),
                heads.heads(),
                heads.keyHeads(),
                heads.size(),
                headNorms,
                mlp.inner(),
                mlp.activation(),
                tables.getOrDefault(FixedGraph.Index.TOKENS, 0),
                tables.getOrDefault(FixedGraph.Index.POSITIONS, 0),
                tables.getOrDefault(FixedGraph.Index.TYPES, 0),
                conv == null ? List.of() : lastTwo(imageShape()),
                conv == null ? List.of() : lastTwo(kernel),
                conv == null ? 0 : kernel.get(1).intValue(),
                graph.outputs().size(),
                shape.size(),
                shape.isEmpty() ? 0 : shape.getLast().intValue(),
                headed(output),
                frequencies(heads.size() == 0 ? hidden : heads.size()),
                window,
                named,
                best());
    }

    /** Where attention is spelled in single operators: the second of four axes of its softmax. How large a head is does not show there. */
    private @Nullable Heads headsOfScores() {
        for (Node n : graph.nodes()) {
            List<Long> shape = n.is("Softmax") ? graph.shape(n.input(0)) : List.of();
            if (shape.size() == 4) {
                int heads = shape.get(1).intValue();
                return new Heads(heads, heads, 0, 1);
            }
        }
        return null;
    }

    private List<Integer> best() {
        List<Integer> best = new ArrayList<>();
        for (Node n : graph.nodes()) {
            Tensor k = n.is("TopK") ? graph.constant(n.input(1)) : null;
            if (k != null && k.dtype() == DType.I64 && k.shape().elementCount() == 1) {
                best.add((int) k.toLongs()[0]);
            }
        }
        return best;
    }

    private UnsupportedModelException missing(String what) {
        return Refusal.of(what, where);
    }

    private List<Node> norms() {
        List<Node> norms = graph.nodes().stream()
                .filter(n -> n.isOctet(CanonicalOps.LAYER_NORM) || n.isOctet(CanonicalOps.RMS_NORM))
                .filter(n -> graph.constant(weight(n)) != null)
                .toList();
        if (norms.isEmpty()) {
            throw missing("there is no LayerNorm or RMSNorm in it");
        }
        return norms;
    }

    /** The parameter of a norm's factor: the factor itself, or w of the factor 1 + w. */
    private String weight(Node norm) {
        Node n = graph.maker(norm.input(1));
        if (n == null || !n.is("Add")) {
            return norm.input(1);
        }
        return n.inputs().stream()
                .filter(i -> !graph.isNumber(i, 1))
                .findFirst()
                .filter(i -> n.inputs().stream().anyMatch(other -> graph.isNumber(other, 1)))
                .orElse(norm.input(1));
    }

    private int width(Node norm) {
        return (int)
                Objects.requireNonNull(graph.constant(weight(norm))).shape().elementCount();
    }

    /** The shortest decimal of the F32 epsilon: 1e-12, not 9.999999960041972e-13. */
    private static double epsilon(Node norm) {
        return Double.parseDouble(Float.toString(norm.floatAttribute("epsilon", 1e-5f)));
    }

    /** A Linear from the hidden size, and the activation after it. */
    private record Mlp(int inner, String activation) {}

    private Mlp mlp(int hidden, boolean mixed) {
        String other = null;
        for (Node n : graph.nodes()) {
            String activation = activation(n);
            Node linear = activation == null ? null : graph.maker(n.input(0));
            if (activation != null && linear != null && linear.isOctet(CanonicalOps.LINEAR)) {
                Tensor w = graph.constant(linear.input(1));
                int transB = (int) linear.intAttribute("transB", 0);
                if (w != null && w.shape().rank() == 2 && w.shape().dim(transB) == hidden) {
                    return new Mlp((int) w.shape().dim(1 - transB), activation);
                }
            }
            other = activation == null || activation.equals("sigmoid") ? other : activation;
        }
        if (mixed && other != null) { // products of experts may be no Linears
            return new Mlp(0, other);
        }
        throw missing("it has no MLP: no Linear from the hidden size " + hidden + " with an activation after it");
    }

    /** The transformers name of the activation that ends at a node; null if none ends there. */
    private @Nullable String activation(Node n) {
        if (n.isOctet(CanonicalOps.GELU)) {
            return n.textAttribute("approximate", "none").equals("tanh") ? "gelu_new" : "gelu";
        }
        if (n.is("Sigmoid")) {
            boolean gated = graph.nodes().stream()
                    .anyMatch(m -> m.is("Mul")
                            && m.inputs().contains(n.output())
                            && m.inputs().contains(n.input(0)));
            return gated ? "silu" : "sigmoid";
        }
        return n.is("Relu") ? "relu" : n.is("Tanh") ? "tanh" : null;
    }

    private Map<FixedGraph.Index, Integer> tables() {
        Map<FixedGraph.Index, Integer> rows = new HashMap<>();
        for (Node n : graph.nodes()) {
            Tensor table = n.is("Gather") ? graph.constant(n.input(0)) : null;
            if (table != null && table.dtype().isFloat() && table.shape().rank() == 2) {
                rows.putIfAbsent(graph.index(n.input(1)), (int) table.shape().dim(0));
            }
        }
        return rows;
    }

    private List<Long> imageShape() {
        return graph.shape(OnnxInputs.PIXELS);
    }

    private List<Long> kernel(Node conv) {
        Tensor kernel = graph.constant(conv.input(1));
        if (kernel == null || kernel.shape().rank() != 4 || imageShape().size() != 4) {
            throw missing("its convolution " + conv.id() + " has no constant kernel over images");
        }
        List<Long> dims = new ArrayList<>();
        for (long d : kernel.shape().toArray()) {
            dims.add(d);
        }
        return dims;
    }

    private static List<Integer> lastTwo(List<Long> dims) {
        return List.of(dims.get(2).intValue(), dims.get(3).intValue());
    }

    private boolean headed(ValueInfo output) {
        Node maker = graph.maker(output.name());
        return output.type() instanceof TensorType && maker != null && maker.isOctet(CanonicalOps.LINEAR);
    }

    /** Decreasing constants of a cosine's input, at most one for each pair; or angles of a table's second row. */
    private List<Float> frequencies(int headSize) {
        for (Node n : graph.nodes()) {
            if (n.is("Cos")) {
                for (Tensor t : graph.floatsBehind(n.input(0), headSize)) {
                    List<Float> all = floats(t.toFloats());
                    List<Float> once = all.size() % 2 == 0
                                    && all.subList(0, all.size() / 2).equals(all.subList(all.size() / 2, all.size()))
                            ? all.subList(0, all.size() / 2)
                            : all;
                    if (once.size() > 1 && 2 * once.size() <= headSize && falls(once)) {
                        return once;
                    }
                }
            }
        }
        return tableFrequencies(headSize);
    }

    private List<Float> tableFrequencies(int headSize) {
        for (Node n : graph.nodes()) {
            if (n.is("RotaryEmbedding")) {
                Tensor cos = table(n.input(1));
                Tensor sin = table(n.input(2));
                if (cos != null
                        && sin != null
                        && cos.shape().equals(sin.shape())
                        && cos.shape().dim(0) > 1) {
                    int pairs = (int) cos.shape().dim(1);
                    float[] c = cos.toFloats();
                    float[] s = sin.toFloats();
                    List<Float> f = new ArrayList<>();
                    for (int i = 0; i < pairs; i++) {
                        f.add((float) Math.atan2(s[pairs + i], c[pairs + i]));
                    }
                    return 2 * pairs <= headSize && falls(f) ? f : List.of();
                }
            }
        }
        return List.of();
    }

    private @Nullable Tensor table(String value) {
        Node n = graph.maker(value);
        Tensor t = graph.constant(n != null && (n.is("Gather") || n.is("Slice")) ? n.input(0) : value);
        return t != null && t.dtype() == DType.F32 && t.shape().rank() == 2 ? t : null;
    }

    private static List<Float> floats(float[] values) {
        List<Float> all = new ArrayList<>();
        for (float v : values) {
            all.add(v);
        }
        return all;
    }

    private static boolean falls(List<Float> values) {
        for (int i = 0; i < values.size(); i++) {
            if (!(values.get(i) > 0) || (i > 0 && values.get(i) >= values.get(i - 1))) {
                return false;
            }
        }
        return true;
    }
}
