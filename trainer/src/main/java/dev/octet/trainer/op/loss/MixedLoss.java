package dev.octet.trainer.op.loss;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * {@code weight · a + (1 - weight) · b} of two losses: Octet's {@code MixedLoss}. Inputs and output: F32, one element, whatever the
 * precision policy narrows elsewhere.
 *
 * @param weight of input 0
 */
public record MixedLoss(float weight) implements Op {
    private static final OperandType NUMBER = new OperandType(DType.F32, Shape.SCALAR);

    /** Its row in the table of operators. */
    public static final OpEntry<MixedLoss> ENTRY = OpEntry.of(
                    MixedLoss.class, new MixedLossReference(), new MixedLossCpu(), new MixedLossCuda())
            .octet("MixedLoss", MixedLoss::read);

    /** Reads Octet's {@code MixedLoss}. */
    static MixedLoss read(OpSource source) {
        for (int i = 0; i < 2; i++) {
            if (!source.input(i).equals(NUMBER)) {
                throw source.refusal("input " + i + " is " + source.input(i), "give losses of one F32 element");
            }
        }
        return new MixedLoss(source.node().floatAttribute("weight", 1));
    }

    /** Weight of input {@code i}. */
    float weight(int i) {
        return i == 0 ? weight : 1 - weight;
    }

    @Override
    public String type() {
        return "MixedLoss";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(NUMBER);
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return false;
    }

    @Override
    public boolean backwardReadsOutput(int j) {
        return false;
    }
}
