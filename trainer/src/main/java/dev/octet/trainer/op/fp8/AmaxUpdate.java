package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.scale.AmaxHistory;
import dev.octet.trainer.kernel.ForwardOp;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.ArrayList;
import java.util.List;

/**
 * Rolls amax histories and derives the multipliers of the next step: {@link AmaxHistory#update} for each slot.
 *
 * <p>Inputs: for slot i its quantScale, F32 [1], as number 2i and its history, F32 [length], as number 2i + 1. The outputs are the same
 * values, changed.
 *
 * @param slots at least one
 * @param fused {@link AmaxHistory#update}, or else {@link AmaxHistory#updateUnfused}
 */
public record AmaxUpdate(List<Slot> slots, boolean fused) implements ForwardOp {
    /** Its row in the table of operators. */
    public static final OpEntry<AmaxUpdate> ENTRY =
            OpEntry.of(AmaxUpdate.class, new AmaxUpdateReference(), new AmaxUpdateCpu(), new AmaxUpdateCuda());

    /** What a slot's scale is computed from. */
    public record Slot(Float8Format format, int margin, int length, AmaxHistory.Algorithm algorithm) {}

    public AmaxUpdate {
        slots = List.copyOf(slots);
    }

    @Override
    public String type() {
        return "AmaxUpdate";
    }

    @Override
    public List<OperandType> outputs() {
        List<OperandType> all = new ArrayList<>();
        for (Slot s : slots) {
            all.add(new OperandType(DType.F32, Shape.of(1)));
            all.add(new OperandType(DType.F32, Shape.of(s.length())));
        }
        return all;
    }

    /** One slot's update; the history is rolled in place. */
    float update(int slot, float[] history, float quantScale) {
        Slot s = slots.get(slot);
        return fused
                ? AmaxHistory.update(history, quantScale, AmaxHistory.scaledMax(s.format(), s.margin()), s.algorithm())
                : AmaxHistory.updateUnfused(history, quantScale, s.format(), s.margin(), s.algorithm());
    }

    /** As {@code AmaxUpdate 12 slots}: the slots' names follow as operands. */
    @Override
    public String toString() {
        return "AmaxUpdate[" + slots.size() + " slots, first " + slots.getFirst() + (fused ? "]" : ", unfused]");
    }
}
