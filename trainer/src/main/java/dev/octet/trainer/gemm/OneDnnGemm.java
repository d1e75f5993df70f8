package dev.octet.trainer.gemm;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.gemm.OneDnn.Operand;
import dev.octet.trainer.gemm.OneDnn.Product;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.MatrixProducts;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.Parallel;
import dev.octet.trainer.kernel.Scratch;
import java.lang.foreign.MemorySegment;

/**
 * Products by oneDNN, with the fastest route for each operand type. Cases that the library lacks are built from others: operands are
 * widened, and BF16 or F16 results are summed in F32 and rounded once, in blocks that fit a second-level cache.
 */
final class OneDnnGemm implements MatrixProducts {
    /** Elements in a block of F32 sums: half a second-level cache of 1 MiB. */
    private static final int BLOCK = 1 << 17;

    /** Columns of such a block; narrower blocks pack the left operand too often, wider ones the right operand. */
    private static final int BLOCK_COLUMNS = 512;

    // a block of widened operands: 384 KiB of the left one, 288 KiB of the right one
    private static final int WIDE_ROWS = 512;
    private static final int WIDE_COLUMNS = 384;
    private static final int WIDE_TERMS = 192;

    /** Elements widened per call: the array stays in the first-level cache. */
    private static final int TILE = 2048;

    /** Minimum number of multiplications for which looking up a compiled product pays. */
    private static final long COMPILED = 1L << 21;

    private static final Scratch SUMS = new Scratch();
    private static final Scratch LEFT = new Scratch();
    private static final Scratch RIGHT = new Scratch();
    private static final ThreadLocal<float[]> TILES = ThreadLocal.withInitial(() -> new float[TILE]);

    private final OneDnn library;
    private final MatmulPrimitives primitives;
    private final Rates rates;
    private final Route bf16;
    private final Route f16;

    OneDnnGemm(OneDnn library, Rates rates) {
        this(library, rates, rates.best(DType.BF16), rates.best(DType.F16));
    }

    /** Uses the given routes for BF16 and F16. */
    OneDnnGemm(OneDnn library, Rates rates, Route bf16, Route f16) {
        this.library = library;
        this.primitives = new MatmulPrimitives(library);
        this.rates = rates;
        this.bf16 = bf16;
        this.f16 = f16;
    }

    @Override
    public String name() {
        return library.name();
    }

    /** Name and chosen routes with reasons, for the header of a run. */
    String text() {
        return name() + "; " + rates.text();
    }

    @Override
    public void single(Call call, MemorySegment a, MemorySegment b, MemorySegment c) {
        piece(new Pair(call, a, b), c, new Block(0, 0, call.m(), call.n()));
    }

    @Override
    public void shared(Call call, MemorySegment a, MemorySegment b, MemorySegment c, Parallel parallel) {
        Pair pair = new Pair(call, a, b);
        Cuts cuts = Cuts.of(call);
        parallel.pieces(cuts.count(), p -> {
            int from = cuts.from(p);
            int length = cuts.length(p, call);
            piece(
                    pair,
                    c,
                    cuts.alongRows() ? new Block(from, 0, length, call.n()) : new Block(0, from, call.m(), length));
        });
    }

    /** A rectangle of the result. */
    private record Block(int row, int column, int rows, int columns) {}

    /** The operands of a product in memory. */
    private record Pair(Call call, MemorySegment a, MemorySegment b) {
        /** op(A) from row {@code row} and term {@code term} on. */
        Operand left(int row, int term) {
            long at = call.transposeA() ? term * call.lda() + row : row * call.lda() + term;
            return new Operand(at(a, call.operands(), at), call.transposeA(), call.lda());
        }

        /** op(B) from term {@code term} and column {@code column} on. */
        Operand right(int term, int column) {
            long at = call.transposeB() ? column * call.ldb() + term : term * call.ldb() + column;
            return new Operand(at(b, call.operands(), at), call.transposeB(), call.ldb());
        }
    }

    private void piece(Pair pair, MemorySegment c, Block block) {
        Call call = pair.call;
        switch (route(call, block)) {
            case MATMUL -> {
                Product product = new Product(
                        block.rows,
                        block.columns,
                        call.k(),
                        pair.left(block.row, 0),
                        pair.right(0, block.column),
                        result(call, c, block),
                        call.accumulate());
                if (!primitives.multiply(call.operands(), call.result(), product)) {
                    blocks(pair, c, block, Route.WIDENED, WIDE_ROWS, WIDE_COLUMNS);
                }
            }
            case GEMM -> {
                if (call.result() == DType.F32) {
                    sums(pair, block, Route.GEMM, result(call, c, block), call.accumulate());
                } else {
                    blocks(pair, c, block, Route.GEMM, BLOCK / BLOCK_COLUMNS, BLOCK_COLUMNS);
                }
            }
            case WIDENED -> blocks(pair, c, block, Route.WIDENED, WIDE_ROWS, WIDE_COLUMNS);
            case JAVA -> throw new IllegalStateException("Gemms chooses Java for all products or for none");
        }
    }

