package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.reduction.AutoScale;

/** Four launches for each tensor: amaxes, scales, codes and their sum, the next pre-scale. */
final class CodedRankAverageCuda implements CudaKernel.Forward<CodedRankAverage> {
    /** Numbers of workspace besides one for each rank, as in the source. */
    private static final int NUMBERS = 4;

    @Override
    public void forward(CodedRankAverage op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaSource source = RankAverageCuda.SOURCE;
        int ranks = op.rule().ranks();
        int quirks = op.rule().scale().quirks() ? 1 : 0;
        long count = op.g().count();
        long gradients = RankAverageCuda.gradients(frame, ranks, cuda);
        long numbers = cuda.workspace((long) (ranks + NUMBERS) * Float.BYTES);
        CudaTensor preScale = frame.input(ranks + 1);
        cuda.launch(source, "rank_amax", Grid.of(ranks, 256), gradients, count, numbers);
        cuda.launch(
                source,
                "rank_agree",
                Grid.of(1, 32),
                ranks,
                op.rule().reduction().sharesScales() ? 1 : 0,
                quirks,
                frame.input(ranks),
                preScale,
                numbers,
                frame.output(1));
        cuda.launch(
                source,
                "rank_sum",
                Grid.over(Math.max(1, count), 256, 4),
                gradients,
                ranks,
                quirks,
                count,
                numbers,
                CudaSource.code(op.g().dtype()),
                frame.output(0));
        cuda.launch(
                source,
                "rank_end",
                Grid.of(1, 32),
                ranks,
                Math.max(1, count),
                op.automatic().map(AutoScale::ratio).orElse(-1.0),
                op.automatic().map(AutoScale::growth).orElse(1f),
                numbers,
                preScale,
                frame.output(2),
                frame.output(3));
    }
}
