package dev.octet.trainer.op.shard;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.Arrays;
import java.util.List;

/**
 * What tensor-parallel ranks exchange between the layers that they share (Shoeybi et al., arXiv:1909.08053, §3; Korthikanti et al., arXiv:2205.05198, §4.2). A tensor is on all
 * ranks alike, or each has a summand of it, or a share of one axis.
 *
 * @param x on this rank
 * @param y on this rank
 * @param shares how many elements of the shared axis each rank has; empty where no axis is shared
 * @param outer product of the axes before the shared one
 * @param inner product of those behind it
 * @param rank of this one
 * @param ranks not used before the step runs
 */
public record RankExchange(
        Kind kind, OperandType x, OperandType y, List<Long> shares, long outer, long inner, int rank, Collectives ranks)
        implements GroupOp {
    /** Its row in the table of operators. */
    public static final OpEntry<RankExchange> ENTRY = OpEntry.of(
                    RankExchange.class, new RankExchangeReference(), new RankExchangeCpu(), new RankExchangeCuda())
            .octet("RankExchange", RankExchange::read);

    private static final String KIND = "kind";
    private static final String RANK = "rank";
    private static final String OUTER = "outer";
    private static final String SHARES = "shares";
    private static final String SHAPE = "shape";

    /** What is done with a tensor on one way. */
    enum Way {
        /** Nothing. */
        KEEP,
        /** All get the sum. */
        SUM,
        /** All get all shares. */
        GATHER,
        /** Each gets its share of the sum. */
        SUM_SHARES,
        /** Each keeps its share. */
        SHARE,
        /** All get the largest of each element. */
        LARGEST,
        /** All get the smallest of each element. */
        LEAST
    }

    /** Kinds, by what is done forward and, with gradients, backward. */
    public enum Kind {
        /** What all have enters layers that each has a part of: Megatron's f. */
        ENTER(Way.KEEP, Way.SUM),
        /** Summands become what all have: Megatron's g. */
        LEAVE(Way.SUM, Way.KEEP),
        /** Shares become what all have and enter such layers. */
        ENTER_FROM_SHARES(Way.GATHER, Way.SUM_SHARES),
        /** Summands become shares of their sum. */
        LEAVE_TO_SHARES(Way.SUM_SHARES, Way.GATHER),
        /** What all have becomes shares. */
        TO_SHARES(Way.SHARE, Way.GATHER),
        /** Shares become what all have, and all do the same with it. */
        FROM_SHARES(Way.GATHER, Way.SHARE),
        /** Extremes of parts become those of the whole; gradients do not flow through them. */
        LARGEST(Way.LARGEST, Way.KEEP),
        /** The same of the smallest. */
        LEAST(Way.LEAST, Way.KEEP);

        private final Way forward;
        private final Way backward;

        Kind(Way forward, Way backward) {
            this.forward = forward;
            this.backward = backward;
        }

        Way forward() {
            return forward;
        }

        Way backward() {
            return backward;
        }
    }

    public RankExchange {
        shares = List.copyOf(shares);
    }

    /** A node for an exchange that shares no axis. */
    public static Node node(String name, Kind kind, String x, String y) {
        return Node.of(
                name, "RankExchange", Node.OCTET_DOMAIN, List.of(x), List.of(y), Attribute.of(KIND, kind.name()));
    }

    /**
     * A node for an exchange of shares.
     *
     * @param outer as in the operator
     * @param shares as there
     * @param shape of {@code y}
     */
    public static Node node(
            String name, Kind kind, String x, String y, long outer, List<Long> shares, int rank, Shape shape) {
        return node(name, kind, x, y)
                .with(Attribute.of(OUTER, outer))
                .with(Attribute.of(SHARES, shares))
                .with(Attribute.of(SHAPE, Arrays.stream(shape.toArray()).boxed().toList()))
                .with(Attribute.of(RANK, (long) rank));
    }

    /** Reads {@code dev.octet.RankExchange}. */
    static RankExchange read(OpSource source) {
        Kind kind = Kind.valueOf(source.node().textAttribute(KIND, ""));
        OperandType x = source.input(0);
        List<Long> shares = source.node().intsAttribute(SHARES).orElse(List.of());
        OperandType y = source.node()
                .intsAttribute(SHAPE)
                .map(d -> new OperandType(
                        x.dtype(),
                        Shape.of(d.stream().mapToLong(Long::longValue).toArray())))
                .orElse(x);
        long outer = source.node().intAttribute(OUTER, 1);
        long axis = shares.stream().mapToLong(Long::longValue).sum();
        long whole = Math.max(x.count(), y.count());
        int rank = (int) source.node().intAttribute(RANK, 0);
        if (!shares.isEmpty() && whole != outer * axis * (whole / Math.max(1, outer * axis))) {
            throw source.refusal(shares + " of " + x + " are not shares", "report it: the graph was cut wrongly");
        }
        return new RankExchange(
                kind, x, y, shares, outer, whole / Math.max(1, outer * axis), rank, Collectives.alone());
    }

    @Override
    public Op among(Collectives group) {
        return new RankExchange(kind, x, y, shares, outer, inner, rank, group);
    }

    @Override
    public String type() {
        return "RankExchange";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(y);
    }

    @Override
    public boolean isDifferentiable(int i) {
        return kind != Kind.LARGEST && kind != Kind.LEAST;
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return false;
    }

    @Override
    public boolean passesGradient(int i) {
        return kind.backward() == Way.KEEP;
    }

    /** For printed programs, which are the same whatever joins the ranks. */
    @Override
    public String toString() {
        return "RankExchange[" + kind + ", " + x + " -> " + y + ", rank=" + rank + ", shares=" + shares + "]";
    }
}
