package dev.octet.trainer.op.elements;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.gather.Gather;
import dev.octet.trainer.op.gather.GatherCuda;
import java.util.List;
import java.util.stream.LongStream;

/**
 * Indices turned to numbers of rows of x, from where all is as in {@link Gather} along axis 0. The numbers lie in the workspace of a step.
 *
 * @param x its elements as rows
 * @param numbers I64, one for each row that is pointed at; the number of x's rows for an index outside of its axis
 */
record RowsCuda(OperandType x, CudaTensor numbers) {
    static final CudaSource SOURCE = CudaSource.of(RowsCuda.class, "elements.cu");
    private static final GatherCuda GATHER = new GatherCuda();

    /** Writes what finds the rows of x that {@code indices} point at. */
    static RowsCuda find(Places places, OperandType x, CudaTensor indices, CudaStream cuda) {
        long inner = Math.max(1, places.inner());
        OperandType rows = new OperandType(x.dtype(), Shape.of(x.count() / inner, places.inner()));
        long n = switch (places) {
            case Places.ByElement e -> e.indices().elementCount();
            case Places.ByTuple t -> tuples(t);
        };
        OperandType type = new OperandType(DType.I64, Shape.of(n));
        CudaTensor numbers = new CudaTensor(type, cuda.workspace(type.byteSize()));
        switch (places) {
            case Places.ByElement e ->
                findElements(e, indices, numbers, rows.shape().dim(0), cuda);
            case Places.ByTuple t ->
                findTuples(t, indices, numbers, rows.shape().dim(0), cuda);
        }
        return new RowsCuda(rows, numbers);
    }

    private static long product(Shape shape, long from, long to) {
        return LongStream.of(shape.toArray()).limit(to).skip(from).reduce(1, (a, b) -> a * b);
    }

    private static long tuples(Places.ByTuple t) {
        return product(t.indices(), 0, t.indices().rank() - 1L);
    }

    private static void findElements(
            Places.ByElement e, CudaTensor indices, CudaTensor numbers, long count, CudaStream cuda) {
        int rank = e.x().rank();
        long[] axes = new long[2 * rank];
        long step = 1;
        long axisStep = 1;
        for (int d = rank - 1; d >= 0; d--) {
            axes[d] = e.indices().dim(d);
            axes[rank + d] = d == e.axis() ? 0 : step;
            axisStep = d == e.axis() ? step : axisStep;
            step *= e.x().dim(d);
        }
        cuda.launch(
                SOURCE,
                "pick_elements",
                Grid.over(numbers.count(), 256, 1),
                CudaSource.code(indices.dtype()),
                indices,
                numbers,
                numbers.count(),
                count,
                e.x().dim(e.axis()),
                axisStep,
                rank,
                cuda.table(axes));
    }

    private static void findTuples(
            Places.ByTuple t, CudaTensor indices, CudaTensor numbers, long count, CudaStream cuda) {
        int tuple = Math.toIntExact(t.indices().dim(-1));
        long batches = Math.max(1, product(t.indices(), 0, t.batch()));
        cuda.launch(
                SOURCE,
                "pick_tuples",
                Grid.over(numbers.count(), 256, 1),
                CudaSource.code(indices.dtype()),
                indices,
                numbers,
                numbers.count(),
                count,
                Math.max(1, numbers.count() / batches),
                tuple,
                cuda.table(LongStream.of(t.x().toArray())
                        .skip(t.batch())
                        .limit(tuple)
                        .toArray()));
    }

    /** Rows of x. */
    long count() {
        return x.shape().dim(0);
    }

    /** Elements of a row. */
    long inner() {
        return x.shape().dim(1);
    }

    /** Writes {@code to[i] = from[numbers[i]]}. */
    void read(CudaTensor from, CudaTensor to, CudaStream cuda) {
        Gather gather = new Gather("", x, numbers.type(), 0);
        GATHER.forward(gather, new Whole(from, numbers, to, false), cuda);
    }

    /** Writes {@code to[numbers[i]] += from[i]}, or with {@code more} false, the sums alone. Floats. */
    void add(CudaTensor from, CudaTensor to, boolean more, CudaStream cuda) {
        Gather gather = new Gather("", x, numbers.type(), 0);
        GATHER.backward(gather, new Whole(to, numbers, from, more), cuda);
    }

    /** x or its gradient, and y or its gradient. */
    private record Whole(CudaTensor x, CudaTensor indices, CudaTensor y, boolean more) implements Frame<CudaTensor> {
        @Override
        public boolean hasInput(int i) {
            return i < 2;
        }

        @Override
        public CudaTensor input(int i) {
            return List.of(x, indices).get(i);
        }

        @Override
        public CudaTensor output(int j) {
            return y;
        }

        @Override
        public boolean hasUpstream(int j) {
            return true;
        }

        @Override
        public CudaTensor upstream(int j) {
            return y;
        }

        @Override
        public boolean wantsGradient(int i) {
            return i == 0;
        }

        @Override
        public CudaTensor gradient(int i) {
            return x;
        }

        @Override
        public boolean accumulates(int i) {
            return more;
        }
    }
}
