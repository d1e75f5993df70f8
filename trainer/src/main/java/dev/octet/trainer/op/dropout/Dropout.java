package dev.octet.trainer.op.dropout;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.CounterRandom;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * Inverted dropout of a training step: an element is 0 with probability {@code p}, otherwise divided by 1 - p. Programs that only evaluate do without it.
 *
 * <p>Whether element i is kept follows from the seed, the step, the micro-batch and i alone: {@link #bits} are those of
 * {@link CounterRandom}. So the same elements are dropped by any number of threads,
 * on every device, backward as forward, and after a resume.
 *
 * <p>Inputs: x; {@link #DRAW}. Output: of the type of x.
 *
 * @param p probability, at least 0, below 1
 * @param seed of this operator
 */
public record Dropout(OperandType x, double p, long seed) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<Dropout> ENTRY = OpEntry.of(
                    Dropout.class, new DropoutReference(), new DropoutCpu(), new DropoutCuda())
            .octet("Dropout", Dropout::read);

    /** The state that says which masks are due: [step, micro-batch of the step]. */
    public static final String DRAW = "dropout.draw";

    /** Its type. */
    public static final OperandType DRAW_TYPE = new OperandType(DType.I64, Shape.of(2));

    /** Attribute: the probability. */
    public static final String RATIO = "ratio";

    /** Attribute: the seed. */
    public static final String SEED = "seed";

    /** Bits of the generator that are compared. */
    private static final int BITS = 24;

    /** Whether a node is one. */
    public static boolean is(Node node) {
        return node.isOctet("Dropout");
    }

    /** Reads {@code dev.octet.Dropout}. */
    static Dropout read(OpSource source) {
        double p = source.node().floatAttribute(RATIO, 0.5f);
        if (!(p >= 0 && p < 1)) {
            throw source.refusal("its ratio is " + p, "set it to a number from 0 to below 1");
        }
        return new Dropout(source.input(0), p, source.node().intAttribute(SEED, 0));
    }

    /** What {@link #bits} of an element that is kept are at least. */
    int threshold() {
        return (int) Math.ceil(p * (1 << BITS));
    }

    /** Factor of the elements that are kept. */
    float factor() {
        return (float) (1 / (1 - p));
    }

    /** Key of all masks of a micro-batch. */
    long key(long step, long microBatch) {
        return CounterRandom.key(CounterRandom.key(seed, step), microBatch);
    }

    /** Uniform in 0 .. 2^24 - 1. */
    static int bits(long key, long element) {
        return CounterRandom.bits(key, element, BITS);
    }

    @Override
    public String type() {
        return "Dropout";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(x);
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i == 0;
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return i == 1;
    }
}
