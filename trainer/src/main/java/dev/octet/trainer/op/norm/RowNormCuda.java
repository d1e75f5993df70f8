package dev.octet.trainer.op.norm;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.Float8Format;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaLaunch;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.op.fp8.CudaCodes;
import dev.octet.trainer.op.product.CudaRows;
import org.jspecify.annotations.Nullable;

/**
 * Rows lie in registers: x is read once forward, x and dy once backward. Forward, a warp has a row of up to 2048 elements, a block one of up to
 * 8192; backward, where a thread also holds its columns' part of dw and db, a warp has one of up to 1024. Longer rows are read again.
 *
 * <p>dw and db are summed in two stages: at most 528 pieces of rows, chosen by the shape alone, then the pieces in order; so the
 * bits are the same on every GPU, and whether codes are made or not.
 */
final class RowNormCuda implements CudaKernel<RowNorm> {
    /** As in the source. */
    private static final int THREADS = 256;

    private static final int WARP = 32;
    private static final int TURNED = 32;
    private static final int COLUMNS = 32;

    /** Elements of a row of codes that a block keeps until they are transposed, at most: then three blocks fit a multiprocessor. */
    private static final int LONGEST_TURNED = 2048;

    /** Threads of a row, and elements of it in registers of each; none where the row is too long. */
    private record Layout(int group, int elements) {
        static Layout forward(int size) {
            if (size <= WARP * 64) {
                return new Layout(WARP, elements(size));
            }
            return new Layout(THREADS, 32);
        }

        static Layout backward(int size) {
            if (size <= WARP * 32) {
                return new Layout(WARP, elements(size));
            }
            return new Layout(THREADS, size <= THREADS * 8 ? 8 : 32);
        }

        /** Of a lane: as few registers as hold the row, so that more warps are resident. */
        private static int elements(int size) {
            return Math.max(1, Math.ceilDiv(size, WARP * 8)) * 8;
        }

        /** Pieces of rows at most: two blocks, or four that have a row each, for each of a large GPU's 132 multiprocessors. */
        private int pieces() {
            return group == WARP ? 264 : 528;
        }

        /** Whether pieces are such that a block can make codes of gradients, too: where it has its rows one after the other it takes many to keep a GPU busy. */
        boolean isTurned(long rows) {
            return group == WARP || rows >= (long) TURNED * pieces() / 4;
        }

        /** Rows of a piece. Whole tiles, and whole pairs of tiles, which bias sums are of, or one of a pair. */
        int each(long rows) {
            if (!isTurned(rows)) {
                return Math.toIntExact(Math.ceilDiv(rows, (long) pieces()));
            }
            long tiles = Math.ceilDiv(Math.ceilDiv(rows, (long) TURNED), (long) pieces());
            return Math.toIntExact(TURNED * (tiles == 1 ? 1 : Math.ceilDiv(tiles, 2L) * 2));
        }

        boolean isTooLong(int size) {
            return size > group * elements;
        }

        long blocks(long rows) {
            return Math.ceilDiv(rows, (long) THREADS / group);
        }
    }

    /** Whether a row does not lie in registers. */
    static boolean isTooLong(RowNorm op) {
        return Layout.forward(op.size()).isTooLong(op.size());
    }

    /** The source of forward kernels with a result of type {@code y}. */
    static CudaSource source(RowNorm op, DType y, DType w, DType b) {
        return source(op, w, b, Layout.forward(op.size())).define("Y_TYPE", CudaSource.type(y));
    }

    /** Blocks of forward kernels. */
    static Grid grid(RowNorm op) {
        return Grid.of(Layout.forward(op.size()).blocks(op.rows()), THREADS);
    }

    /** Blocks of the forward kernel that makes the transpose of codes, too; null where rows are not as it takes them. */
    static @Nullable Grid turning(RowNorm op) {
        if (Layout.forward(op.size()).group != WARP || pack(op) == 1) {
            return null;
        }
        return Grid.of(Math.ceilDiv(op.rows(), TURNED), THREADS).withShared(keptBytes(op));
    }

    /** Blocks of the backward kernel that makes codes of what it passes on, and their transpose; null where rows are not as it takes them. */
    static @Nullable Grid turningGradients(RowNorm op) {
        Layout layout = Layout.backward(op.size());
        if (pack(op) == 1 || op.size() > LONGEST_TURNED || !layout.isTurned(op.rows())) {
            return null;
        }
        int sums = layout.group == WARP ? THREADS / WARP * op.size() * Float.BYTES : 0;
        return Grid.of(Math.ceilDiv(op.rows(), Math.max(layout.each(op.rows()), 2 * TURNED)), THREADS)
                .withShared(keptBytes(op) + sums);
    }

    private static int keptBytes(RowNorm op) {
        return TURNED * (op.size() + pack(op));
    }

    private static int pack(RowNorm op) {
        int pack = 16 / (op.x().dtype().bits() / 8);
        return op.size() % pack == 0 ? pack : 1;
    }

