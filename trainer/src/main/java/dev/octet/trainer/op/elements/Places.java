package dev.octet.trainer.op.elements;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Indices;
import java.util.function.LongUnaryOperator;
import java.util.stream.LongStream;

/**
 * Where indices point: a list of rows of {@code inner} neighbouring elements each, in the order of the indices.
 */
sealed interface Places {
    /** Elements of a row. */
    long inner();

    /** The first element of each row. */
    long[] starts(LongUnaryOperator index);

    /**
     * One index for each element; the other axes are those of the index itself.
     *
     * @param node id of the node, for messages
     * @param x shape of what is indexed
     * @param indices shape of the indices
     */
    record ByElement(String node, Shape x, Shape indices, int axis) implements Places {
        @Override
        public long inner() {
            return 1;
        }

        @Override
        public long[] starts(LongUnaryOperator index) {
            long[] starts = new long[Math.toIntExact(indices.elementCount())];
            for (int i = 0; i < starts.length; i++) {
                int at = Indices.resolve(node, i, index.applyAsLong(i), x.dim(axis));
                long rest = i;
                long step = 1;
                for (int d = x.rank() - 1; d >= 0; d--) {
                    long position = rest % indices.dim(d);
                    rest /= indices.dim(d);
                    starts[i] += (d == axis ? at : position) * step;
                    step *= x.dim(d);
                }
            }
            return starts;
        }
    }

    /** The last axis of the indices holds a position in the axes behind the first {@code batch}, which both have. */
    record ByTuple(String node, Shape x, Shape indices, int batch) implements Places {
        private int tuple() {
            return Math.toIntExact(indices.dim(-1));
        }

        private static long product(Shape shape, int from, int to) {
            return LongStream.of(shape.toArray()).limit(to).skip(from).reduce(1, (a, b) -> a * b);
        }

        @Override
        public long inner() {
            return product(x, batch + tuple(), x.rank());
        }

        @Override
        public long[] starts(LongUnaryOperator index) {
            int tuple = tuple();
            long tuples = product(indices, 0, indices.rank() - 1);
            long perBatch = Math.max(1, tuples / Math.max(1, product(indices, 0, batch)));
            long[] starts = new long[Math.toIntExact(tuples)];
            for (int i = 0; i < starts.length; i++) {
                long at = i / perBatch;
                for (int k = 0; k < tuple; k++) {
                    long position = (long) i * tuple + k;
                    long size = x.dim(batch + k);
                    at = at * size + Indices.resolve(node, position, index.applyAsLong(position), size);
                }
                starts[i] = at * inner();
            }
            return starts;
        }

        /** The shape of the rows together. */
        Shape rows() {
            return Shape.of(LongStream.concat(
                            LongStream.of(indices.toArray()).limit(indices.rank() - 1L),
                            LongStream.of(x.toArray()).skip((long) batch + tuple()))
                    .toArray());
        }
    }
}
