package dev.octet.trainer.op.attention;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.MatrixProducts.Call;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.Scratch;
import dev.octet.trainer.kernel.VectorMath;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.function.IntConsumer;

/**
 * A piece is a head of k and v in a sample, with all heads of q that share it. Within it, queries are taken in blocks whose scores stay in
 * the second-level cache; each block is five small products backward (scores, dp, dv, dq, dk) and two forward. Causal blocks leave
 * out the keys that none of their queries may see.
 */
final class AttentionCpu implements CpuKernel<Attention> {
    /** Scores of a block, in F32: a quarter of a second-level cache of 1 MiB. */
    private static final int BLOCK = 1 << 16;

    /** Fewer queries than this leave the registers of a product empty. */
    private static final int LEAST_QUERIES = 32;

    private static final Scratch SCORES = new Scratch();
    private static final Scratch NARROW = new Scratch();
    private static final Scratch UPSTREAM = new Scratch();
    private static final Scratch NARROW_UPSTREAM = new Scratch();

    /** Some queries of one head: rows {@code from .. from + rows - 1} of its scores, columns 0 .. columns - 1. */
    private record Block(Attention op, Frame<CpuTensor> frame, CpuContext cpu, int b, int h, int from, int rows) {
        /** Head of k and v. */
        int shared() {
            return h / op.group();
        }

        /** Keys that any of the queries may see. */
        int columns() {
            return op.causal() ? Math.min(op.keys(), from + rows) : op.keys();
        }

        MemorySegment q(CpuTensor t) {
            return from(t, op.startQ(b, h) + from * op.strideQ());
        }

        MemorySegment k(CpuTensor t) {
            return from(t, op.startK(b, shared()));
        }

        MemorySegment v(CpuTensor t) {
            return from(t, op.startV(b, shared()));
        }

        MemorySegment y(CpuTensor t) {
            return from(t, op.startY(b, h) + from * op.strideY());
        }

        int at(int row) {
            return (b * op.heads() + h) * op.queries() + from + row;
        }

        private static MemorySegment from(CpuTensor t, int element) {
            return t.bytes().asSlice((long) element * t.dtype().bits() / 8);
        }
    }

    private static int blockRows(Attention op) {
        return Math.min(op.queries(), Math.max(LEAST_QUERIES, BLOCK / Math.max(1, op.keys())));
    }

    @Override
    public void forward(Attention op, Frame<CpuTensor> frame, CpuContext cpu) {
        int height = blockRows(op);
        cpu.parallel().pieces(op.batch() * op.heads(), piece -> {
            for (int from = 0; from < op.queries(); from += height) {
                int rows = Math.min(height, op.queries() - from);
                forward(new Block(op, frame, cpu, piece / op.heads(), piece % op.heads(), from, rows));
            }
        });
    }

    private static void forward(Block block) {
        Attention op = block.op();
        Frame<CpuTensor> frame = block.frame();
        CpuTensor scores = scores(block);
        float[] row = new float[block.columns()];
        float[] sums = new float[block.rows()];
        CpuTensor p = narrow(NARROW, scores, op.q().dtype());
        for (int i = 0; i < block.rows(); i++) {
            masked(block, scores, i, row);
            float max = VectorMath.max(row, 0, row.length);
            float sum =
                    max == Float.NEGATIVE_INFINITY ? 0 : VectorMath.expOfDifference(row, 0, max, row, 0, row.length);
            sums[i] = max + (float) Math.log(sum);
            if (sum == 0) {
                Arrays.fill(row, 0);
            } else {
                scale(row, 1 / sum);
            }
            p.write((long) i * row.length, row, 0, row.length);
        }
        frame.output(1).write(block.at(0), sums, 0, sums.length);
        CpuTensor y = frame.output(0);
        Call product = new Call(
                false,
                false,
                block.rows(),
                op.valueSize(),
                row.length,
                row.length,
                op.strideV(),
                op.strideY(),
                p.dtype(),
                y.dtype(),
                false);
        block.cpu().gemm().single(product, p.bytes(), block.v(frame.input(2)), block.y(y));
    }

