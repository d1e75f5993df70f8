package dev.octet.converter.transform;

import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.transform.SmoothFactors;
import dev.octet.quant.transform.Transform;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * SmoothQuant on a graph: channels of what Linears read are divided by factors, columns of their weights multiplied, so that both lose less when
 * they are rounded.
 *
 * <p>A norm whose output goes nowhere else takes the division in, as in checkpoints. Elsewhere, behind the residual of BERT or behind GELU, one Mul
 * by a constant vector goes in front of the Linears; it takes as long as adding a bias.
 *
 * <p>Factors are rounded to powers of two, with which products and quotients of floats are exact: the changed model gives the same numbers, bit for
 * bit, but where a number leaves the range of normal floats. The best factor is known no better than that.
 */
public final class GraphSmoothing {
    /** Largest magnitude of a factor's logarithm: 2^-14 is the least normal number of F16, which a model may compute in. */
    private static final int MOST_POWER = 14;

    private final GraphEdit edit;
    private final ModelStructure structure;
    private final double alpha;
    private final Arena arena;
    private final List<TransformStep> folds = new ArrayList<>();
    private final Map<String, Changed> changed = new LinkedHashMap<>();

    private GraphSmoothing(GraphModel model, double alpha, Arena arena) {
        this.structure = new ModelStructure(model.graph());
        this.edit = structure.graph();
        this.alpha = alpha;
        this.arena = arena;
    }

    /**
     * What became of a value that Linears read.
     *
     * @param value what they read now: the same where a norm took the factors in
     * @param change from the value before to this one
     */
    public record Changed(String value, InputChange change) {}

    /**
     * A graph with its inputs smoothed.
     *
     * @param folds what was done, one for each input
     * @param inputs the smoothed ones, by the values that Linears read before
     */
    public record Result(GraphModel model, List<TransformStep> folds, Map<String, Changed> inputs) {
        public Result {
            folds = List.copyOf(folds);
            inputs = Map.copyOf(inputs);
        }
    }

    /**
     * Smooths.
     *
     * @param canonical Linears and norms in Octet's domain
     * @param amax largest magnitude of each channel, by the value that Linears read; other values stay as they are
     * @param arena owns the new constants
     * @throws UnsupportedModelException when no Linear reads any of the values alone
     */
    public static Result apply(
            GraphModel canonical, Map<String, float[]> amax, Transform.SmoothQuant how, Arena arena) {
        GraphSmoothing smoothing = new GraphSmoothing(canonical, how.alpha(), arena);
        for (InputSite site : smoothing.structure.sites()) {
            float[] inputs = amax.get(site.value());
            if (inputs != null && inputs.length == site.channels() && smoothing.areOwn(site.readers())) {
                smoothing.smooth(how.text(), site, inputs);
            }
        }
        if (smoothing.folds.isEmpty()) {
            throw new UnsupportedModelException(
                    "SmoothQuant finds no Linear whose input is quantised and whose weight is its own",
                    amax.size() + " values are quantised",
                    "leave --transform out");
        }
        return new Result(canonical.withGraph(smoothing.edit.build()), smoothing.folds, smoothing.changed);
    }

    /** Whether nothing else reads the weights. */
    private boolean areOwn(List<GraphLinear> readers) {
        return readers.stream().allMatch(l -> edit.hasSingleUse(l.weight()));
    }

    private void smooth(String transform, InputSite site, float[] inputs) {
        float[] factors = factors(site, inputs);
        List<String> modules = new ArrayList<>();
        for (GraphLinear l : site.readers()) {
            scale(l.weight(), (row, column) -> factors[(int) (l.outIn() ? column : row)]);
            modules.add(l.module());
        }
        InputChange change = InputChange.divided(() -> doubles(factors));
        if (site.maker() instanceof InputSite.Norm norm && norm.around() == 0) {
            changed.put(site.value(), new Changed(site.value(), change));
            scale(norm.weight(), (_, column) -> 1 / factors[(int) column]);
            if (norm.bias() != null) {
                scale(norm.bias(), (_, column) -> 1 / factors[(int) column]);
            }
            folds.add(new TransformStep(
                    transform, norm.text(), modules, "channels of " + norm.text() + " / s, inputs of the Linears x s"));
        } else {
            String divided = divide(site, factors);
            changed.put(site.value(), new Changed(divided, change));
            folds.add(new TransformStep(transform, divided, modules, "a Mul by 1 / s, inputs of the Linears x s"));
        }
    }

