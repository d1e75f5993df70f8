package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.state.CudaState;
import java.util.List;

/** As {@link SquareSumCuda}, elements read through the form. */
public final class CodedSquareSumCuda extends UpdateCuda<CodedSquareSum> {
    public CodedSquareSumCuda() {
        super(CodedSquareSum.class);
    }

    @Override
    boolean belongTogether(CodedSquareSum first, CodedSquareSum other) {
        return true;
    }

    @Override
    boolean shareScalars(Frame<CudaTensor> first, Frame<CudaTensor> other) {
        return true;
    }

    @Override
    void write(List<CodedSquareSum> ops, List<Frame<CudaTensor>> frames, CudaStream cuda) {
        Chunks read = new Chunks();
        Chunks sums = new Chunks();
        for (int i = 0; i < ops.size(); i++) {
            CodedSquareSum op = ops.get(i);
            long count = op.g().count();
            long[] row = new long[1 + CudaState.WORDS];
            row[0] = count;
            System.arraycopy(CudaState.words(op.form(), op.g(), frames.get(i)::input, 0), 0, row, 1, CudaState.WORDS);
            sums.row(
                    count,
                    0,
                    count,
                    read.count(),
                    Chunks.of(count),
                    frames.get(i).output(0).address());
            read.row(count, row);
        }
        long parts = cuda.workspace(read.count() * Double.BYTES);
        read.launch(cuda, CudaState.SOURCE, "coded_square_sum_parts", CudaState.quantiles(cuda), parts);
        long rows = frames.size();
        cuda.launch(Chunks.SOURCE, "square_sum_join", Grid.over(rows * 32, 256, 1), sums.table(cuda), rows, parts);
    }
}
