package dev.octet.trainer.op.batchnorm;

import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * {@code y = (x - mean) / √(variance + epsilon) · scale + bias} for each channel of x [N, C, ..], with the statistics the model brings
 * along (ONNX BatchNormalization with {@code training_mode} 0): they are constants, scale and bias can be trained. Inputs: x, scale, bias,
 * mean, variance.
 *
 * @param samples N
 * @param channels C
 * @param inner elements of a channel of a sample
 */
public record BatchNormalization(OperandType x, int samples, int channels, int inner, float epsilon) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<BatchNormalization> ENTRY = OpEntry.of(
                    BatchNormalization.class,
                    new BatchNormalizationReference(),
                    new BatchNormalizationCpu(),
                    new BatchNormalizationCuda())
            .onnx("BatchNormalization", BatchNormalization::read);

    /** Reads ONNX BatchNormalization. */
    static BatchNormalization read(OpSource source) {
        OperandType x = source.input(0);
        boolean hasStatistics = source.node().outputs().stream().skip(1).anyMatch(o -> !o.isEmpty());
        if (source.node().intAttribute("training_mode", 0) != 0 || hasStatistics) {
            throw source.refusal(
                    "it computes statistics of the batch",
                    "export the model in evaluation mode: running statistics stay as they are");
        }
        int rank = x.shape().rank();
        int samples = Math.toIntExact(x.shape().dim(0));
        int channels = rank < 2 ? 1 : Math.toIntExact(x.shape().dim(1));
        for (int i = 1; i < 5; i++) {
            if (source.input(i).count() != channels) {
                throw source.refusal(
                        "input " + i + " is " + source.input(i).shape() + " for " + channels + " channels",
                        "give one number for each channel");
            }
        }
        return of(x, samples, channels, source.node().floatAttribute("epsilon", 1e-5f));
    }

    /** For x of these dimensions. */
    static BatchNormalization of(OperandType x, int samples, int channels, float epsilon) {
        long planes = (long) samples * channels;
        int inner = Math.toIntExact(planes == 0 ? 0 : x.count() / planes);
        return new BatchNormalization(x, samples, channels, inner, epsilon);
    }

    @Override
    public String type() {
        return "BatchNormalization";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(x);
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i < 3;
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return i != 2;
    }
}
