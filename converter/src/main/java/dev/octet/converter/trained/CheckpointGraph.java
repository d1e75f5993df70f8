package dev.octet.converter.trained;

import dev.octet.converter.checkpoint.WeightReader;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.cast.Cast;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.number.Minifloat;
import dev.octet.quant.number.Overflow;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A checkpoint back in the graph it came from, computing what its readers compute: quantised weights are decoded as their layout says, and
 * what their Linears read is quantised and dequantised with the static scale of the file, or with one for each token where the recipe finds
 * scales at run time. Scales of other shapes (groups, MX blocks) are left out on the side of activations.
 *
 * <p>Nothing of what made the file is used, so that a wrong scale in it shows.
 */
public final class CheckpointGraph {
    private static final DType CODES = DType.F8_E4M3FN;

    private final GraphEdit edit;
    private final Arena arena;
    private final boolean dynamicPerToken;

    private CheckpointGraph(GraphEdit edit, Arena arena, boolean dynamicPerToken) {
        this.edit = edit;
        this.arena = arena;
        this.dynamicPerToken = dynamicPerToken;
    }

    /**
     * Puts a checkpoint into a canonical graph.
     *
     * @param canonical F32
     * @param dynamicPerToken inputs of quantised weights without a static scale get one for each token
     * @param arena owns the new constants
     * @throws IOException when the checkpoint cannot be read
     */
    public static GraphModel of(
            GraphModel canonical, StoredCheckpoint stored, WeightReader reader, boolean dynamicPerToken, Arena arena)
            throws IOException {
        GraphEdit edit = GraphEdit.of(canonical.graph());
        CheckpointGraph graph = new CheckpointGraph(edit, arena, dynamicPerToken);
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
        edit.removeUnreachable();
        return canonical.withGraph(edit.build());
    }

    private void linear(Node n, StoredCheckpoint stored, WeightReader reader) throws IOException {
        String weight = n.input(1);
        if (!stored.weights().containsKey(weight) && !stored.plain().containsKey(weight)) {
            return;
        }
        Tensor values = read(weight, reader);
        String state = StoredWeight.moduleOf(weight) + ".fp8.scale_inv_fwd";
        Tensor scales = stored.plain().containsKey(state) ? read(state, reader) : null;
        if (scales != null) {
            round(values, scales.toFloats()[1]);
        }
        boolean turned = n.intAttribute("transB", 0) == 0;
        String name = edit.freshName(weight + "_read");
        edit.putInitializer(Initializer.of((turned ? values.transposed(arena) : values).withName(name)));
        List<String> inputs = new ArrayList<>(n.inputs());
        inputs.set(1, name);
        if (scales != null) { // floats with the state of FP8 modules: their readers quantise both operands
            inputs.set(0, statically(n, n.input(0), scales.toFloats()[0]));
        } else if (stored.weights().containsKey(weight)) {
            inputs.set(0, quantised(n, reader.inputScale(weight)));
        }
        edit.replace(n, n.withInputs(inputs));
    }

    /** To the nearest value that a code stands for. */
    private static void round(Tensor values, float scale) {
        try (Arena scratch = Arena.ofConfined()) {
            MemorySegment codes = scratch.allocate(values.shape().elementCount());
            Cast.best().encode(DType.F32, values.bytes(), scale, Minifloat.E4M3FN, Overflow.SATURATE, codes);
            Cast.best().decode(Minifloat.E4M3FN, codes, scale, DType.F32, values.bytes());
        }
    }

    private String quantised(Node n, @Nullable Float scale) {
        if (scale != null) {
            return statically(n, n.input(0), scale);
        }
        return dynamicPerToken ? perToken(n) : n.input(0);
    }

    private String statically(Node n, String value, float scale) {
        String s = number(value + "_scale", scale);
        String zero = edit.freshName(value + "_zero");
        edit.putInitializer(Initializer.of(Tensor.allocate(arena, new TensorSpec(zero, CODES, Shape.SCALAR))));
        String codes = edit.freshName(value + "_codes");
        String values = edit.freshName(value + "_values");
        edit.insertBefore(
                n,
                Node.of(codes, "QuantizeLinear", List.of(value, s, zero), List.of(codes)),
                Node.of(values, "DequantizeLinear", List.of(codes, s, zero), List.of(values)));
        return values;
    }

    /** scale = max(|x|) / 448 over the last axis; x / scale rounded, times scale. */
    private String perToken(Node n) {
        String axes = edit.freshName(n.id() + "_axes");
        edit.putInitializer(Initializer.of(Tensor.ofLongs(arena, axes, Shape.of(1), -1)));
        String magnitude = node(n, "Abs", List.of(n.input(0)));
        String amax = node(n, "ReduceMax", List.of(magnitude, axes), Attribute.of("keepdims", 1));
        String positive = node(n, "Max", List.of(amax, number(n.id() + "_least", 1e-12f)));
        String scale = node(n, "Div", List.of(positive, number(n.id() + "_max", Minifloat.E4M3FN.maxValue())));
        String codes = node(
                n, "Cast", List.of(node(n, "Div", List.of(n.input(0), scale))), Attribute.of("to", CODES.onnxId()));
        String values = node(n, "Cast", List.of(codes), Attribute.of("to", DType.F32.onnxId()));
        return node(n, "Mul", List.of(values, scale));
    }

    private String node(Node anchor, String type, List<String> inputs, Attribute... attributes) {
        String output = edit.freshName(anchor.id() + "_" + type);
        edit.insertBefore(anchor, Node.of(output, type, inputs, List.of(output), attributes));
        return output;
    }

    private String number(String base, float value) {
        String name = edit.freshName(base);
        edit.putInitializer(Initializer.of(Tensor.ofFloats(arena, name, Shape.SCALAR, value)));
        return name;
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
            edit.putInitializer(Initializer.of(values));
        } // else a matrix that only Linears read, which have their own
    }
}
