package dev.octet.trainer.op.shard;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaOnHost;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.op.copy.CudaCopy;
import dev.octet.trainer.op.shard.RankExchange.Way;

/** What travels passes through memory of the host; what stays on a rank is copied on its GPU. */
final class RankExchangeCuda implements CudaKernel<RankExchange> {
    private static final CudaKernel<RankExchange> ON_HOST = new CudaOnHost<>(new RankExchangeCpu(), _ -> 1);

    @Override
    public void forward(RankExchange op, Frame<CudaTensor> frame, CudaStream cuda) {
        if (!copies(op, op.kind().forward(), frame.input(0), frame.output(0), cuda)) {
            ON_HOST.forward(op, frame, cuda);
        }
    }

    @Override
    public void backward(RankExchange op, Frame<CudaTensor> frame, CudaStream cuda) {
        if (!copies(op, op.kind().backward(), frame.upstream(0), frame.gradient(0), cuda)) {
            ON_HOST.backward(op, frame, cuda);
        }
    }

    /** Whether nothing travels; then it is done. */
    private static boolean copies(RankExchange op, Way way, CudaTensor x, CudaTensor y, CudaStream cuda) {
        if (way == Way.KEEP) {
            cuda.copy(x.address(), y.address(), y.byteSize());
            return true;
        }
        if (way != Way.SHARE) {
            return false;
        }
        long before = op.shares().subList(0, op.rank()).stream()
                .mapToLong(Long::longValue)
                .sum();
        long axis = op.shares().stream().mapToLong(Long::longValue).sum();
        long run = op.shares().get(op.rank()) * op.inner();
        new CudaCopy(
                        new long[] {op.outer(), run},
                        before * op.inner(),
                        new long[] {axis * op.inner(), 1},
                        0,
                        new long[] {run, 1})
                .write(x, y, cuda);
        return true;
    }
}
