package dev.octet.trainer.op.loss;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.ArrayList;
import java.util.List;

/**
 * {@code l = w[label] (log Σ exp x - x[label])} over the classes of each position (ONNX SoftmaxCrossEntropyLoss 12, 13). Inputs: scores,
 * labels and, perhaps, weights of the classes. Outputs: the loss and, when the node has it, log softmax of the scores.
 *
 * <p>Saved: log Σ exp x of each position, and what the sum is divided by; so forward reads the scores once, backward reads them once
 * and writes their gradient, and no softmax lies in memory between.
 *
 * @param givesLogarithms whether the node has its second output
 */
public record SoftmaxCrossEntropyLoss(ClassLabels labels, boolean givesLogarithms) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<SoftmaxCrossEntropyLoss> ENTRY = OpEntry.of(
                    SoftmaxCrossEntropyLoss.class,
                    new SoftmaxCrossEntropyLossReference(),
                    new SoftmaxCrossEntropyLossCpu(),
                    new SoftmaxCrossEntropyLossCuda())
            .onnx("SoftmaxCrossEntropyLoss", SoftmaxCrossEntropyLoss::read)
            .octet("SoftmaxCrossEntropyLoss", SoftmaxCrossEntropyLoss::readLast);

    /** Reads ONNX SoftmaxCrossEntropyLoss. */
    static SoftmaxCrossEntropyLoss read(OpSource source) {
        return new SoftmaxCrossEntropyLoss(
                ClassLabels.read(source), !source.node().output(1).isEmpty());
    }

    /** Reads Octet's: classes are the last axis, attribute {@code shift} moves labels by one, attributes and inputs otherwise as ONNX's. */
    static SoftmaxCrossEntropyLoss readLast(OpSource source) {
        return new SoftmaxCrossEntropyLoss(
                ClassLabels.readLast(source), !source.node().output(1).isEmpty());
    }

    @Override
    public String type() {
        return "SoftmaxCrossEntropyLoss";
    }

    @Override
    public List<OperandType> outputs() {
        List<OperandType> outputs = new ArrayList<>(List.of(labels.loss()));
        if (givesLogarithms) {
            outputs.add(labels.scores());
        }
        return outputs;
    }

    @Override
    public List<OperandType> saved() {
        return List.of(labels.perPosition(), new OperandType(DType.F32, Shape.SCALAR));
    }

    /** Output that holds log Σ exp x. */
    int logSumOutput() {
        return givesLogarithms ? 2 : 1;
    }

    /** Output that holds what the sum is divided by. */
    int divisorOutput() {
        return logSumOutput() + 1;
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i == 0;
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return true;
    }

    @Override
    public boolean backwardReadsOutput(int j) {
        return j >= logSumOutput();
    }
}
