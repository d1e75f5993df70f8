package dev.octet.trainer.op.loss;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.shard.GroupOp;
import java.util.List;

/**
 * {@link SoftmaxCrossEntropyLoss} of scores of which a rank has those of some classes (Shoeybi et al., arXiv:1909.08053, §3): the largest score, the sum of exponentials and the score of the label travel, not
 * the scores. All ranks get the same loss. Inputs: the rank's scores, and labels.
 *
 * <p>Saved: log Σ exp x of each position over all classes, and what the sum is divided by.
 *
 * @param own of the rank's classes
 * @param all of all classes
 * @param first the rank's first class
 * @param smoothing as in the whole loss
 * @param ranks not used before the step runs
 */
public record CutCrossEntropyLoss(ClassLabels own, ClassLabels all, int first, float smoothing, Collectives ranks)
        implements GroupOp {
    /** Its row in the table of operators. */
    public static final OpEntry<CutCrossEntropyLoss> ENTRY = OpEntry.of(
                    CutCrossEntropyLoss.class,
                    new CutCrossEntropyLossReference(),
                    new CutCrossEntropyLossCpu(),
                    new CutCrossEntropyLossCuda())
            .octet("CutCrossEntropyLoss", CutCrossEntropyLoss::read);

    private static final String FIRST = "first";
    private static final String ALL = "all";

    /**
     * The node for a rank that has the scores of some classes.
     *
     * @param whole Octet's SoftmaxCrossEntropyLoss, without weights of classes and without logarithms
     * @param first as in the operator
     * @param classes of all ranks
     */
    public static Node node(Node whole, long first, long classes) {
        Node cut = Node.of(whole.name(), "CutCrossEntropyLoss", Node.OCTET_DOMAIN, whole.inputs(), whole.outputs())
                .withAttributes(whole.attributes());
        return cut.with(Attribute.of(FIRST, first)).with(Attribute.of(ALL, classes));
    }

    /** Reads {@code dev.octet.CutCrossEntropyLoss}. */
    static CutCrossEntropyLoss read(OpSource source) {
        ClassLabels own = ClassLabels.readLast(source);
        long[] dims = own.scores().shape().toArray();
        dims[dims.length - 1] = source.node().intAttribute(ALL, own.classes());
        ClassLabels all = ClassLabels.of(
                new OperandType(own.scores().dtype(), Shape.of(dims)),
                dims.length - 1,
                own.ignoreIndex(),
                own.reduction());
        return new CutCrossEntropyLoss(
                own,
                own.sequence() > 0 ? all.shifted() : all,
                (int) source.node().intAttribute(FIRST, 0),
                source.node().floatAttribute("label_smoothing", 0),
                Collectives.alone());
    }

    @Override
    public Op among(Collectives group) {
        return new CutCrossEntropyLoss(own, all, first, smoothing, group);
    }

    /** The rank's number of a class; negative or too large for one of others. */
    int here(int label) {
        int own = label < 0 ? -1 : label - first;
        return own >= this.own.classes() ? -1 : own;
    }

    @Override
    public String type() {
        return "CutCrossEntropyLoss";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(own.loss());
    }

    @Override
    public List<OperandType> saved() {
        return List.of(own.perPosition(), new OperandType(DType.F32, Shape.SCALAR));
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i == 0;
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return true;
    }

    @Override
    public boolean backwardReadsOutput(int j) {
        return j > 0;
    }

    /** For printed programs, which are the same whatever joins the ranks. */
    @Override
    public String toString() {
        return "CutCrossEntropyLoss[scores=" + own.scores() + ", first=" + first + ", classes=" + all.classes()
                + ", ignoring=" + own.ignoreIndex() + ", " + own.reduction() + ", sequence=" + own.sequence()
                + ", smoothing=" + smoothing + "]";
    }
}
