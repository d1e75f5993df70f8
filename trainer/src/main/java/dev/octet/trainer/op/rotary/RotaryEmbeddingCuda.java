package dev.octet.trainer.op.rotary;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/**
 * A thread turns four neighbouring pairs where the sizes allow it, else one; heads of one position share a row of the tables. Elements are
 * never seen here, so a position outside of the tables is not an error: what it turns is NaN.
 */
final class RotaryEmbeddingCuda implements CudaKernel<RotaryEmbedding> {
    /** As in the source. */
    private static final int THREADS = 256;

    private static final int PACK = 4;

    @Override
    public void forward(RotaryEmbedding op, Frame<CudaTensor> frame, CudaStream cuda) {
        turn(op, frame, frame.input(0), frame.output(0), 1, cuda);
    }

    @Override
    public void backward(RotaryEmbedding op, Frame<CudaTensor> frame, CudaStream cuda) {
        turn(op, frame, frame.upstream(0), frame.gradient(0), -1, cuda);
    }

    /**
     * Turns by the tables of a frame.
     *
     * @param y of any float type
     * @param direction 1 for forward, -1 for backward
     */
    static void turn(
            RotaryEmbedding op, Frame<CudaTensor> frame, CudaTensor x, CudaTensor y, float direction, CudaStream cuda) {
        if (x.count() == 0) {
            return;
        }
        boolean ids = op.tableBatch() == 0;
        int pack = op.size() % (2 * PACK) == 0 && op.rotated() % (2 * PACK) == 0 ? PACK : 1;
        CudaTensor cos = frame.input(1);
        CudaTensor sin = frame.input(2);
        CudaSource source = CudaSource.of(RotaryEmbeddingCuda.class, "rotary.cu")
                .define("X_TYPE", CudaSource.type(x.dtype()))
                .define("Y_TYPE", CudaSource.type(y.dtype()))
                .define("COS_TYPE", CudaSource.type(cos.dtype()))
                .define("SIN_TYPE", CudaSource.type(sin.dtype()))
                .define("ID_TYPE", CudaSource.type(ids ? frame.input(3).dtype() : DType.I64))
                .define("PACK", pack);
        long rows = (long) op.batch() * op.heads() * op.sequence();
        long size = op.size();
        int each = op.rotated() / 2 / pack + Math.ceilDiv(op.size() - op.rotated(), pack);
        cuda.kernel(source, "rotary_turn", Grid.over(rows * each, THREADS, 1))
                .pointer("x", x)
                .pointer("cosines", cos)
                .pointer("sines", sin)
                .pointer("ids", ids ? frame.input(3).address() : 0L)
                .pointer("y", y)
                .value("rows", rows)
                .value("heads", op.heads())
                .value("sequence", op.sequence())
                .value("batch_step", size * op.heads() * op.sequence())
                .value("head_step", op.split() ? op.sequence() * size : size)
                .value("sequence_step", op.split() ? size : op.heads() * size)
                .value("size", op.size())
                .value("rotated", op.rotated())
                .value("table_step", op.tableBatch() > 1 ? (long) op.sequence() : 0L)
                .value("positions", op.positions())
                .flag("interleaved", op.interleaved())
                .value("direction", direction)
                .launch();
    }
}
