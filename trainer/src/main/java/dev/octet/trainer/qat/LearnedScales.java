package dev.octet.trainer.qat;

import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.op.qat.GridQuantize;
import dev.octet.trainer.qat.Quantizer.Place;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;

/**
 * What a checkpoint has of one fake quantisation: what a reader of codes needs to compute as training did.
 *
 * @param quantizer what it quantises, and how
 * @param values of its parameters, F32, in the order of the blocks of what it quantises as that lies: a weight that lies as [in, out] has its scales in that order
 */
public record LearnedScales(Quantizer quantizer, Map<Place, Tensor> values) {
    public LearnedScales {
        values = Collections.unmodifiableMap(values.isEmpty() ? new EnumMap<>(Place.class) : new EnumMap<>(values));
    }

    /**
     * Those of all quantisers of a graph that a checkpoint has values for; the others were never executed.
     *
     * @param parameters of the checkpoint, by name
     */
    public static List<LearnedScales> of(QuantizedGraph graph, Map<String, Tensor> parameters) {
        List<LearnedScales> all = new ArrayList<>();
        for (Quantizer q : graph.quantizers()) {
            Map<Place, Tensor> values = new EnumMap<>(Place.class);
            q.parameters().forEach((place, name) -> {
                Tensor value = parameters.get(name);
                if (value != null) {
                    values.put(place, value);
                }
            });
            if (values.size() == q.parameters().size()) {
                all.add(new LearnedScales(q, values));
            }
        }
        return all;
    }

    /** The multipliers of codes, one for each block, bit for bit those that the forward pass multiplied with. */
    public float[] scales() {
        Tensor given = values.get(Place.SCALE);
        Tensor tensor = given != null ? given : values.get(Place.AMAX);
        if (tensor == null) {
            throw new IllegalStateException(quantizer.name() + " has no scales");
        }
        Tensor above = values.get(Place.GLOBAL_SCALE);
        float global = above == null ? 1 : above.toFloats()[0];
        GridQuantize.Form form = quantizer.form().form();
        float[] scales = tensor.toFloats();
        for (int i = 0; i < scales.length; i++) {
            scales[i] = form.step(quantizer.settings().grid(), scales[i], global);
        }
        return scales;
    }
}
