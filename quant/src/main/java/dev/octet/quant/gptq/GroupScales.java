package dev.octet.quant.gptq;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.cast.ElementCast.Range;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.AffineScale;
import dev.octet.quant.scale.QuantizedTensor;
import dev.octet.quant.scale.ScaleRule.MseRule;
import dev.octet.quant.scale.StoredScale;
import dev.octet.quant.work.Workers;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * One scale, and one zero point where the integers have one, for a group of neighbouring inputs of an output channel, for {@link Gptq}. Each is found for its own group, with
 * errors weighted by the inputs' sums of squares: of an {@link MseRule} all multiples are tried, any other rule means the range of the group.
 */
final class GroupScales implements Gptq.Scales {
    private final WeightRows rows;
    private final OperandSpec spec;
    private final int size;
    private final int groups;
    private final float[] scales;
    private final byte[] zeroPoints;

    private GroupScales(WeightRows rows, OperandSpec spec) {
        this.rows = rows;
        this.spec = spec;
        this.size = size(spec);
        this.groups = rows.in() / size;
        int count = Math.toIntExact(rows.out() * groups);
        this.scales = new float[count];
        this.zeroPoints = new byte[count];
    }

    private static int size(OperandSpec spec) {
        return spec.granularity() instanceof Granularity.PerGroup(int _, int size) ? size : 1;
    }

    /**
     * Refuses what are not integers in whole groups of inputs.
     *
     * @param transB whether the weight is {@code [out, in]}; else {@code [in, out]}
     */
    static void require(Tensor weight, boolean transB, OperandSpec spec) {
        if (!(spec.granularity() instanceof Granularity.PerGroup(int axis, int _))
                || Math.floorMod(axis, 2) != (transB ? 1 : 0)
                || !spec.type().isInteger()) {
            throw new IllegalArgumentException(weight.spec() + ": " + spec.type() + " "
                    + spec.granularity().text() + ", not integers in groups of inputs");
        }
        if (weight.shape().dim(transB ? 1 : 0) % size(spec) != 0) {
            throw new IllegalArgumentException(weight.spec() + " in groups of " + size(spec));
        }
    }

    /**
     * Finds scales and zero points.
     *
     * @param energies sum of the squares of each input channel
     */
    static GroupScales find(WeightRows rows, double[] energies, OperandSpec spec, int threads) {
        GroupScales found = new GroupScales(rows, spec);
        Workers.run(Math.toIntExact(rows.out()), threads, o -> found.find(o, energies));
        return found;
    }

    private void find(int channel, double[] energies) {
        float[] values = new float[size];
        for (int g = 0; g < groups; g++) {
            Range range = Range.ZERO;
            for (int i = 0; i < size; i++) {
                values[i] = rows.get(channel, g * size + i);
                range = range.with(values[i]);
            }
            int steps = spec.rule() instanceof MseRule rule ? rule.steps() : 1;
            double least = Double.POSITIVE_INFINITY;
            for (int step = steps - 1; step >= 0; step--) { // at equal error the larger scale
                float multiple = spec.rule() instanceof MseRule rule ? rule.multiple(step) : 1;
                AffineScale scale = scale(range, multiple);
                double error = 0;
                for (int i = 0; i < size; i++) {
                    double e = values[i] - (double) (code(values[i], scale) - scale.zeroPoint()) * scale.scale();
                    error += energies[g * size + i] * e * e;
                }
                if (error < least) {
                    least = error;
                    scales[channel * groups + g] = scale.scale();
                    zeroPoints[channel * groups + g] = scale.zeroPoint();
                }
            }
        }
    }

    private AffineScale scale(Range range, float multiple) {
        if (spec.type().hasZeroPoint()) {
            Range part = Range.ZERO.with(range.smallest() * multiple).with(range.largest() * multiple);
            return AffineScale.of(part, spec.type(), spec.scaleType());
        }
        float amax = Math.max(-range.smallest(), range.largest());
        return new AffineScale(StoredScale.round(spec.exactScale(amax * multiple), spec.scaleType()), (byte) 0);
    }

    private int code(float value, AffineScale scale) {
        double steps = Math.rint(value / scale.scale()) + scale.zeroPoint();
        return (int) Math.clamp(steps, spec.type().lowest(), spec.type().highest());
    }

    @Override
    public float scale(long channel, int input) {
        return scales[(int) channel * groups + input / size];
    }

    @Override
    public int zeroPoint(long channel, int input) {
        return zeroPoints[(int) channel * groups + input / size];
    }

    @Override
    public QuantizedTensor with(TensorSpec codes, MemorySegment bytes, boolean transB, Arena arena) {
        int out = Math.toIntExact(rows.out());
        Shape shape = spec.granularity().scaleShape(codes.shape());
        Tensor scale = Tensor.allocate(arena, new TensorSpec(codes.name() + "_scale", spec.scaleType(), shape));
        Tensor zero = Tensor.allocate(arena, new TensorSpec(codes.name() + "_zero_point", DType.I8, shape));
        for (int i = 0; i < scales.length; i++) {
            long at = transB ? i : (long) (i % groups) * out + i / groups;
            StoredScale.set(spec.scaleType(), scale.bytes(), at, scales[i]);
            zero.bytes().set(ValueLayout.JAVA_BYTE, at, zeroPoints[i]);
        }
        return new QuantizedTensor(
                codes, bytes, scale, spec.type().hasZeroPoint() ? zero : null, spec.granularity(), spec.type());
    }
}
