package dev.octet.trainer.op.qat;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.trainer.kernel.CounterRandom;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.dropout.Dropout;
import java.util.List;

/**
 * DoReFa's gradients of few bits (Zhou et al., arXiv:1606.06160, equation 12): y = x, and backward, for each sample with its largest |dy| as m,
 *
 * <pre>
 * dx = 2 m (q(clamp(dy / m / 2 + 1/2 + u)) - 1/2),   q(z) = round(z (2^bits - 1)) / (2^bits - 1)
 * </pre>
 *
 * <p>in FP32, with u uniform between -1/2 and 1/2 over 2^bits - 1, so that the mean of dx is dy where nothing is clamped. u of an element follows from the seed, the step, the micro-batch
 * and its position alone, as masks of {@link Dropout} do. A sample is what an index of the first axis has; a sample of zeros, or with a NaN, stays as it is. Programs that only evaluate do
 * without the operator.
 *
 * <p>Inputs: x; {@link Dropout#DRAW}. Output: of the type of x.
 *
 * @param bits 1 to 8
 * @param seed of this operator
 */
public record GradientQuantize(OperandType x, int bits, long seed) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<GradientQuantize> ENTRY = OpEntry.of(
                    GradientQuantize.class,
                    new GradientQuantizeReference(),
                    new GradientQuantizeCpu(),
                    new GradientQuantizeCuda())
            .octet("GradientQuantize", GradientQuantize::read);

    /** The widest codes. */
    public static final int MAX_BITS = 8;

    private static final String BITS = "bits";
    private static final String SEED = "seed";

    /** Bits of the generator that become u. */
    static final int RANDOM_BITS = 24;

    /** Whether a node is one. */
    public static boolean is(Node node) {
        return node.isOctet("GradientQuantize");
    }

    /** The node; its name is that of its output's producer. */
    public static Node node(String name, String x, String y, int bits, long seed) {
        return Node.of(
                name,
                "GradientQuantize",
                Node.OCTET_DOMAIN,
                List.of(x),
                List.of(y),
                Attribute.of(BITS, (long) bits),
                Attribute.of(SEED, seed));
    }

    private static GradientQuantize read(OpSource source) {
        long bits = source.node().intAttribute(BITS, 0);
        if (bits < 1 || bits > MAX_BITS) {
            throw source.refusal("its gradients have " + bits + " bits", "set bits to a number from 1 to " + MAX_BITS);
        }
        return new GradientQuantize(source.input(0), (int) bits, source.node().intAttribute(SEED, 0));
    }

    /** Samples. */
    int samples() {
        return x.shape().rank() == 0 ? 1 : Math.toIntExact(x.shape().dim(0));
    }

    /** Elements of a sample. */
    long size() {
        return samples() == 0 ? 0 : x.count() / samples();
    }

    /** The largest code. */
    float largest() {
        return (1 << bits) - 1;
    }

    /** Key of all noise of a micro-batch. */
    long key(long step, long microBatch) {
        return CounterRandom.key(CounterRandom.key(seed, step), microBatch);
    }

    /** Uniform from -1/2 to below 1/2. */
    static float noise(long key, long element) {
        return CounterRandom.bits(key, element, RANDOM_BITS) * 0x1p-24f - 0.5f;
    }

    /**
     * dx of an element, FP32.
     *
     * @param m largest |dy| of its sample
     * @param noise uniform between -1/2 and 1/2
     */
    float gradient(float dy, float m, float noise) {
        if (!(m > 0 && m < Float.POSITIVE_INFINITY)) {
            return dy;
        }
        float n = largest();
        float z = dy / m * 0.5f + 0.5f + noise / n;
        float q = (float) Math.rint(Math.clamp(z, 0, 1) * n) / n;
        return (q - 0.5f) * m * 2;
    }

    @Override
    public String type() {
        return "GradientQuantize";
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
