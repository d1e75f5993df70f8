package dev.octet.trainer.op.attention;

import dev.octet.trainer.kernel.CudaLaunch;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/**
 * The arguments that all kernels of attention share.
 *
 * @param steps address of the steps through the operands ({@link PlainAttention#steps})
 */
record AttentionLaunch(Attention op, Frame<CudaTensor> frame, CudaStream cuda, CudaSource source, long steps) {
    private CudaLaunch operands(String kernel, Grid grid) {
        return cuda.kernel(source, kernel, grid)
                .pointer("q", frame.input(0))
                .pointer("k", frame.input(1))
                .pointer("v", frame.input(2))
                .pointer("mask", op.mask() == null ? null : frame.input(3));
    }

    /** Operands and results of forward. */
    CudaLaunch forward(String kernel, Grid grid) {
        return lengths(operands(kernel, grid).pointer("y", frame.output(0)).pointer("log_sums", frame.output(1)));
    }

    /** Operands of backward. */
    private CudaLaunch upstream(String kernel, Grid grid, long dots) {
        return operands(kernel, grid)
                .pointer("dy", frame.upstream(0))
                .pointer("log_sums", frame.output(1))
                .pointer("dy_dots", dots);
    }

    /** Operands and result of the queries' gradient, from dy·y of each query. */
    CudaLaunch queries(String kernel, Grid grid, long dots) {
        return lengths(upstream(kernel, grid, dots).pointer("dq", frame.gradient(0)));
    }

    /** Operands and results of the keys' and values' gradients. */
    CudaLaunch keys(String kernel, Grid grid, long dots) {
        return lengths(upstream(kernel, grid, dots)
                .pointer("dk", frame.wantsGradient(1) ? frame.gradient(1) : null)
                .pointer("dv", frame.wantsGradient(2) ? frame.gradient(2) : null));
    }

    /** Operands and result of the mask's gradient. */
    CudaLaunch mask(String kernel, Grid grid, long dots, CudaTensor to, long lengths) {
        return heads(upstream(kernel, grid, dots)
                .pointer("dmask", to)
                .pointer("steps", steps)
                .pointer("lengths", lengths)
                .value("batch", op.batch()));
    }

    private CudaLaunch lengths(CudaLaunch launch) {
        return heads(launch.pointer("steps", steps));
    }

    private CudaLaunch heads(CudaLaunch launch) {
        return launch.value("heads", op.heads())
                .value("queries", op.queries())
                .value("keys", op.keys())
                .value("group", op.group());
    }
}
