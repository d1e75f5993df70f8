package dev.octet.converter.trained;

import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.number.Float8Format;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Decodes the weights of a rewritten graph. */
public final class CodedWeights {
    private CodedWeights() {}

    /**
     * Decodes the weights of Linears.
     *
     * @param canonical the graph before
     * @param rewritten the graph after, with codes under the weights' names in the same orientation, and their scales
     * @param weights of converted Linears, by node id
     * @param arena owns the result
     * @return F32 by name, without weights that are not found in this form
     */
    public static Map<String, Tensor> decoded(
            Graph canonical, Graph rewritten, Map<String, String> weights, Arena arena) {
        Map<String, Tensor> decoded = new LinkedHashMap<>();
        for (Node n : canonical.nodes()) {
            String weight = weights.get(n.id());
            Tensor codes = weight == null ? null : constant(rewritten, weight);
            Tensor scale = weight == null ? null : constant(rewritten, StoredWeight.moduleOf(weight) + ".weight_scale");
            if (weight != null && codes != null && scale != null && codes.dtype() == DType.F8_E4M3FN) {
                boolean outLast = n.intAttribute("transB", 0) == 0;
                decoded.put(weight, decoded(codes, scale, outLast, arena));
            }
        }
        return decoded;
    }

    private static @Nullable Tensor constant(Graph graph, String name) {
        Initializer i = graph.initializers().get(name);
        return i == null ? null : i.tensor().orElse(null);
    }

    private static Tensor decoded(Tensor codes, Tensor scale, boolean outLast, Arena arena) {
        Shape shape = codes.shape();
        Tensor values = Tensor.allocate(arena, new TensorSpec(codes.name(), DType.F32, shape));
        float[] table = Float8Format.E4M3FN.decodeTable();
        long cols = shape.dim(1);
        boolean one = scale.shape().elementCount() == 1;
        for (long i = 0; i < shape.elementCount(); i++) {
            long channel = one ? 0 : outLast ? i % cols : i / cols;
            float s = Floats.get(scale.dtype(), scale.bytes(), channel);
            values.bytes().set(Tensor.F32_LE, i * 4, table[codes.bytes().get(ValueLayout.JAVA_BYTE, i) & 0xFF] * s);
        }
        return values;
    }
}
