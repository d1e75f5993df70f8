package dev.octet.trainer.qat;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.scale.StoredScale;
import dev.octet.trainer.qat.FakeQuantizer.Place;
import java.lang.foreign.Arena;
import java.util.Map;
import java.util.TreeMap;

/** Scales rounded to the type that they will be stored in, so that what is trained afterwards is what a reader computes. */
public final class FoldedScales {
    private FoldedScales() {}

    /**
     * The scales of a graph, rounded.
     *
     * @param type F32, BF16, F16 or F8_E8M0
     * @param parameters current values, by name; others are ignored
     * @param arena owns what is made
     */
    public static Map<String, Tensor> of(
            QuantizedGraph graph, DType type, Map<String, Tensor> parameters, Arena arena) {
        Map<String, Tensor> folded = new TreeMap<>();
        for (FakeQuantizer q : graph.quantizers()) {
            String name = q.parameters().get(Place.SCALE);
            Tensor now = name == null ? null : parameters.get(name);
            if (name != null && now != null) {
                float[] scales = now.toFloats();
                for (int i = 0; i < scales.length; i++) {
                    scales[i] = StoredScale.round(Math.max(scales[i], Float.MIN_NORMAL), type);
                }
                folded.put(name, Tensor.ofFloats(arena, name, now.shape(), scales));
            }
        }
        return folded;
    }
}