    private static CudaSource source(RowNorm op, DType w, DType b, Layout layout) {
        return CudaSource.of(RowNormCuda.class, "norm.cu")
                .define("X_TYPE", CudaSource.type(op.x().dtype()))
                .define("Y_TYPE", CudaSource.type(op.y().dtype()))
                .define("W_TYPE", CudaSource.type(w))
                .define("B_TYPE", CudaSource.type(b))
                .define("GROUP", layout.group)
                .define("PACK", pack(op))
                .define("ELEMENTS", layout.elements);
    }

    @Override
    public void forward(RowNorm op, Frame<CudaTensor> frame, CudaStream cuda) {
        if (op.x().count() == 0) {
            return;
        }
        Layout layout = Layout.forward(op.size());
        CudaTensor w = frame.input(1);
        boolean biased = frame.hasInput(2);
        DType b = biased ? frame.input(2).dtype() : w.dtype();
        boolean isLong = layout.isTooLong(op.size());
        cuda.launch(
                source(op, w.dtype(), b, layout),
                isLong ? "norm_forward_long" : "norm_forward",
                Grid.of(isLong ? op.rows() : layout.blocks(op.rows()), THREADS),
                frame.input(0),
                w,
                biased ? frame.input(2) : (Object) 0L,
                frame.output(0),
                op.centred() ? frame.output(1) : (Object) 0L,
                frame.output(op.deviationOutput()),
                (long) op.rows(),
                op.size(),
                op.epsilon());
    }

    @Override
    public void backward(RowNorm op, Frame<CudaTensor> frame, CudaStream cuda) {
        if (op.x().count() == 0) {
            for (int i = 1; i <= 2; i++) {
                if (frame.wantsGradient(i)) {
                    cuda.zero(frame.gradient(i).address(), frame.gradient(i).byteSize());
                }
            }
            return;
        }
        new Backward(op, frame, Passing.alone(frame), cuda).write();
    }

    /** Whether a row's gradients do not lie in registers. */
    static boolean isGradientTooLong(RowNorm op) {
        return Layout.backward(op.size()).isTooLong(op.size());
    }

    /**
     * Where gradients come from and go to. Addresses are 0 where there is nothing.
     *
     * @param dy gradient of the result; null for none
     * @param residual what the gradient of x is added to
     * @param dx where that goes
     * @param narrow where it goes in another type, too; null for nowhere
     * @param coded where that goes as codes; null for nowhere
     * @param beforeW what the gradient of w is added to
     * @param dw where that goes; null for nowhere
     * @param beforeB what the gradient of b is added to
     * @param db where that goes; null for nowhere
     */
    record Passing(
            @Nullable CudaTensor dy,
            long residual,
            long dx,
            @Nullable CudaTensor narrow,
            @Nullable Coded coded,
            long beforeW,
            @Nullable CudaTensor dw,
            long beforeB,
            @Nullable CudaTensor db) {
        /** Of a step by itself. */
        static Passing alone(Frame<CudaTensor> frame) {
            return new Passing(
                    frame.hasUpstream(0) ? frame.upstream(0) : null,
                    0,
                    frame.wantsGradient(0) ? frame.gradient(0).address() : 0,
                    null,
                    null,
                    0,
                    frame.wantsGradient(1) ? frame.gradient(1) : null,
                    0,
                    frame.wantsGradient(2) ? frame.gradient(2) : null);
        }
    }

    /**
     * What is passed on as codes.
     *
     * @param of what is cast, which need not be written
     * @param grid of the kernel
     * @param sums where sums of rows go as casts make them, F32 [{@link CudaCodes#sumRows}, size]; 0 for nowhere
     */
    record Coded(CudaTensor of, Grid grid, Float8Format format, CudaCodes.Cast to, long sums) {}

    /** Writes gradients. */
    record Backward(RowNorm op, Frame<CudaTensor> frame, Passing passing, CudaStream cuda) {
        void write() {
            Layout layout = Layout.backward(op.size());
            DType w = frame.input(1).dtype();
            CudaTensor dw = passing.dw();
            CudaTensor db = passing.db();
            CudaSource source = source(op, w, db != null ? db.dtype() : w, layout);
            int pieces = Math.ceilDiv(op.rows(), layout.each(op.rows()));
            long bytes = 4L * pieces * op.size();
            long weights = dw != null ? cuda.workspace(dw, bytes) : 0;
            long biases = db != null ? cuda.workspace(db, bytes) : 0;
            if (layout.isTooLong(op.size())) {
                backwardOfLongRows(op, frame, source, pieces, weights, biases, cuda);
            } else {
                launch(source, pieces, weights, biases);
            }
            if (dw != null) {
                join("norm_weights", source, weights, passing.beforeW(), dw, pieces);
            }
            if (db != null) {
                join("norm_biases", source, biases, passing.beforeB(), db, pieces);
            }
        }

