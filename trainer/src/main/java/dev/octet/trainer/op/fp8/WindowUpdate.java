package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.scale.WindowedScale;
import dev.octet.trainer.kernel.ForwardOp;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Moves windows on and derives the multipliers of the next step, after a step of the optimizer that counts: {@link WindowedScale#update} for each slot.
 *
 * <p>Inputs: whether the step is left out, F32, then for slot i its quantScale, F32 [1], as number 2i + 1 and its window as number 2i + 2. The outputs are the slots' values, changed.
 *
 * @param slots at least one
 */
public record WindowUpdate(List<Slot> slots) implements ForwardOp {
    /** Its row in the table of operators. */
    public static final OpEntry<WindowUpdate> ENTRY =
            OpEntry.of(WindowUpdate.class, new WindowUpdateReference(), new WindowUpdateCpu(), new WindowUpdateCuda());

    /** What a slot's scale is computed from. */
    public record Slot(Float8Format format, WindowedScale rule) {}

    /**
     * Where a step's window lies.
     *
     * @param quantScale number of the input that is the multiplier
     * @param window number of the input that is the window
     */
    public record Windowed(Slot slot, int quantScale, int window) {}

    /** The window that an operator casts with; null when it has none. */
    public static @Nullable Windowed of(Op op) {
        if (op instanceof QuantizeWindowed q && q.records()) {
            return new Windowed(q.slot(), 1, 2);
        }
        if (op instanceof Fp8Linear linear && linear.hasWindow()) {
            CodedMatrix form = linear.dgrad().left() != null
                    ? linear.dgrad().left()
                    : linear.wgrad().left();
            return form != null && form.rule() instanceof WindowedScale rule
                    ? new Windowed(new Slot(form.format(), rule), Fp8Linear.DY_QUANT_SCALE, Fp8Linear.DY_HISTORY)
                    : null;
        }
        return null;
    }

    public WindowUpdate {
        slots = List.copyOf(slots);
    }

    @Override
    public String type() {
        return "WindowUpdate";
    }

    @Override
    public List<OperandType> outputs() {
        List<OperandType> all = new ArrayList<>();
        for (Slot s : slots) {
            all.add(new OperandType(DType.F32, Shape.of(1)));
            all.add(new OperandType(DType.F32, Shape.of(s.rule().length())));
        }
        return all;
    }

    /** One slot's update; the window moves on in place. */
    float update(int slot, float[] window, float quantScale) {
        Slot s = slots.get(slot);
        return s.rule().update(window, quantScale, s.format().maxValue());
    }

    /** The slots' names follow as operands. */
    @Override
    public String toString() {
        return "WindowUpdate[" + slots.size() + " slots, first " + slots.getFirst() + "]";
    }
}
