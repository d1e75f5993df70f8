package dev.octet.trainer.op.shard;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankReduction;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * A tensor of which each rank of a group has a part, for what needs the whole of it: sums over all elements, or all elements. The shared axis consists of segments, as those of queries,
 * keys and values in one weight, and each rank has as much of each.
 *
 * @param whole shape of the whole tensor
 * @param axis that is shared; -1 where this rank has all of it
 * @param segments how many the axis has
 * @param shares how many elements of each segment each rank has
 * @param rank of this one
 * @param ranks not used before a step runs
 */
public record SharedTensor(Shape whole, int axis, int segments, List<Long> shares, int rank, Collectives ranks) {
    private static final Collectives ALONE = Collectives.alone();

    public SharedTensor {
        shares = List.copyOf(shares);
        if (axis >= 0 && whole.dim(axis) != segments * sum(shares)) {
            throw new IllegalArgumentException(
                    shares + " in " + segments + " segments of axis " + axis + " of " + whole);
        }
    }

    /** A tensor that this rank has all of. */
    public static SharedTensor alone(Shape whole) {
        return new SharedTensor(whole, -1, 1, List.of(), 0, ALONE);
    }

    private static long sum(List<Long> shares) {
        return shares.stream().mapToLong(Long::longValue).sum();
    }

    /** Whether other ranks have parts of it. */
    public boolean isShared() {
        return axis >= 0;
    }

    /**
     * Whether ranks share out an axis.
     *
     * @param fromEnd 1 for the last one
     */
    public boolean sharesAxis(int fromEnd) {
        return isShared() && axis == whole.rank() - fromEnd;
    }

    /** Whether ranks have parts of different sizes. */
    public boolean isUneven() {
        return shares.stream().distinct().count() > 1;
    }

    /** Product of the axes behind the shared one. */
    private long inner() {
        long inner = 1;
        for (int i = axis + 1; i < whole.rank(); i++) {
            inner *= whole.dim(i);
        }
        return inner;
    }

    /** How many elements of this rank's part lie side by side in the whole tensor. */
    public long run() {
        return shares.get(rank) * inner();
    }

    /** How far apart the beginnings of such runs are. */
    public long stride() {
        return sum(shares) * inner();
    }

    /** Where the first of them begins. */
    public long first() {
        return sum(shares.subList(0, rank)) * inner();
    }

    /** Elements of the largest part. */
    public long largest() {
        long most = shares.stream().mapToLong(Long::longValue).max().orElse(1);
        return isShared() ? whole.elementCount() / sum(shares) * most : whole.elementCount();
    }

    /** Sums over the whole tensor, from those over this rank's part, in F64. */
    public double[] sums(double... own) {
        return isShared() ? ranks.sums(own) : own;
    }

    /** The largest numbers of the whole tensor, from those of this rank's part; NaN where one is. */
    public float[] largest(float... own) {
        if (isShared()) {
            ranks.allReduce(own, RankReduction.MAX);
        }
        return own;
    }

    /** The whole tensor, from the ranks' parts of it. */
    public RankExchange gather(DType type) {
        return exchange(RankExchange.Kind.FROM_SHARES, part(type), new OperandType(type, whole));
    }

    /** This rank's part of the whole tensor. */
    public RankExchange take(DType type) {
        return exchange(RankExchange.Kind.TO_SHARES, new OperandType(type, whole), part(type));
    }

    private OperandType part(DType type) {
        long[] dims = whole.toArray();
        dims[axis] = segments * shares.get(rank);
        return new OperandType(type, Shape.of(dims));
    }

    private RankExchange exchange(RankExchange.Kind kind, OperandType x, OperandType y) {
        long outer = segments;
        long inner = 1;
        for (int i = 0; i < whole.rank(); i++) {
            outer *= i < axis ? whole.dim(i) : 1;
            inner *= i > axis ? whole.dim(i) : 1;
        }
        return new RankExchange(kind, x, y, shares, outer, inner, rank, ranks);
    }

    /** For printed programs, which are the same whatever joins the ranks. */
    @Override
    public String toString() {
        return isShared() ? whole + " in " + shares + " of axis " + axis + ", rank=" + rank : whole.toString();
    }
}