    private Route route(Call call, Block block) {
        return switch (call.operands()) {
            case F32 -> Route.GEMM;
            case BF16 -> {
                boolean small = (long) block.rows * block.columns * call.k() < COMPILED;
                yield bf16 == Route.MATMUL && small ? Route.GEMM : bf16;
            }
            default -> f16;
        };
    }

    private static Operand result(Call call, MemorySegment c, Block block) {
        return new Operand(at(c, call.result(), block.row * call.ldc() + block.column), false, call.ldc());
    }

    /** Computes a rectangle in blocks of {@code height} x {@code width}: F32 results in place, others in a buffer that is then rounded. */
    private void blocks(Pair pair, MemorySegment c, Block all, Route route, int height, int width) {
        Call call = pair.call;
        for (int i = 0; i < all.rows; i += height) {
            for (int j = 0; j < all.columns; j += width) {
                Block block = new Block(
                        all.row + i, all.column + j, Math.min(height, all.rows - i), Math.min(width, all.columns - j));
                if (call.result() == DType.F32) {
                    sums(pair, block, route, result(call, c, block), call.accumulate());
                } else {
                    rounded(pair, block, route, flat(c, call.result()));
                }
            }
        }
    }

    private void rounded(Pair pair, Block block, Route route, CpuTensor to) {
        Call call = pair.call;
        int columns = block.columns;
        float[] line = new float[columns];
        CpuTensor sums = flat(SUMS.room((long) block.rows * columns * Float.BYTES), DType.F32);
        if (call.accumulate()) {
            for (int i = 0; i < block.rows; i++) {
                to.read((block.row + i) * call.ldc() + block.column, line, 0, columns);
                sums.write((long) i * columns, line, 0, columns);
            }
        }
        sums(pair, block, route, new Operand(sums.bytes(), false, columns), call.accumulate());
        for (int i = 0; i < block.rows; i++) {
            sums.read((long) i * columns, line, 0, columns);
            to.write((block.row + i) * call.ldc() + block.column, line, 0, columns);
        }
    }

    /** Computes a block in F32. */
    private void sums(Pair pair, Block block, Route route, Operand to, boolean accumulate) {
        Call call = pair.call;
        if (route != Route.WIDENED) {
            library.multiply(
                    call.operands(),
                    new Product(
                            block.rows,
                            block.columns,
                            call.k(),
                            pair.left(block.row, 0),
                            pair.right(0, block.column),
                            to,
                            accumulate));
            return;
        }
        for (int term = 0; term < call.k(); term += WIDE_TERMS) {
            int terms = Math.min(WIDE_TERMS, call.k() - term);
            library.multiply(
                    DType.F32,
                    new Product(
                            block.rows,
                            block.columns,
                            terms,
                            widened(LEFT, call.operands(), pair.left(block.row, term), block.rows, terms),
                            widened(RIGHT, call.operands(), pair.right(term, block.column), terms, block.columns),
                            to,
                            accumulate || term > 0));
        }
    }

    /** A block of an operand widened to F32, with the same orientation, without gaps between rows. */
    private static Operand widened(Scratch scratch, DType dtype, Operand operand, int rows, int columns) {
        int lines = operand.transposed() ? columns : rows;
        int length = operand.transposed() ? rows : columns;
        CpuTensor wide = flat(scratch.room((long) lines * length * Float.BYTES), DType.F32);
        CpuTensor narrow = flat(operand.bytes(), dtype);
        float[] tile = TILES.get();
        if (operand.stride() == length) {
            widen(narrow, 0, wide, 0, lines * length, tile);
        } else {
            for (int i = 0; i < lines; i++) {
                widen(narrow, i * operand.stride(), wide, (long) i * length, length, tile);
            }
        }
        return new Operand(wide.bytes(), operand.transposed(), length);
    }

    private static void widen(CpuTensor narrow, long from, CpuTensor wide, long to, int count, float[] tile) {
        for (int i = 0; i < count; i += tile.length) {
            int n = Math.min(tile.length, count - i);
            narrow.read(from + i, tile, 0, n);
            wide.write(to + i, tile, 0, n);
        }
    }

    private static MemorySegment at(MemorySegment bytes, DType dtype, long element) {
        return bytes.asSlice(element * dtype.bits() / 8);
    }

    private static CpuTensor flat(MemorySegment bytes, DType dtype) {
        long elements = bytes.byteSize() * 8 / dtype.bits();
        return new CpuTensor(new OperandType(dtype, Shape.of(elements)), bytes);
    }
}
