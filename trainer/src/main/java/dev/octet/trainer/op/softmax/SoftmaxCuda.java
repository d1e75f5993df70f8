package dev.octet.trainer.op.softmax;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Rows up to 1024 elements are a warp's, up to 8192 a block's, and lie in registers between one read and one write; longer ones are read twice.
 * Behind the axis, a thread has a column.
 */
final class SoftmaxCuda implements CudaKernel<Softmax> {
    /** As in the source. */
    private static final int THREADS = 256;

    private static final int WARP = 32;

    /** Elements of a row that a thread has in registers. */
    private static final int ELEMENTS = 32;

    @Override
    public void forward(Softmax op, Frame<CudaTensor> frame, CudaStream cuda) {
        run("softmax_forward", op, cuda, frame.input(0), frame.output(0));
    }

    @Override
    public void backward(Softmax op, Frame<CudaTensor> frame, CudaStream cuda) {
        run("softmax_backward", op, cuda, frame.output(0), frame.upstream(0), frame.gradient(0));
    }

    private static void run(String kernel, Softmax op, CudaStream cuda, CudaTensor... tensors) {
        if (op.x().count() == 0) {
            return;
        }
        int group = op.size() <= WARP * ELEMENTS ? WARP : THREADS;
        int pack = 16 / (op.x().dtype().bits() / 8);
        CudaSource source = CudaSource.of(SoftmaxCuda.class, "softmax.cu")
                .define("X_TYPE", CudaSource.type(op.x().dtype()))
                .define("GROUP", group)
                .define("PACK", op.size() % pack == 0 ? pack : 1)
                .define("ELEMENTS", ELEMENTS);
        List<Object> arguments = new ArrayList<>(Arrays.asList((Object[]) tensors));
        int logarithm = op.logarithm() ? 1 : 0;
        long rows = op.outer();
        if (op.inner() > 1) {
            long columns = rows * op.inner();
            arguments.addAll(List.of(columns, op.size(), (long) op.inner(), logarithm));
            cuda.launch(source, kernel + "_columns", Grid.over(columns, THREADS, 1), arguments.toArray());
            return;
        }
        arguments.addAll(List.of(rows, op.size(), logarithm));
        if (op.size() > THREADS * ELEMENTS) {
            cuda.launch(source, kernel + "_long", Grid.of(rows, THREADS), arguments.toArray());
        } else {
            cuda.launch(
                    source, kernel, Grid.of(Math.ceilDiv(rows, (long) THREADS / group), THREADS), arguments.toArray());
        }
    }
}