    private static double[] doubles(float[] factors) {
        double[] all = new double[factors.length];
        for (int c = 0; c < all.length; c++) {
            all[c] = factors[c];
        }
        return all;
    }

    /** Powers of two; 1 where nothing was seen, for what was never seen may be large. */
    private float[] factors(InputSite site, float[] inputs) {
        float[] weights = new float[inputs.length];
        for (GraphLinear l : site.readers()) {
            Tensor w = constant(l.weight());
            long columns = w.shape().dim(1);
            for (long i = 0; i < w.shape().elementCount(); i++) {
                int input = (int) (l.outIn() ? i % columns : i / columns);
                weights[input] = Math.max(weights[input], Math.abs(Floats.get(w.dtype(), w.bytes(), i)));
            }
        }
        double[] exact = SmoothFactors.of(inputs, weights, alpha);
        double mean = 0;
        int seen = 0;
        for (int c = 0; c < exact.length; c++) {
            if (inputs[c] > 0 && weights[c] > 0) {
                mean += Math.log(exact[c]);
                seen++;
            }
        }
        float[] factors = new float[exact.length];
        for (int c = 0; c < exact.length; c++) {
            // around 1, so that half precision keeps its range
            double log2 = (Math.log(exact[c]) - mean / Math.max(1, seen)) / Math.log(2);
            int power = Math.clamp((long) Math.rint(log2), -MOST_POWER, MOST_POWER);
            factors[c] = inputs[c] > 0 && weights[c] > 0 ? Math.scalb(1f, power) : 1;
        }
        return factors;
    }

    /** Puts a Mul before the first Linear of a site and has all of them read it; its id. */
    private String divide(InputSite site, float[] factors) {
        List<Node> readers = edit.consumers(site.value()).stream()
                .filter(n -> structure.linear(n).isPresent() && n.input(0).equals(site.value()))
                .toList();
        ValueType type = edit.type(site.value());
        DType computed = type instanceof ValueType.TensorType t && t.dtype() != null
                ? t.dtype()
                : constant(site.readers().getFirst().weight()).dtype();
        String smooth = edit.freshName(site.value() + "_smooth");
        String by = edit.freshName(site.readers().getFirst().module() + ".input_smooth");
        Tensor inverse = Tensor.allocate(arena, new TensorSpec(by, computed, Shape.of(factors.length)));
        for (int c = 0; c < factors.length; c++) {
            Floats.set(computed, inverse.bytes(), c, 1 / factors[c]);
        }
        edit.putInitializer(Initializer.of(inverse));
        edit.insertBefore(readers.getFirst(), Node.of(smooth, "Mul", List.of(site.value(), by), List.of(smooth)));
        if (type != null) {
            edit.putValueInfo(new ValueInfo(smooth, type));
        }
        for (Node n : readers) {
            List<String> inputs = new ArrayList<>(n.inputs());
            inputs.set(0, smooth);
            edit.replace(n, n.withInputs(inputs));
        }
        return smooth;
    }

    /** What an element of a matrix is multiplied by; vectors are one row. */
    @FunctionalInterface
    private interface Factor {
        float of(long row, long column);
    }

    private void scale(String name, Factor factor) {
        Tensor t = constant(name);
        long columns = t.shape().dim(-1);
        // a constant with a recovered name holds a tensor of another
        Tensor scaled = Tensor.allocate(arena, new TensorSpec(name, t.dtype(), t.shape()));
        for (long i = 0; i < t.shape().elementCount(); i++) {
            float value = Floats.get(t.dtype(), t.bytes(), i) * factor.of(i / columns, i % columns);
            Floats.set(t.dtype(), scaled.bytes(), i, value);
        }
        edit.putInitializer(Initializer.of(scaled));
    }

    private Tensor constant(String name) {
        return Objects.requireNonNull(edit.initializer(name)).tensor().orElseThrow();
    }
}