        /** Sums of F32 are joined as those of Linears' biases are, in the same order. */
        private void join(String kernel, CudaSource source, long parts, long before, CudaTensor sum, int pieces) {
            CudaTensor other = sum.equals(passing.dw()) ? passing.db() : passing.dw();
            boolean inPlace = before == 0 || before == sum.address();
            if (sum.dtype() == DType.F32 && inPlace && !sum.equals(other)) {
                CudaRows.join(parts, pieces, op.size(), sum, before != 0, cuda);
                return;
            }
            Grid columns = Grid.of(Math.ceilDiv(op.size(), COLUMNS), THREADS);
            cuda.launch(source, kernel, columns, parts, before, sum, pieces, op.size());
        }

        private void launch(CudaSource source, int pieces, long weights, long biases) {
            CudaTensor dy = passing.dy();
            CudaTensor narrow = passing.narrow();
            Coded coded = passing.coded();
            boolean fused = passing.residual() != 0
                    || narrow != null
                    || coded != null
                    || (dy != null && dy.dtype() != op.y().dtype());
            CudaSource types = !fused
                    ? source
                    : source.define(
                                    "UP_TYPE",
                                    CudaSource.type(dy == null ? op.y().dtype() : dy.dtype()))
                            .define("NARROW_TYPE", CudaSource.type(narrowType()));
            CudaLaunch launch = kernel(types, fused, Grid.of(pieces, THREADS))
                    .pointer("x", frame.input(0))
                    .pointer("w", frame.input(1))
                    .pointer("means", op.centred() ? frame.output(1).address() : 0L)
                    .pointer("deviations", frame.output(op.deviationOutput()))
                    .pointer("dy", dy == null ? 0L : dy.address())
                    .pointer("dmean", op.centred() ? upstream(frame, 1) : 0L)
                    .pointer("ddeviation", upstream(frame, op.deviationOutput()));
            CudaLaunch passed = fused
                    ? launch.pointer("residual", passing.residual())
                            .pointer("dx", passing.dx())
                            .pointer("narrow", narrow == null ? 0L : narrow.address())
                    : launch.pointer("dx", passing.dx());
            passed.pointer("dw_pieces", weights)
                    .pointer("db_pieces", biases)
                    .value("rows", (long) op.rows())
                    .value("size", op.size())
                    .value("each", Layout.backward(op.size()).each(op.rows()));
            if (coded != null) {
                passed.pointer("codes", coded.to().codes())
                        .pointer("quant_scale", coded.to().quantScale())
                        .pointer("scale", coded.to().scale())
                        .pointer("amax", coded.to().amax())
                        .pointer("transposed", coded.to().transposed())
                        .value("leading", CudaCodes.leading(op.rows()))
                        .pointer("sums", coded.sums());
            }
            passed.launch();
        }

        private DType narrowType() {
            Coded coded = passing.coded();
            CudaTensor narrow = coded != null ? coded.of() : passing.narrow();
            return narrow == null ? DType.BF16 : narrow.dtype();
        }

        private CudaLaunch kernel(CudaSource source, boolean fused, Grid grid) {
            Coded coded = passing.coded();
            if (coded == null) {
                return cuda.kernel(source, fused ? "norm_backward_fused" : "norm_backward", grid);
            }
            String type = CudaSource.suffix(coded.format().dtype());
            return cuda.kernel(source.define("PASSED_TYPE", type), "norm_backward_transposed", coded.grid());
        }
    }

    private static void backwardOfLongRows(
            RowNorm op, Frame<CudaTensor> frame, CudaSource source, int pieces, long dw, long db, CudaStream cuda) {
        long means = op.centred() ? frame.output(1).address() : 0L;
        CudaTensor deviations = frame.output(op.deviationOutput());
        if (frame.wantsGradient(0)) {
            cuda.kernel(source, "norm_backward_long", Grid.of(op.rows(), THREADS))
                    .pointer("x", frame.input(0))
                    .pointer("w", frame.input(1))
                    .pointer("means", means)
                    .pointer("deviations", deviations)
                    .pointer("dy", upstream(frame, 0))
                    .pointer("dmean", op.centred() ? upstream(frame, 1) : 0L)
                    .pointer("ddeviation", upstream(frame, op.deviationOutput()))
                    .pointer("dx", frame.gradient(0))
                    .value("rows", (long) op.rows())
                    .value("size", op.size())
                    .launch();
        }
        if (dw != 0 || db != 0) {
            cuda.launch(
                    source,
                    "norm_columns_long",
                    new Grid(Math.ceilDiv(op.size(), THREADS), pieces, 1, THREADS, 0),
                    frame.input(0),
                    means,
                    deviations,
                    upstream(frame, 0),
                    dw,
                    db,
                    (long) op.rows(),
                    op.size(),
                    pieces);
        }
    }

    private static long upstream(Frame<CudaTensor> frame, int output) {
        return frame.hasUpstream(output) ? frame.upstream(output).address() : 0L;
    }
}
