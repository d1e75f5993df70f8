package dev.octet.trainer.op.experts;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaLaunch;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/**
 * Tiles of 32 by 32 of the results of all experts in one launch. Which tile belongs to which expert is found on the device, as the offsets are known
 * only there: the grid has a tile more for each expert than all rows fill. Plain F32 multiplications, not tensor cores.
 */
final class GroupedLinearCuda implements CudaKernel<GroupedLinear> {
    /** Rows and columns of a tile, as in the source. */
    private static final int TILE = 32;

    private static final int THREADS = 256;

    @Override
    public void forward(GroupedLinear op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor y = frame.output(0);
        if (y.count() == 0) {
            return;
        }
        product(op, frame.input(0), y, table(op, frame, 0, cuda), op.transB(), frame.input(1), cuda)
                .pointer("biases", op.hasBias() ? table(op, frame, op.experts(), cuda) : 0L)
                .launch();
    }

    private static CudaLaunch product(
            GroupedLinear op,
            CudaTensor a,
            CudaTensor c,
            long weights,
            boolean trans,
            CudaTensor offsets,
            CudaStream cuda) {
        long inner = a.shape().dim(1);
        long columns = c.shape().dim(1);
        long tiles = Math.ceilDiv(op.rows(), (long) TILE) + op.experts();
        Grid grid = new Grid(tiles, Math.toIntExact(Math.ceilDiv(columns, (long) TILE)), 1, THREADS, 0);
        return cuda.kernel(ExpertDispatchCuda.SOURCE, "expert_product_" + c.suffix(), grid)
                .pointer("a", a)
                .pointer("weights", weights)
                .pointer("offsets", offsets)
                .pointer("c", c)
                .value("experts", op.experts())
                .value("inner", inner)
                .value("columns", columns)
                .flag("trans", trans);
    }

    /** Addresses of the weights or biases of all experts. */
    private static long table(GroupedLinear op, Frame<CudaTensor> frame, int from, CudaStream cuda) {
        long[] words = new long[op.experts()];
        for (int e = 0; e < words.length; e++) {
            words[e] = frame.input(GroupedLinear.WEIGHTS + from + e).address();
        }
        return cuda.table(words);
    }

    @Override
    public void backward(GroupedLinear op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor dy = frame.upstream(0);
        CudaTensor offsets = frame.input(1);
        if (frame.wantsGradient(0) && frame.gradient(0).count() > 0) {
            product(op, dy, frame.gradient(0), table(op, frame, 0, cuda), !op.transB(), offsets, cuda)
                    .pointer("biases", 0L)
                    .launch();
        }
        for (int e = 0; e < op.experts(); e++) {
            int w = GroupedLinear.WEIGHTS + e;
            if (frame.wantsGradient(w) && frame.gradient(w).count() > 0) {
                weightGradient(op, frame, e, cuda);
            }
            int b = w + op.experts();
            if (op.hasBias() && frame.wantsGradient(b) && op.out() > 0) {
                cuda.kernel(ExpertDispatchCuda.SOURCE, "expert_bias_" + dy.suffix(), Grid.over(op.out(), THREADS, 1))
                        .pointer("dy", dy)
                        .pointer("offsets", offsets)
                        .pointer("db", frame.gradient(b))
                        .value("expert", e)
                        .value("columns", op.out())
                        .flag("add", frame.accumulates(b))
                        .launch();
            }
        }
    }

    /** Of [out, in] the rows are of dy and the columns of x, otherwise the other way round. */
    private static void weightGradient(GroupedLinear op, Frame<CudaTensor> frame, int e, CudaStream cuda) {
        int w = GroupedLinear.WEIGHTS + e;
        CudaTensor dy = frame.upstream(0);
        CudaTensor x = frame.input(0);
        CudaTensor left = op.transB() ? dy : x;
        CudaTensor right = op.transB() ? x : dy;
        long m = left.shape().dim(1);
        long n = right.shape().dim(1);
        Grid grid =
                new Grid(Math.ceilDiv(m, (long) TILE), Math.toIntExact(Math.ceilDiv(n, (long) TILE)), 1, THREADS, 0);
        cuda.kernel(ExpertDispatchCuda.SOURCE, "expert_gradient_" + dy.suffix(), grid)
                .pointer("left", left)
                .pointer("right", right)
                .pointer("offsets", frame.input(1))
                .pointer("dw", frame.gradient(w))
                .value("expert", e)
                .value("m", m)
                .value("n", n)
                .flag("add", frame.accumulates(w))
                .launch();
    }
}
