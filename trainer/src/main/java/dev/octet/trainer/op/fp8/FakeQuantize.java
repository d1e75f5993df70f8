package dev.octet.trainer.op.fp8;

import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * {@code y = x̂}, the values that the codes of x stand for, in the type of x: f32(code · scale), rounded to it. The derivative is taken to be 1;
 * on the way back the gradient may be quantised likewise, which is how a result of dgrad or wgrad is. Transformer Engine's FakeQuant of what products make
 * (debug/features/fake_quant.py at commit d0067d0).
 *
 * @param x [..., n] in F32, BF16 or F16
 * @param forward how x is quantised, as a matrix with a rule for its scales; null when y is x
 * @param backward how dy is quantised; null when dx is dy
 */
public record FakeQuantize(
        OperandType x,
        @Nullable CodedMatrix forward,
        @Nullable CodedMatrix backward) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<FakeQuantize> ENTRY =
            OpEntry.of(FakeQuantize.class, new FakeQuantizeReference(), new FakeQuantizeCpu(), new FakeQuantizeCuda());

    /** @throws IllegalArgumentException when a form takes its scales from earlier steps */
    public FakeQuantize {
        if ((forward != null && forward.isDelayed()) || (backward != null && backward.isDelayed())) {
            throw new IllegalArgumentException("fake quantisation takes its scales from the values of the step");
        }
    }

    @Override
    public String type() {
        return "FakeQuantize";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(x);
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return false;
    }

    @Override
    public boolean passesGradient(int i) {
        return backward == null;
    }
}
