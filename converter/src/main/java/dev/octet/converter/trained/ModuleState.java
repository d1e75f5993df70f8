package dev.octet.converter.trained;

import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/**
 * The FP8 state of one module under delayed scaling, in Transformer Engine's slots, directions and order: {@code scale} multiplies before
 * the cast, {@code scale_inv} after it; row 0 of a history is pending, and the last row has the newest amax. See
 * docs/export.md#transformer-engine.
 *
 * <pre>
 * m.fp8.scale_fwd, m.fp8.scale_inv_fwd   F32 [3]     input, weight, output (never quantised here: 1)
 * m.fp8.amax_history_fwd                 F32 [L, 3]
 * m.fp8.scale_bwd, m.fp8.scale_inv_bwd   F32 [2]     grad_output, grad_input (never quantised here: 1)
 * m.fp8.amax_history_bwd                 F32 [L, 2]
 * </pre>
 *
 * @param module the module's path
 * @param forward input and weight
 * @param backward grad_output
 */
public record ModuleState(String module, List<Slot> forward, List<Slot> backward) {
    private static final int FORWARD_SLOTS = 3;
    private static final int BACKWARD_SLOTS = 2;

    /**
     * One tensor's scale.
     *
     * @param quantScale multiplies before the cast
     * @param history amaxes: element 0 pending, the newest last
     */
    public record Slot(float quantScale, List<Float> history) {
        public Slot {
            history = List.copyOf(history);
        }

        /** An unused slot. */
        static Slot unused(int length) {
            return new Slot(1, Collections.nCopies(length, 0f));
        }
    }

    public ModuleState {
        forward = List.copyOf(forward);
        backward = List.copyOf(backward);
        if (forward.size() != FORWARD_SLOTS - 1 || backward.size() > BACKWARD_SLOTS - 1) {
            throw new IllegalArgumentException(forward.size() + " forward, " + backward.size() + " backward slots");
        }
        int length = forward.getFirst().history().size();
        List<Slot> all = new ArrayList<>(forward);
        all.addAll(backward);
        if (length == 0 || all.stream().anyMatch(s -> s.history().size() != length)) {
            throw new IllegalArgumentException("histories of '" + module + "' are empty or differ in length");
        }
    }

    /** Adds the tensors of this state. */
    public void addTo(Map<String, Tensor> tensors, Arena arena) {
        add(tensors, "_fwd", forward, FORWARD_SLOTS, arena);
        add(tensors, "_bwd", backward, BACKWARD_SLOTS, arena);
    }

    private void add(Map<String, Tensor> tensors, String pass, List<Slot> used, int count, Arena arena) {
        int length = forward.getFirst().history().size();
        List<Slot> slots = new ArrayList<>(used);
        while (slots.size() < count) {
            slots.add(Slot.unused(length));
        }
        float[] scales = new float[count];
        float[] inverses = new float[count];
        float[] histories = new float[length * count];
        for (int s = 0; s < count; s++) {
            scales[s] = slots.get(s).quantScale();
            inverses[s] = 1 / scales[s];
            for (int i = 0; i < length; i++) {
                histories[i * count + s] = slots.get(s).history().get(i);
            }
        }
        put(tensors, "scale" + pass, Shape.of(count), scales, arena);
        put(tensors, "scale_inv" + pass, Shape.of(count), inverses, arena);
        put(tensors, "amax_history" + pass, Shape.of(length, count), histories, arena);
    }

    private void put(Map<String, Tensor> tensors, String name, Shape shape, float[] values, Arena arena) {
        String full = module + ".fp8." + name;
        tensors.put(full, Tensor.ofFloats(arena, full, shape, values));
    }
}
