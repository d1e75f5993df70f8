package dev.octet.trainer.gemm;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Gemm;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.Parallel;
import dev.octet.trainer.kernel.Scratch;
import java.lang.foreign.MemorySegment;

/**
 * Products by oneDNN. What it cannot do is done around it: F16 operands (and BF16 ones where the processor lacks the instructions)
 * are widened first; results in BF16 or F16 are summed in F32, as many rows at a time as stay in a second-level cache, and rounded
 * once.
 */
final class OneDnnGemm implements Gemm {
    /** Elements of a block of sums: half a second-level cache of 1 MiB. */
    private static final int BLOCK = 1 << 17;

    /** Columns of such a block; narrower ones pack the left operand too often, wider ones the right. */
    private static final int BLOCK_COLUMNS = 512;

    private static final Scratch SUMS = new Scratch();
    private static final Scratch LEFT = new Scratch();
    private static final Scratch RIGHT = new Scratch();

    private final OneDnn library;

    OneDnnGemm(OneDnn library) {
        this.library = library;
    }

    @Override
    public String name() {
        return library.name();
    }

    @Override
    public void single(Call call, MemorySegment a, MemorySegment b, MemorySegment c) {
        if (isDirect(call.operands())) {
            block(call, a, b, c, 0, 0, call.m(), call.n());
        } else {
            MemorySegment left = widened(LEFT, call.operands(), a, 0, elements(a, call.operands()));
            MemorySegment right = widened(RIGHT, call.operands(), b, 0, elements(b, call.operands()));
            block(inF32(call), left, right, c, 0, 0, call.m(), call.n());
        }
    }

    @Override
    public void shared(Call call, MemorySegment a, MemorySegment b, MemorySegment c, Parallel parallel) {
        Call direct = call;
        MemorySegment left = a;
        MemorySegment right = b;
        if (!isDirect(call.operands())) {
            direct = inF32(call);
            left = widened(LEFT, call.operands(), a, parallel);
            right = widened(RIGHT, call.operands(), b, parallel);
        }
        Call product = direct;
        MemorySegment x = left;
        MemorySegment w = right;
        Cuts cuts = Cuts.of(call);
        parallel.pieces(cuts.count(), p -> {
            int from = cuts.from(p);
            int length = cuts.length(p, product);
            if (cuts.alongRows()) {
                block(product, x, w, c, from, 0, length, product.n());
            } else {
                block(product, x, w, c, 0, from, product.m(), length);
            }
        });
    }

    private boolean isDirect(DType operands) {
        return operands == DType.F32 || (operands == DType.BF16 && library.multipliesBf16());
    }

    private static Call inF32(Call c) {
        return new Call(
                c.transposeA(),
                c.transposeB(),
                c.m(),
                c.n(),
                c.k(),
                c.lda(),
                c.ldb(),
                c.ldc(),
                DType.F32,
                c.result(),
                c.accumulate());
    }

    /** Rows {@code row ..} and columns {@code column ..} of the result. */
    private void block(
            Call call, MemorySegment a, MemorySegment b, MemorySegment c, int row, int column, int rows, int columns) {
        if (call.result() == DType.F32) {
            multiply(
                    call,
                    a,
                    b,
                    row,
                    column,
                    rows,
                    columns,
                    call.accumulate(),
                    at(c, DType.F32, row * call.ldc() + column),
                    call.ldc());
            return;
        }
        int height = Math.min(rows, BLOCK / BLOCK_COLUMNS);
        for (int j = 0; j < columns; j += BLOCK_COLUMNS) {
            for (int i = 0; i < rows; i += height) {
                int width = Math.min(BLOCK_COLUMNS, columns - j);
                narrowBlock(call, a, b, flat(c, call.result()), row + i, column + j, Math.min(height, rows - i), width);
            }
        }
    }

    /** A block of the result, summed in F32 and rounded. */
    private void narrowBlock(
            Call call, MemorySegment a, MemorySegment b, CpuTensor to, int row, int column, int rows, int columns) {
        float[] line = new float[columns];
        CpuTensor sums = flat(SUMS.room((long) rows * columns * Float.BYTES), DType.F32);
        if (call.accumulate()) {
            for (int i = 0; i < rows; i++) {
                to.read((row + i) * call.ldc() + column, line, 0, columns);
                sums.write((long) i * columns, line, 0, columns);
            }
        }
        multiply(call, a, b, row, column, rows, columns, call.accumulate(), sums.bytes(), columns);
        for (int i = 0; i < rows; i++) {
            sums.read((long) i * columns, line, 0, columns);
            to.write((row + i) * call.ldc() + column, line, 0, columns);
        }
    }

    private void multiply(
            Call call,
            MemorySegment a,
            MemorySegment b,
            int row,
            int column,
            int rows,
            int columns,
            boolean accumulate,
            MemorySegment sums,
            long stride) {
        MemorySegment left = at(a, call.operands(), call.transposeA() ? row : row * call.lda());
        MemorySegment right = at(b, call.operands(), call.transposeB() ? column * call.ldb() : column);
        library.multiply(
                call.operands(),
                call.transposeA(),
                call.transposeB(),
                rows,
                columns,
                call.k(),
                left,
                call.lda(),
                right,
                call.ldb(),
                accumulate,
                sums,
                stride);
    }

    private static MemorySegment widened(Scratch scratch, DType dtype, MemorySegment bytes, Parallel parallel) {
        long count = elements(bytes, dtype);
        MemorySegment room = scratch.room(count * Float.BYTES);
        parallel.ranges(count, BLOCK, (from, to) -> widen(dtype, bytes, from, to, room));
        return room;
    }

    private static MemorySegment widened(Scratch scratch, DType dtype, MemorySegment bytes, long from, long to) {
        MemorySegment room = scratch.room((to - from) * Float.BYTES);
        widen(dtype, bytes, from, to, room);
        return room;
    }

    private static void widen(DType dtype, MemorySegment bytes, long from, long to, MemorySegment room) {
        CpuTensor narrow = flat(bytes, dtype);
        CpuTensor wide = flat(room, DType.F32);
        float[] tile = new float[2048];
        for (long i = from; i < to; i += tile.length) {
            int n = (int) Math.min(tile.length, to - i);
            narrow.read(i, tile, 0, n);
            wide.write(i, tile, 0, n);
        }
    }

    private static long elements(MemorySegment bytes, DType dtype) {
        return bytes.byteSize() * 8 / dtype.bits();
    }

    private static MemorySegment at(MemorySegment bytes, DType dtype, long element) {
        return bytes.asSlice(element * dtype.bits() / 8);
    }

    private static CpuTensor flat(MemorySegment bytes, DType dtype) {
        return new CpuTensor(new OperandType(dtype, Shape.of(elements(bytes, dtype))), bytes);
    }
}
