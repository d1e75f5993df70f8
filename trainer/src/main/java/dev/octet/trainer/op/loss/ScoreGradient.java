package dev.octet.trainer.op.loss;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaCall;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The gradient of a cross entropy with respect to its scores, for a kernel that makes it on its way. */
public final class ScoreGradient {
    private final SoftmaxCrossEntropyLoss op;
    private final Frame<CudaTensor> frame;

    private ScoreGradient(SoftmaxCrossEntropyLoss op, Frame<CudaTensor> frame) {
        this.op = op;
        this.frame = frame;
    }

    /** That of a step, where classes are the last axis and the loss alone has a gradient; null for others. */
    public static @Nullable ScoreGradient of(CudaCall call) {
        if (!call.backward()
                || !(call.op() instanceof SoftmaxCrossEntropyLoss op)
                || op.labels().inner() != 1
                || op.labels().count() == 0
                || (op.givesLogarithms() && call.frame().hasUpstream(1))
                || call.frame().accumulates(0)) {
            return null;
        }
        ScoreGradient gradient = new ScoreGradient(op, call.frame());
        DType type = gradient.scores().dtype();
        boolean fits = (type == DType.F32 || type == DType.BF16 || type == DType.F16)
                && gradient.dx().dtype() == type;
        return fits ? gradient : null;
    }

    /** The scores. */
    public CudaTensor scores() {
        return frame.input(0);
    }

    /** Their gradient. */
    public CudaTensor dx() {
        return frame.gradient(0);
    }

    /** Number of rows. */
    public int positions() {
        return op.labels().count();
    }

    /** Length of the rows. */
    public int classes() {
        return op.labels().classes();
    }

    /** Writes what rows of the gradient are made of beside the scores; the arguments by which a kernel has it, from the scores' pitch to the smoothing. */
    public List<Object> rows(CudaStream cuda) {
        ClassLabels labels = op.labels();
        long slopes = cuda.workspace(4L * positions());
        long targets = cuda.workspace(4L * positions());
        DType x = scores().dtype();
        cuda.kernel(
                        CudaLoss.classes(frame, x, x, 1, 2, classes()),
                        "cross_entropy_slopes",
                        Grid.over(positions(), CudaLoss.THREADS, 1))
                .pointer("labels", frame.input(1))
                .pointer("weights", CudaLoss.input(frame, 2))
                .pointer("divisor", frame.output(op.divisorOutput()))
                .pointer("dloss", frame.hasUpstream(0) ? frame.upstream(0).address() : 0L)
                .pointer("slopes", slopes)
                .pointer("targets", targets)
                .flag("each", labels.reduction() == Reduction.NONE)
                .value("positions", (long) positions())
                .value("classes", classes())
                .value("sequence", (long) labels.sequence())
                .flag("ignores", labels.ignoreIndex() != null)
                .value("ignored", labels.ignoreIndex() == null ? 0L : (long) labels.ignoreIndex())
                .launch();
        return List.of(scores().pitch(), frame.output(op.logSumOutput()), slopes, targets, classes(), op.smoothing());
    }

    /** Writes the gradient alone. */
    public void write(CudaTensor to, CudaStream cuda) {
        SoftmaxCrossEntropyLossCuda.writeGradient(op, frame, to, cuda);
    }
}
