package dev.octet.trainer.op.loss;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * {@code l = -w[label] x[label]} for each position, x being logarithms of probabilities (ONNX NegativeLogLikelihoodLoss 12, 13). Inputs: x,
 * labels and, perhaps, weights of the classes. Saved: what the sum is divided by.
 */
public record NegativeLogLikelihoodLoss(ClassLabels labels) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<NegativeLogLikelihoodLoss> ENTRY = OpEntry.of(
                    NegativeLogLikelihoodLoss.class,
                    new NegativeLogLikelihoodLossReference(),
                    new NegativeLogLikelihoodLossCpu(),
                    new NegativeLogLikelihoodLossCuda())
            .onnx("NegativeLogLikelihoodLoss", NegativeLogLikelihoodLoss::read);

    /** Reads ONNX NegativeLogLikelihoodLoss. */
    static NegativeLogLikelihoodLoss read(OpSource source) {
        return new NegativeLogLikelihoodLoss(ClassLabels.read(source));
    }

    @Override
    public String type() {
        return "NegativeLogLikelihoodLoss";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(labels.loss());
    }

    @Override
    public List<OperandType> saved() {
        return List.of(new OperandType(DType.F32, Shape.SCALAR));
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i == 0;
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return i > 0;
    }

    @Override
    public boolean backwardReadsOutput(int j) {
        return j == 1;
    }
}
