package dev.octet.trainer.qat;

import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.number.CodeGrid;
import dev.octet.trainer.op.qat.GridQuantize;
import dev.octet.trainer.qat.FakeQuantizer.Place;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * What a checkpoint has of one fake quantisation: what a reader of codes needs to compute as training did.
 *
 * @param quantizer what it quantises, and how
 * @param values of its parameters, F32, in the order of the blocks of what it quantises as that lies: a weight that lies as [in, out] has its scales in that order
 */
public record LearnedScales(FakeQuantizer quantizer, Map<Place, Tensor> values) {
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
        for (FakeQuantizer q : graph.quantizers()) {
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

    /**
     * The multipliers of a weight's codes, one for each block as it lies, bit for bit those that the forward pass multiplied with; those of method
     * {@link Method#DYNAMIC} follow from its values.
     *
     * @param weight the master, F32
     * @return as many as the weight has blocks, F32
     */
    public float[] scales(Tensor weight) {
        if (quantizer.settings().method() != Method.DYNAMIC) {
            return scales();
        }
        Blocks blocks = quantizer.form().blocks(weight.shape());
        float[] amax = new float[Math.toIntExact(blocks.scaleCount())];
        float[] elements = weight.toFloats();
        for (int i = 0; i < elements.length; i++) {
            int block = (int) blocks.scaleOf(i);
            amax[block] = Math.max(amax[block], Math.abs(elements[i]));
        }
        return steps(amax);
    }

    /**
     * What the forward pass multiplied with in a weight's place: codes times scales.
     *
     * @param weight the master, F32
     * @param arena owns the result
     * @return F32 of the same name, as the weight lies
     */
    public Tensor forward(Tensor weight, Arena arena) {
        float[] post = scales(weight);
        Tensor before = values.get(Place.PRE_AMAX);
        float[] pre = before == null ? post : steps(before.toFloats());
        Blocks blocks = quantizer.form().blocks(weight.shape());
        CodeGrid grid = quantizer.settings().grid();
        Tensor zero = values.get(Place.ZERO_POINT);
        float[] zeros = zero == null ? null : zero.toFloats();
        float[] elements = weight.toFloats();
        boolean squeezed = quantizer.settings().method() == Method.DOREFA && !(grid instanceof CodeGrid.Signs);
        if (squeezed) {
            squeeze(elements);
        }
        for (int i = 0; i < elements.length; i++) {
            int block = (int) blocks.scaleOf(i);
            float y = zeros == null
                    ? grid.nearest(elements[i] / pre[block]) * post[block]
                    : moved(grid, elements[i] / pre[block], grid.nearest(zeros[block])) * post[block];
            elements[i] = squeezed ? y * 2 - 1 : y;
        }
        return Tensor.ofFloats(arena, weight.name(), weight.shape(), elements);
    }

    /** A code under a zero point, less that. */
    private static float moved(CodeGrid grid, float ratio, float zero) {
        return Math.clamp((float) Math.rint(ratio) + zero, grid.low(), grid.high()) - zero;
    }

    /** DoReFa's tanh(w) / (2 max |tanh(w)|) + 1/2. */
    private static void squeeze(float[] elements) {
        float max = 0;
        for (int i = 0; i < elements.length; i++) {
            elements[i] = (float) Math.tanh(elements[i]);
            max = Math.max(max, Math.abs(elements[i]));
        }
        for (int i = 0; i < elements.length; i++) {
            elements[i] = elements[i] / (max * 2) + 0.5f;
        }
    }

    /** The multipliers of codes, one for each block, bit for bit those that the forward pass multiplied with. */
    public float[] scales() {
        Tensor given = values.get(Place.SCALE);
        Tensor tensor = given != null ? given : values.get(Place.AMAX);
        if (tensor == null) {
            throw new IllegalStateException(quantizer.name() + " has no scales");
        }
        return steps(tensor.toFloats());
    }

    /** The scale above scales of two levels; empty for one level. */
    public Optional<Float> global() {
        return Optional.ofNullable(values.get(Place.GLOBAL_SCALE)).map(t -> t.toFloats()[0]);
    }

    private float[] steps(float[] scales) {
        float global = global().orElse(1f);
        GridQuantize.Form form = quantizer.form().form();
        for (int i = 0; i < scales.length; i++) {
            scales[i] = form.step(quantizer.settings().grid(), scales[i], global);
        }
        return scales;
    }
}
