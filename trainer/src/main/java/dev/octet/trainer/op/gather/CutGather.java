package dev.octet.trainer.op.gather;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.shard.CutOp;
import java.util.List;
import java.util.Map;

/**
 * A lookup in a table of which a rank has some rows: rows of others are zero, so that the sum over ranks is the lookup in the whole table (Megatron's vocabulary-parallel
 * embedding). Indices are those of the whole table, and are checked against it.
 *
 * @param rows the lookup, in the rows of this rank
 * @param first the first of them in the whole table
 * @param all rows of the whole table
 */
public record CutGather(Gather rows, long first, long all) implements CutOp {
    /** Its row in the table of operators. */
    public static final OpEntry<CutGather> ENTRY = OpEntry.of(
                    CutGather.class, new CutGatherReference(), new CutGatherCpu(), new CutGatherCuda())
            .octet("CutGather", CutGather::read);

    private static final String FIRST = "first";
    private static final String ALL = "all";

    /**
     * The node of a lookup along axis 0, for a rank that has some of the rows.
     *
     * @param whole ONNX's Gather
     * @param first as in the operator
     * @param own how many rows the rank has
     * @param all as there
     */
    public static Node node(Node whole, long first, long own, long all) {
        Node cut = Node.of(whole.name(), "CutGather", Node.OCTET_DOMAIN, whole.inputs(), whole.outputs())
                .with(Attribute.of(FIRST, first))
                .with(Attribute.of(ALL, all));
        String padding = whole.metadata().getOrDefault(Node.PADDING_INDEX, "");
        boolean here = padding.matches("\\d{1,9}")
                && Long.parseLong(padding) >= first
                && Long.parseLong(padding) < first + own;
        return here
                ? cut.withMetadata(Map.of(Node.PADDING_INDEX, String.valueOf(Long.parseLong(padding) - first)))
                : cut;
    }

    /** Reads {@code dev.octet.CutGather}. */
    static CutGather read(OpSource source) {
        return new CutGather(
                Gather.read(source),
                source.node().intAttribute(FIRST, 0),
                source.node().intAttribute(ALL, source.input(0).shape().dim(0)));
    }

    /** The rows of this rank that are looked up; -1 for those of others. */
    int[] own(int[] ofAll) {
        int[] own = new int[ofAll.length];
        for (int i = 0; i < own.length; i++) {
            long row = ofAll[i] - first;
            own[i] = row < 0 || row >= rows.size() ? -1 : (int) row;
        }
        return own;
    }

    @Override
    public String type() {
        return "CutGather";
    }

    @Override
    public List<OperandType> outputs() {
        return rows.outputs();
    }

    @Override
    public boolean isDifferentiable(int i) {
        return rows.isDifferentiable(i);
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return rows.backwardReadsInput(i);
    }

    @Override
    public boolean canAccumulate(int i) {
        return rows.canAccumulate(i);
    }
}
