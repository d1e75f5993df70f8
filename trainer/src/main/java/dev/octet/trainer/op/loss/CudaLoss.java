package dev.octet.trainer.op.loss;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/**
 * A loss of many positions on a GPU: the loss of each and how much it counts, F32, as the kernels of a loss leave them for one number to be
 * made of.
 *
 * @param losses address of the losses, already times their weights
 * @param weights address of the weights
 * @param count of positions
 */
record CudaLoss(long losses, long weights, long count) {
    /** Threads of the kernels of losses, as their sources have it. */
    static final int THREADS = 256;

    private static final int WARP = 32;

    /** Elements of a row up to which a warp is enough for it. */
    private static final int SHORT = 1024;

    /** Room in the step's workspace. */
    static CudaLoss room(long count, CudaStream cuda) {
        return new CudaLoss(cuda.workspace(4 * count), cuda.workspace(4 * count), count);
    }

    /** The same with the losses where {@code tensor} lies. */
    CudaLoss into(CudaTensor tensor) {
        return new CudaLoss(tensor.address(), weights, count);
    }

    /** {@code scale} times the sum of the losses, divided by the sum of the weights. */
    void mean(float scale, CudaTensor loss, CudaTensor divisor, CudaStream cuda) {
        launch(weights, scale, loss, divisor, cuda);
    }

    /** The losses as a reduction has it; {@link Reduction#NONE} writes the divisor alone. */
    void reduce(Reduction reduction, CudaTensor loss, CudaTensor divisor, CudaStream cuda) {
        switch (reduction) {
            case NONE -> launch(0, 1, 0L, divisor, cuda);
            case SUM -> launch(0, 1, loss, divisor, cuda);
            case MEAN -> launch(weights, 1, loss, divisor, cuda);
        }
    }

    private void launch(long by, float scale, Object loss, CudaTensor divisor, CudaStream cuda) {
        CudaSource source = CudaSource.of(CudaLoss.class, "mean.cu");
        cuda.launch(source, "loss_mean", Grid.of(1, 1024), losses, by, count, scale, loss, divisor);
    }

    /** Threads that have a row of {@code size} elements: a warp or a block. */
    static int group(int size) {
        return size <= SHORT ? WARP : THREADS;
    }

    /** Blocks for rows of {@code size} elements. */
    static Grid rows(long count, int size) {
        return Grid.of(Math.ceilDiv(count, (long) THREADS / group(size)), THREADS);
    }

    /** Elements that are loaded at once from rows of {@code size} of them. */
    static int pack(DType type, int size) {
        int pack = 16 / (type.bits() / 8);
        return size % pack == 0 ? pack : 1;
    }

    /** An optional operand: 0 where it is absent. */
    static long input(Frame<CudaTensor> frame, int i) {
        return frame.hasInput(i) ? frame.input(i).address() : 0L;
    }

    /** Type of an optional operand, F32 where it is absent. */
    static String type(Frame<CudaTensor> frame, int i, DType absent) {
        return CudaSource.type(frame.hasInput(i) ? frame.input(i).dtype() : absent);
    }

    /**
     * The source of losses over classes.
     *
     * @param x type of the scores
     * @param t type of the teacher's scores; x where there are none
     * @param labels number of the input that holds labels
     * @param weights number of the input that holds weights
     */
    static CudaSource classes(Frame<CudaTensor> frame, DType x, DType t, int labels, int weights, int classes) {
        return CudaSource.of(CudaLoss.class, "class_labels.cu")
                .define("X_TYPE", CudaSource.type(x))
                .define("T_TYPE", CudaSource.type(t))
                .define("LABEL_TYPE", type(frame, labels, DType.I64))
                .define("W_TYPE", type(frame, weights, DType.F32))
                .define("GROUP", group(classes))
                .define("PACK", pack(x, classes));
    }
}
