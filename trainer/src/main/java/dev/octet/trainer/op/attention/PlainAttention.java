package dev.octet.trainer.op.attention;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaLaunch;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/**
 * Attention of any element type, head size and mask on CUDA's ordinary arithmetic units: a warp has a query, or backward a key, and its lanes
 * 32 rows of the other at a time. What is repeated of a mask is summed by a thread for each of its elements.
 */
final class PlainAttention {
    /** As in the source. */
    private static final int THREADS = 256;

    private static final int WARP = 32;
    private static final int WARPS = THREADS / WARP;
    private static final int PITCH = 65;

    /** Lanes that have a query's dy·y together. */
    private static final int DOT_LANES = 4;

    private final Attention op;
    private final Frame<CudaTensor> frame;
    private final CudaStream cuda;
    private final long steps;
    private final AttentionLaunch launches;

    PlainAttention(Attention op, Frame<CudaTensor> frame, CudaStream cuda) {
        this.op = op;
        this.frame = frame;
        this.cuda = cuda;
        steps = steps(op, frame, cuda);
        launches = new AttentionLaunch(op, frame, cuda, source(op), steps);
    }

    /** The source for an operator's types. */
    static CudaSource source(Attention op) {
        DType mask = op.mask() == null ? DType.F32 : op.mask().dtype();
        return CudaSource.of(PlainAttention.class, "attention.cu")
                .define("TYPE", CudaSource.type(op.q().dtype()))
                .define("MASK_TYPE", CudaSource.type(mask))
                .define("TRUTH", mask == DType.BOOL ? 1 : 0);
    }

    /**
     * Address of the elements from one batch, head and row to the next, of q, k, v, y and the mask, and from key to key of the mask. Gradients of q, k and v lie
     * as these do.
     */
    static long steps(Attention op, Frame<CudaTensor> frame, CudaStream cuda) {
        boolean split = op.split();
        long q = frame.input(0).pitch();
        long k = frame.input(1).pitch();
        long v = frame.input(2).pitch();
        return cuda.table(
                batch(op.queries(), q, split ? op.heads() : 1),
                head(split, op.queries(), op.size()),
                q,
                batch(op.keys(), k, split ? op.keyHeads() : 1),
                head(split, op.keys(), op.size()),
                k,
                batch(op.keys(), v, split ? op.keyHeads() : 1),
                head(split, op.keys(), op.valueSize()),
                v,
                batch(op.queries(), op.strideY(), split ? op.heads() : 1),
                head(split, op.queries(), op.valueSize()),
                op.strideY(),
                op.startMask(1, 0, 0),
                op.startMask(0, 1, 0),
                op.startMask(0, 0, 1),
                op.maskStep());
    }

    /** Elements from one sample to the next; {@code heads} is 1 where heads are side by side. */
    static long batch(int length, long stride, int heads) {
        return length * stride * heads;
    }

    /** Elements from one head to the next. */
    static long head(boolean split, int length, int width) {
        return split ? (long) length * width : width;
    }

    private void launch(CudaLaunch launch) {
        launch.value("size", op.size())
                .value("value_size", op.valueSize())
                .flag("causal", op.causal())
                .value("scale", op.scale())
                .launch();
    }

    /** A warp for each of some rows, with F32 numbers in shared memory next to the stage. */
    private static Grid grid(int rows, int heads, int batch, int numbersOfWarp) {
        int shared = 4 * (WARP * PITCH + WARPS * numbersOfWarp);
        return new Grid(Math.ceilDiv(rows, WARPS), heads, batch, THREADS, shared);
    }

    void forward() {
        int numbers = WARP + op.size() + op.valueSize();
        launch(launches.forward("attention_forward", grid(op.queries(), op.heads(), op.batch(), numbers)));
    }

    /** Address of dy·y of each query, F32 [batch, heads, queries]. */
    static long dots(Attention op, Frame<CudaTensor> frame, CudaStream cuda, long steps) {
        long rows = (long) op.batch() * op.heads() * op.queries();
        long dots = cuda.workspace(4 * rows);
        CudaSource source = CudaSource.of(PlainAttention.class, "attention.cu")
                .define("TYPE", CudaSource.type(op.q().dtype()))
                .define("MASK_TYPE", CudaSource.type(DType.F32))
                .define("TRUTH", 0);
        cuda.launch(
                source,
                "attention_dots",
                Grid.of(Math.ceilDiv(rows * DOT_LANES, (long) THREADS), THREADS),
                frame.output(0),
                frame.upstream(0),
                dots,
                steps,
                op.batch(),
                op.heads(),
                op.queries(),
                op.valueSize());
        return dots;
    }

    void backward() {
        long dots = dots(op, frame, cuda, steps);
        if (frame.wantsGradient(0)) {
            int numbers = WARP + 2 * op.size() + op.valueSize();
            launch(launches.queries("attention_queries", grid(op.queries(), op.heads(), op.batch(), numbers), dots));
        }
        if (frame.wantsGradient(1) || frame.wantsGradient(2)) {
            int numbers = 2 * (WARP + op.size() + op.valueSize());
            launch(launches.keys("attention_keys", grid(op.keys(), op.keyHeads(), op.batch(), numbers), dots));
        }
        if (op.mask() != null && frame.wantsGradient(3)) {
            maskGradient(frame.gradient(3), dots);
        }
    }

    /** Writes the mask's gradient, from dy·y of each query. */
    void maskGradient(CudaTensor to, long dots) {
        long[] lengths = {1, 1, 1, 1};
        int rank = to.shape().rank();
        for (int axis = 1; axis <= rank; axis++) {
            lengths[4 - axis] = to.shape().dim(-axis);
        }
        if (to.count() > 0) {
            Grid grid = Grid.over(to.count(), THREADS, 1);
            launch(launches.mask("attention_mask", grid, dots, to, cuda.table(lengths)));
        }
    }
}
