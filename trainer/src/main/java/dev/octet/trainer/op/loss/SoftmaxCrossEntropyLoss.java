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
 * <p>With smoothing s the target is {@code 1 - s} of the label and s of all K classes alike (Szegedy et al. 2015, arXiv:1512.00567, section 7; torch's
 * {@code label_smoothing}): {@code l = log Σ exp x - (1 - s) x[label] - s/K Σ x}. Scores of minus infinity then make the loss infinite, as in torch.
 *
 * @param givesLogarithms whether the node has its second output
 * @param smoothing from 0 to 1; above 0 without weights only
 */
public record SoftmaxCrossEntropyLoss(ClassLabels labels, boolean givesLogarithms, float smoothing) implements Op {
    /** Without smoothing. */
    public SoftmaxCrossEntropyLoss(ClassLabels labels, boolean givesLogarithms) {
        this(labels, givesLogarithms, 0);
    }

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

    /**
     * Reads Octet's: classes are the last axis, attribute {@code shift} moves labels by one, {@code label_smoothing} is the smoothing, attributes and
     * inputs otherwise as ONNX's.
     */
    static SoftmaxCrossEntropyLoss readLast(OpSource source) {
        float smoothing = source.node().floatAttribute("label_smoothing", 0);
        if (smoothing != 0 && (source.has(2) || !(smoothing > 0 && smoothing <= 1))) {
            throw source.refusal(
                    "label_smoothing is " + smoothing + (source.has(2) ? ", and classes have weights" : ""),
                    "give a number from 0 to 1, and no weights");
        }
        return new SoftmaxCrossEntropyLoss(
                ClassLabels.readLast(source), !source.node().output(1).isEmpty(), smoothing);
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
