package dev.octet.converter.restore;

import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * A graph in which 16-bit constants that are cast to F32 become F32 constants: patterns expect constants in the type they compute in, or
 * widen them so that the original type is lost.
 *
 * @param narrow the constants in the file's type, by the address of the F32 elements, which renaming does not change
 */
public record WidenedConstants(GraphModel model, Map<Long, Tensor> narrow) {
    public WidenedConstants {
        narrow = Map.copyOf(narrow);
    }

    /** @param arena owns the F32 constants */
    public static WidenedConstants of(GraphModel model, Arena arena) {
        GraphEdit edit = GraphEdit.of(model.graph());
        Map<Long, Tensor> narrow = new LinkedHashMap<>();
        for (Node n : edit.nodes()) {
            boolean widens = edit.contains(n)
                    && n.is("Cast")
                    && n.intAttribute("to", 0) == DType.F32.onnxId()
                    && !edit.isOutput(n.output());
            Initializer constant = widens && !edit.isInput(n.input(0)) ? edit.initializer(n.input(0)) : null;
            Tensor t = constant == null ? null : constant.tensor().orElse(null);
            if (t != null && (t.dtype() == DType.F16 || t.dtype() == DType.BF16)) {
                String name = edit.freshName(n.output());
                Tensor wide = Tensor.allocate(arena, new TensorSpec(name, DType.F32, t.shape()));
                for (long i = 0; i < t.shape().elementCount(); i++) {
                    short bits = t.bytes().get(Tensor.I16_LE, 2 * i);
                    float value =
                            t.dtype() == DType.BF16 ? Float.intBitsToFloat(bits << 16) : Float.float16ToFloat(bits);
                    wide.bytes().set(Tensor.F32_LE, 4 * i, value);
                }
                edit.remove(n);
                edit.putInitializer(Initializer.of(wide));
                edit.redirect(n.output(), name);
                narrow.put(wide.bytes().address(), t);
            }
        }
        return narrow.isEmpty()
                ? new WidenedConstants(model, Map.of())
                : new WidenedConstants(model.withGraph(edit.build()), narrow);
    }
}
