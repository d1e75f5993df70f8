package dev.octet.converter.trained;

import static java.util.Objects.requireNonNull;

import dev.octet.converter.checkpoint.QuantizedValues;
import dev.octet.converter.checkpoint.WeightReader;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Puts a checkpoint back into the graph it came from, computing what its readers compute: quantised weights are decoded by their layout,
 * and the inputs of their Linears are quantised and dequantised with the static scale of the file, or with dynamic scales of tokens, groups or blocks.
 *
 * <p>Uses only the file, not the state that made it, so that a wrong scale in the file shows.
 */
public final class CheckpointGraph {
    /** Elements of an input under one scale in NVFP4. */
    private static final int E2M1_GROUP = 16;

    private final GraphEdit edit;
    private final Arena arena;
    private final Reading reading;
    private final QuantizedValues values;

    private CheckpointGraph(GraphEdit edit, Arena arena, Reading reading) {
        this.edit = edit;
        this.arena = arena;
        this.reading = reading;
        this.values = new QuantizedValues(edit, arena);
    }

    /**
     * How to read a checkpoint.
     *
     * @param input how inputs of quantised weights are quantised; null for not, but for those with a static scale
     * @param asHeld matrices are in the graph's orientation; otherwise all are [out, in]
     */
    public record Reading(@Nullable OperandSpec input, boolean asHeld) {}

    /**
     * Puts a checkpoint into a canonical graph.
     *
     * @param canonical F32
     * @param arena owns the new constants
     * @throws IOException when the checkpoint cannot be read
     */
    public static GraphModel of(
            GraphModel canonical, StoredCheckpoint stored, WeightReader reader, Reading reading, Arena arena)
            throws IOException {
        GraphEdit edit = GraphEdit.of(canonical.graph());
        CheckpointGraph graph = new CheckpointGraph(edit, arena, reading);
        for (Node n : edit.nodes()) {
            if (n.isOctet("Linear")) {
                graph.linear(n, stored, reader);
            }
        }
        for (TensorSpec spec : stored.plain().values()) {
            Initializer old = edit.initializer(spec.name());
            if (TrainedWeights.isFloat(spec.dtype())
                    && old != null
                    && old.tensor().isPresent()) {
                graph.put(graph.read(spec.name(), reader), old.tensor().get().shape());
            }
        }
        for (String whole : FusedParts.wholes(canonical.graph())) {
            if (stored.plain().containsKey(whole)) {
                FusedParts.cut(canonical.graph(), graph.read(whole, reader)).forEach(p -> graph.put(p, p.shape()));
            }
        }
        edit.removeUnreachable();
        return canonical.withGraph(edit.build());
    }

    private void linear(Node n, StoredCheckpoint stored, WeightReader reader) throws IOException {
        String weight = n.input(1);
        if (!stored.weights().containsKey(weight) && !stored.plain().containsKey(weight)) {
            return;
        }
        Tensor decoded = read(weight, reader);
        String state = StoredWeight.moduleOf(weight) + ".fp8.scale_inv_fwd";
        Tensor scales = stored.plain().containsKey(state) ? read(state, reader) : null;
        if (scales != null) {
            round(decoded, scales.toFloats()[1]);
        }
        boolean transposed = !reading.asHeld() && n.intAttribute("transB", 0) == 0;
        String name = edit.freshName(weight + "_read");
        edit.putInitializer(Initializer.of((transposed ? decoded.transposed(arena) : decoded).withName(name)));
        List<String> inputs = new ArrayList<>(n.inputs());
        inputs.set(1, name);
        if (scales != null) { // floats with the state of FP8 modules: their readers quantise both operands
            inputs.set(0, values.statically(n, n.input(0), scales.toFloats()[0]));
        } else if (stored.weights().containsKey(weight)) {
            inputs.set(0, quantised(n, weight, decoded.shape().dim(-1), stored, reader));
        }
        edit.replace(n, n.withInputs(inputs));
    }

    /** Rounds to the nearest representable value. */
    private static void round(Tensor values, float scale) {
        try (Arena scratch = Arena.ofConfined()) {
            MemorySegment codes = scratch.allocate(values.shape().elementCount());
            ElementCast.best().encode(DType.F32, values.bytes(), scale, Float8Format.E4M3FN, Overflow.SATURATE, codes);
            ElementCast.best().decode(Float8Format.E4M3FN, codes, scale, DType.F32, values.bytes());
        }
    }

    private String quantised(Node n, String weight, long width, StoredCheckpoint stored, WeightReader reader)
            throws IOException {
        Float scale = reader.inputScale(weight);
        String x = n.input(0);
        QuantType codes = requireNonNull(stored.weights().get(weight)).codes();
        OperandSpec input = reading.input();
        if (codes == QuantType.E2M1) {
            return input == null || scale == null ? x : values.fourBits(n, x, width, E2M1_GROUP, scale);
        }
        if (scale != null) {
            return codes == QuantType.INT8 ? values.integers(n, x, scale) : values.statically(n, x, scale);
        }
        if (input == null) {
            return x;
        }
        return switch (input.granularity()) {
            case Granularity.PerToken _ when input.type().hasZeroPoint() -> values.affinePerToken(n, x);
            case Granularity.PerToken _ when input.type().isInteger() -> values.integers(n, x);
            case Granularity.PerGroup(int _, int size)
            when !input.type().isInteger() && width % size == 0 -> values.perGroup(n, x, width, size);
            case Granularity.Mx(int _, int size) when width % size == 0 -> values.microscaled(n, x, width, size);
            case Granularity.PerToken _, Granularity.PerTensor _ -> values.perToken(n, x);
            // groups that do not divide a row, and what no reader takes for inputs
            case Granularity.PerGroup _, Granularity.Mx _, Granularity.PerChannel _, Granularity.PerBlock _ -> x;
        };
    }

    private Tensor read(String name, WeightReader reader) throws IOException {
        Shape shape = reader.shape(name);
        Tensor values = Tensor.allocate(arena, new TensorSpec(name, DType.F32, shape));
        long rows = shape.rank() < 2 ? 1 : shape.elementCount() / shape.dim(-1);
        reader.read(name, 0, rows, values.bytes());
        return values;
    }

    private void put(Tensor values, Shape wanted) {
        if (values.shape().equals(wanted)) {
            TrainedWeights.replace(edit, values);
        } // else only Linears read the matrix, and they have their own
    }
}
