package dev.octet.trainer.op.gather;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/**
 * Forward copies rows, 16 bytes at a time where they allow it. Backward sorts the positions by row (a radix sort of eight bits a pass, stable,
 * on the device), then adds each row's gradients in the order of the positions: in pieces of 64 positions, whose sums are added in order,
 * so that one row looked up everywhere does not hold up the rest. Bits depend on nothing but the operands.
 *
 * <p>Elements are never seen here, so an index outside of the axis is not an error: its row is NaN (all bits set), and it gets no gradient.
 */
public final class GatherCuda implements CudaKernel<Gather> {
    /** As in the source. */
    private static final int THREADS = 256;

    private static final int KEYS = 1024;
    private static final int DIGIT_BITS = 8;
    private static final int CHUNK = 64;

    /** Bytes of the widest unit that rows are copied in. */
    private static final int WIDEST = 16;

    /**
     * The rows of a table that are here.
     *
     * @param first the first of them in the whole table
     * @param all rows of the whole table
     */
    record Table(long first, long all) {
        static Table whole(Gather op) {
            return new Table(0, op.size());
        }
    }

    @Override
    public void forward(Gather op, Frame<CudaTensor> frame, CudaStream cuda) {
        forward(op, Table.whole(op), frame, cuda);
    }

    static void forward(Gather op, Table table, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor y = frame.output(0);
        CudaTensor indices = frame.input(1);
        if (y.count() == 0) {
            return;
        }
        long bytes = op.inner() * op.x().dtype().bits() / 8;
        int unit = (int) Math.min(WIDEST, Long.lowestOneBit(bytes));
        long units = bytes / unit;
        int group = (int) Math.min(32, Long.highestOneBit(2 * units - 1));
        cuda.launch(
                source(op, unit),
                "gather_forward",
                Grid.over(op.outer() * indices.count() * group, THREADS, 1),
                frame.input(0),
                indices,
                y,
                op.outer(),
                op.size(),
                table.first,
                table.all,
                indices.count(),
                units,
                group);
    }

    @Override
    public void backward(Gather op, Frame<CudaTensor> frame, CudaStream cuda) {
        backward(op, Table.whole(op), frame, cuda);
    }

    static void backward(Gather op, Table table, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor dx = frame.gradient(0);
        if (dx.count() == 0) {
            return;
        }
        if (!frame.accumulates(0)) {
            cuda.zero(dx.address(), dx.byteSize());
        }
        CudaTensor indices = frame.input(1);
        if (indices.count() == 0) {
            return;
        }
        Sorted sorted = sort(op, table, indices, cuda);
        add(op, sorted, frame.upstream(0), dx, frame.accumulates(0), cuda);
    }

    /** Rows in ascending order, and the positions that look them up: addresses of I32 arrays. */
    private record Sorted(long keys, long positions) {}

    private static Sorted sort(Gather op, Table table, CudaTensor indices, CudaStream cuda) {
        CudaSource source = source(op, WIDEST);
        long count = indices.count();
        long blocks = Math.ceilDiv(count, (long) KEYS);
        Sorted from = new Sorted(cuda.workspace(4 * count), cuda.workspace(4 * count));
        Sorted to = new Sorted(cuda.workspace(4 * count), cuda.workspace(4 * count));
        long counts = cuda.workspace((4 * blocks) << DIGIT_BITS);
        cuda.launch(
                source,
                "gather_keys",
                Grid.over(count, THREADS, 1),
                indices,
                from.keys,
                from.positions,
                count,
                op.size(),
                table.first,
                table.all,
                (long) op.padding());
        // keys are 0 .. size
        for (int shift = 0; op.size() >> shift > 0; shift += DIGIT_BITS) {
            cuda.launch(source, "gather_count", Grid.of(blocks, THREADS), from.keys, counts, count, shift);
            cuda.launch(source, "gather_starts", Grid.of(1, 1024), counts, blocks << DIGIT_BITS);
            cuda.launch(
                    source,
                    "gather_place",
                    Grid.of(blocks, THREADS),
                    from.keys,
                    from.positions,
                    counts,
                    to.keys,
                    to.positions,
                    count,
                    shift);
            Sorted free = from;
            from = to;
            to = free;
        }
        return from;
    }

    private static void add(Gather op, Sorted sorted, CudaTensor dy, CudaTensor dx, boolean more, CudaStream cuda) {
        CudaSource source = source(op, WIDEST);
        long count = dy.count() / op.outer() / op.inner();
        long chunks = Math.ceilDiv(count, (long) CHUNK);
        long pieces = cuda.workspace(4 * op.outer() * chunks * 2 * op.inner());
        boolean wide = op.inner() * dx.dtype().bits() / 8 % WIDEST == 0;
        Grid grid = Grid.of(op.outer() * chunks, THREADS);
        cuda.kernel(source, wide ? "gather_add_wide" : "gather_add_single", grid)
                .pointer("dy", dy)
                .pointer("keys", sorted.keys)
                .pointer("positions", sorted.positions)
                .pointer("dx", dx)
                .pointer("pieces", pieces)
                .value("size", op.size())
                .value("count", count)
                .value("inner", op.inner())
                .value("chunks", chunks)
                .flag("add", more)
                .launch();
        cuda.launch(
                source,
                wide ? "gather_join_wide" : "gather_join_single",
                grid,
                sorted.keys,
                pieces,
                dx,
                op.size(),
                count,
                op.inner(),
                chunks,
                more ? 1 : 0);
    }

    private static CudaSource source(Gather op, int unit) {
        // kernels of other types than floats have no gradient
        DType x = op.x().dtype().isFloat() ? op.x().dtype() : DType.F32;
        return CudaSource.of(GatherCuda.class, "gather.cu")
                .define("INDEX_TYPE", CudaSource.type(op.indices().dtype()))
                .define("X_TYPE", CudaSource.type(x))
                .define("UNIT", unit);
    }
}
