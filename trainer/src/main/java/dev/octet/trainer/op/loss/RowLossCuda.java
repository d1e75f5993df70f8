package dev.octet.trainer.op.loss;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** A block, or for up to 1024 elements a warp, has a row. Backward, both sides' gradients come from one pass. */
final class RowLossCuda implements CudaKernel<RowLoss> {
    @Override
    public void forward(RowLoss op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaLoss all = CudaLoss.room(op.rows(), cuda);
        if (op.rows() > 0) {
            cuda.launch(
                    source(op, frame),
                    "row_loss_forward",
                    CudaLoss.rows(op.rows(), op.size()),
                    frame.input(0),
                    frame.input(1),
                    CudaLoss.input(frame, 2),
                    all.losses(),
                    all.weights(),
                    (long) op.rows(),
                    op.size(),
                    cosine(op));
        }
        all.mean(1, frame.output(0), frame.output(1), cuda);
    }

    @Override
    public void backward(RowLoss op, Frame<CudaTensor> frame, CudaStream cuda) {
        if (op.rows() > 0) {
            cuda.kernel(source(op, frame), "row_loss_backward", CudaLoss.rows(op.rows(), op.size()))
                    .pointer("x", frame.input(0))
                    .pointer("t", frame.input(1))
                    .pointer("weights", CudaLoss.input(frame, 2))
                    .pointer("divisor", frame.output(1))
                    .pointer("dloss", frame.upstream(0))
                    .pointer("dx", frame.wantsGradient(0) ? frame.gradient(0).address() : 0L)
                    .pointer("dt", frame.wantsGradient(1) ? frame.gradient(1).address() : 0L)
                    .value("rows", (long) op.rows())
                    .value("size", op.size())
                    .value("cosine", cosine(op))
                    .launch();
        }
    }

    private static int cosine(RowLoss op) {
        return switch (op.kind()) {
            case MEAN_SQUARED_ERROR -> 0;
            case COSINE -> 1;
        };
    }

    private static CudaSource source(RowLoss op, Frame<CudaTensor> frame) {
        return CudaSource.of(RowLossCuda.class, "row_loss.cu")
                .define("X_TYPE", CudaSource.type(op.x().dtype()))
                .define("T_TYPE", CudaSource.type(op.target().dtype()))
                .define("W_TYPE", CudaLoss.type(frame, 2, DType.F32))
                .define("GROUP", CudaLoss.group(op.size()))
                .define("PACK", CudaLoss.pack(op.x().dtype(), op.size()));
    }
}