    /** q·kᵀ in F32, [rows, columns]. */
    private static CpuTensor scores(Block block) {
        Attention op = block.op();
        CpuTensor scores = SCORES.room(new OperandType(DType.F32, Shape.of(block.rows(), block.columns())));
        Call product = new Call(
                false,
                true,
                block.rows(),
                block.columns(),
                op.size(),
                op.strideQ(),
                op.strideK(),
                block.columns(),
                op.q().dtype(),
                DType.F32,
                false);
        CpuTensor q = block.frame().input(0);
        CpuTensor k = block.frame().input(1);
        block.cpu().gemm().single(product, block.q(q), block.k(k), scores.bytes());
        return scores;
    }

    /** Row {@code i} of the scores, scaled and masked. */
    private static void masked(Block block, CpuTensor scores, int i, float[] row) {
        Attention op = block.op();
        scores.read((long) i * row.length, row, 0, row.length);
        scale(row, op.scale());
        if (op.mask() != null) {
            addMask(op, block.frame().input(3), op.startMask(block.b(), block.h(), block.from() + i), row);
        }
        if (op.causal() && block.from() + i + 1 < row.length) {
            Arrays.fill(row, block.from() + i + 1, row.length, Float.NEGATIVE_INFINITY);
        }
    }

    private static void addMask(Attention op, CpuTensor mask, int start, float[] row) {
        float[] values = new float[row.length];
        mask.read(start, values, 0, op.maskStep() == 0 ? 1 : row.length);
        if (op.maskStep() == 0) {
            Arrays.fill(values, values[0]);
        }
        boolean truth = mask.dtype() == DType.BOOL;
        for (int j = 0; j < row.length; j++) {
            if (!truth) {
                row[j] += values[j];
            } else if (values[j] == 0) {
                row[j] = Float.NEGATIVE_INFINITY;
            }
        }
    }

    private static void scale(float[] row, float factor) {
        for (int j = 0; j < row.length; j++) {
            row[j] *= factor;
        }
    }

    /** Where a product's operand of the given type is written: the F32 tensor itself, or room next to it. */
    private static CpuTensor narrow(Scratch scratch, CpuTensor wide, DType dtype) {
        return dtype == DType.F32 ? wide : scratch.room(wide.type().as(dtype));
    }

    @Override
    public void backward(Attention op, Frame<CpuTensor> frame, CpuContext cpu) {
        float[] maskGradient = op.mask() != null && frame.wantsGradient(3)
                ? new float[Math.toIntExact(op.mask().count())]
                : new float[0];
        int height = blockRows(op);
        IntConsumer piece = n -> {
            int b = n / op.keyHeads();
            int shared = n % op.keyHeads();
            boolean begun = false;
            for (int h = shared * op.group(); h < (shared + 1) * op.group(); h++) {
                for (int from = 0; from < op.queries(); from += height) {
                    int rows = Math.min(height, op.queries() - from);
                    begun = backward(new Block(op, frame, cpu, b, h, from, rows), begun, maskGradient);
                }
            }
        };
        int pieces = op.batch() * op.keyHeads();
        if (op.causal()) {
            clearKeys(frame);
        }
        if (maskGradient.length > 0) {
            // pieces add to the same places: one after the other
            for (int n = 0; n < pieces; n++) {
                piece.accept(n);
            }
            frame.gradient(3).write(0, maskGradient, 0, maskGradient.length);
        } else {
            cpu.parallel().pieces(pieces, piece);
        }
    }

    /** Causal blocks do not reach all keys, so their gradients are added to zeros. */
    private static void clearKeys(Frame<CpuTensor> frame) {
        for (int i = 1; i <= 2; i++) {
            if (frame.wantsGradient(i)) {
                frame.gradient(i).bytes().fill((byte) 0);
            }
        }
    }

