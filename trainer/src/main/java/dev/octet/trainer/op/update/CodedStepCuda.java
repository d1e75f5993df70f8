package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaOnHost;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.state.CudaState;
import dev.octet.trainer.state.StateForm;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/** All parameters in two launches, and two more where tensors have scales: one finds the largest magnitudes, one the scales. */
public final class CodedStepCuda extends UpdateCuda<CodedStep> {
    /** Kept tensors that a row has room for: p and two buffers. */
    private static final int KEPT = 3;

    /** Floats of workspace for each row. */
    private static final int NUMBERS = 9;

    private static final CudaKernel<CodedStep> ON_HOST =
            new CudaOnHost<>(new CodedStepCpu(), op -> op.scalarInput() + 5);

    public CodedStepCuda() {
        super(CodedStep.class);
    }

    /** Forms, weight decay and seeds may differ: they stand in each tensor's row. */
    @Override
    boolean belongTogether(CodedStep first, CodedStep other) {
        ElementStep.CudaRule a = first.rule().cuda();
        ElementStep.CudaRule b = other.rule().cuda();
        return a.id() == b.id() && a.numbers().equals(b.numbers()) && a.flag() == b.flag();
    }

    /** Sums and extremes of whole tensors travel between ranks: each computes its part on the host. */
    @Override
    Optional<CudaKernel<CodedStep>> onHost(CodedStep op) {
        return op.of().isShared() ? Optional.of(ON_HOST) : Optional.empty();
    }

    @Override
    boolean shareScalars(Frame<CudaTensor> first, Frame<CudaTensor> other) {
        return false; // where they lie among the inputs depends on the forms, see follows
    }

    @Override
    boolean shareScalars(CodedStep first, Frame<CudaTensor> firstFrame, CodedStep other, Frame<CudaTensor> otherFrame) {
        for (int i = 0; i < 4; i++) {
            if (firstFrame.input(first.scalarInput() + i).address()
                    != otherFrame.input(other.scalarInput() + i).address()) {
                return false;
            }
        }
        return true;
    }

    @Override
    void write(List<CodedStep> ops, List<Frame<CudaTensor>> frames, CudaStream cuda) {
        Chunks chunks = new Chunks();
        for (int i = 0; i < ops.size(); i++) {
            chunks.row(ops.get(i).tensor().count(), row(ops.get(i), frames.get(i)));
        }
        CodedStep op = ops.getFirst();
        Frame<CudaTensor> scalars = frames.getFirst();
        int at = op.scalarInput();
        ElementStep.CudaRule rule = op.rule().cuda();
        long rows = frames.size();
        long numbers = cuda.workspace(rows * NUMBERS * Float.BYTES);
        long maps = CudaState.quantiles(cuda);
        Object[] arguments = {
            scalars.input(at),
            scalars.input(at + 1),
            scalars.input(at + 2),
            scalars.input(at + 3),
            rule.id(),
            rule.numbers().get(0),
            rule.numbers().get(1),
            rule.numbers().get(2),
            rule.flag() ? 1 : 0,
            maps,
            numbers
        };
        Grid all = Grid.over(rows, 32, 1);
        cuda.launch(CudaState.SOURCE, "coded_begin", all, chunks.table(cuda), rows, numbers);
        if (ops.stream().anyMatch(o -> o.kept().stream().anyMatch(StateForm::scalesTensor))) {
            chunks.launch(cuda, CudaState.SOURCE, "coded_amax", arguments);
            cuda.launch(
                    CudaState.SOURCE, "coded_scales", all, chunks.table(cuda), rows, scalars.input(at + 3), numbers);
        }
        chunks.launch(cuda, CudaState.SOURCE, "coded_write", arguments);
    }

    private static long[] row(CodedStep op, Frame<CudaTensor> f) {
        long[] row = new long[4 + (KEPT + 1) * CudaState.WORDS];
        row[0] = op.tensor().count();
        row[1] = Double.doubleToRawLongBits(op.rule().cuda().weightDecay());
        row[2] = op.rule().measuresRate() ? f.input(op.scalarInput() + 4).address() : 0;
        row[3] = op.seed();
        List<StateForm> kept = op.kept();
        for (int k = 0; k < KEPT; k++) {
            long[] words = new long[CudaState.WORDS];
            Arrays.fill(words, -1);
            if (k < kept.size()) {
                words = CudaState.words(kept.get(k), op.tensor(), f::input, op.input(k), f::output, op.output(k));
            }
            System.arraycopy(words, 0, row, 4 + k * CudaState.WORDS, CudaState.WORDS);
        }
        long[] gradient = CudaState.words(op.g(), op.tensor(), f::input, op.gradientInput());
        System.arraycopy(gradient, 0, row, 4 + KEPT * CudaState.WORDS, CudaState.WORDS);
        return row;
    }
}