    private static boolean backward(Block block, boolean begun, float[] maskGradient) {
        Attention op = block.op();
        Frame<CpuTensor> frame = block.frame();
        boolean add = begun || op.causal();
        int columns = block.columns();
        CpuTensor dy = frame.upstream(0);
        CpuTensor p = scores(block);
        CpuTensor dp = UPSTREAM.room(p.type());
        Call upstream = new Call(
                false,
                true,
                block.rows(),
                columns,
                op.valueSize(),
                op.strideY(),
                op.strideV(),
                columns,
                op.q().dtype(),
                DType.F32,
                false);
        block.cpu().gemm().single(upstream, block.y(dy), block.v(frame.input(2)), dp.bytes());
        CpuTensor narrowP = narrow(NARROW, p, op.q().dtype());
        CpuTensor ds = narrow(NARROW_UPSTREAM, dp, op.q().dtype());
        softmaxGradient(block, p, dp, narrowP, ds, maskGradient);
        if (frame.wantsGradient(2)) {
            Call product = keyProduct(block, op.valueSize(), op.strideY(), op.strideV(), frame.gradient(2), add);
            block.cpu().gemm().single(product, narrowP.bytes(), block.y(dy), block.v(frame.gradient(2)));
        }
        if (frame.wantsGradient(0)) {
            CpuTensor dq = frame.gradient(0);
            Call product = new Call(
                    false,
                    false,
                    block.rows(),
                    op.size(),
                    columns,
                    columns,
                    op.strideK(),
                    op.strideQ(),
                    op.q().dtype(),
                    dq.dtype(),
                    false);
            block.cpu().gemm().single(product, ds.bytes(), block.k(frame.input(1)), block.q(dq));
        }
        if (frame.wantsGradient(1)) {
            Call product = keyProduct(block, op.size(), op.strideQ(), op.strideK(), frame.gradient(1), add);
            block.cpu().gemm().single(product, ds.bytes(), block.q(frame.input(0)), block.k(frame.gradient(1)));
        }
        return true;
    }

    /** A product of [rows, columns], transposed, with rows of a query: a sum over queries for each key. */
    private static Call keyProduct(Block block, int width, int stride, int resultStride, CpuTensor to, boolean add) {
        return new Call(
                true,
                false,
                block.columns(),
                width,
                block.rows(),
                block.columns(),
                stride,
                resultStride,
                block.op().q().dtype(),
                to.dtype(),
                add);
    }

    /** Scores to probabilities, and dp to scale·ds, row by row. */
    private static void softmaxGradient(
            Block block, CpuTensor scores, CpuTensor dp, CpuTensor p, CpuTensor ds, float[] maskGradient) {
        Attention op = block.op();
        int columns = block.columns();
        float[] row = new float[columns];
        float[] up = new float[columns];
        float[] sums = new float[block.rows()];
        block.frame().output(1).read(block.at(0), sums, 0, sums.length);
        for (int i = 0; i < block.rows(); i++) {
            masked(block, scores, i, row);
            if (sums[i] == Float.NEGATIVE_INFINITY) {
                Arrays.fill(row, 0);
            } else {
                VectorMath.expOfDifference(row, 0, sums[i], row, 0, columns);
            }
            dp.read((long) i * columns, up, 0, columns);
            float dot = VectorMath.dot(row, 0, up, 0, columns);
            for (int j = 0; j < columns; j++) {
                up[j] = row[j] * (up[j] - dot);
            }
            if (maskGradient.length > 0) {
                int start = op.startMask(block.b(), block.h(), block.from() + i);
                for (int j = 0; j < columns; j++) {
                    maskGradient[start + j * op.maskStep()] += up[j];
                }
            }
            scale(up, op.scale());
            p.write((long) i * columns, row, 0, columns);
            ds.write((long) i * columns, up, 0, columns);
        }
    }
}
