package dev.octet.quant.gptq;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Granularity.Mx;
import dev.octet.quant.block.Granularity.PerBlock;
import dev.octet.quant.block.Granularity.PerChannel;
import dev.octet.quant.block.Granularity.PerGroup;
import dev.octet.quant.block.Granularity.PerTensor;
import dev.octet.quant.block.Granularity.PerToken;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.ScaleRule.MseRule;
import dev.octet.quant.scale.StoredScale;
import dev.octet.quant.work.Workers;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;

/**
 * Scales of a Linear layer's weight that take its inputs into account: the rule {@link MseRule} weights the error of each weight by the
 * mean square of its input channel. For uncorrelated inputs, this is the error of the layer's output; it needs only the sums of squares,
 * not the whole {@link SecondMoment}. Other rules use the largest magnitude and give the usual scales.
 *
 * <p>Errors are summed in double precision in the order of the weight, so the scales do not depend on the number of threads.
 */
final class WeightedScales {
    private final WeightRows weight;
    private final double[] energies;
    private final OperandSpec spec;
    private final ElementCast cast;
    private final int threads;
    private final boolean pairs;

    private WeightedScales(
            WeightRows weight, double[] energies, OperandSpec spec, ElementCast cast, int threads, boolean pairs) {
        this.weight = weight;
        this.energies = energies;
        this.spec = spec;
        this.cast = cast;
        this.threads = threads;
        this.pairs = pairs;
    }

    /**
     * Finds the scales.
     *
     * @param weight F32, BF16 or F16, of rank 2, finite
     * @param transB whether it is {@code [out, in]}; else {@code [in, out]}
     * @param energies sum or mean of the squares of each input channel, at least 0; any common factor gives the same scales
     * @param spec saturating, one scale per output channel or per tensor
     * @param threads maximum number of threads
     * @param arena owns the result
     * @return scales of type and shape as {@code spec} has it, named {@code <name>_scale}
     * @throws IllegalArgumentException when the arguments do not fit each other, or an element of the weight is not finite
     */
    public static Tensor find(
            Tensor weight, boolean transB, double[] energies, OperandSpec spec, int threads, Arena arena) {
        requireOutputScales(weight, transB, spec);
        try (Arena scratch = Arena.ofShared()) {
            WeightRows rows = WeightRows.of(weight, transB, scratch);
            if (energies.length != rows.in()) {
                throw new IllegalArgumentException(energies.length + " energies for " + rows.in() + " input channels");
            }
            float[] scales = find(rows, energies, spec, ElementCast.best(), threads, false);
            return stored(weight, scales, spec, arena);
        }
    }

    /**
     * One scale per output channel, all equal when there is but one for the tensor.
     *
     * @param pairs whether codes are brought within the bound of {@link BoundedPairs}
     */
    static float[] find(
            WeightRows weight, double[] energies, OperandSpec spec, ElementCast cast, int threads, boolean pairs) {
        return new WeightedScales(weight, energies, spec, cast, threads, pairs).find();
    }

    /** Refuses what is not one scale per output channel or per tensor. */
    static void requireOutputScales(Tensor weight, boolean transB, OperandSpec spec) {
        boolean fits = switch (spec.granularity()) {
            case PerTensor() -> true;
            case PerChannel(int axis) -> (axis < 0 ? axis + 2 : axis) == (transB ? 0 : 1);
            case PerToken _, PerGroup _, PerBlock _, Mx _ -> false;
        };
        if (!fits) {
            throw new IllegalArgumentException(weight.spec() + " "
                    + spec.granularity().text() + ": one scale per output channel or per tensor is possible");
        }
    }

    /** The scales as a tensor. */
    static Tensor stored(Tensor weight, float[] perChannel, OperandSpec spec, Arena arena) {
        Shape shape = spec.granularity().scaleShape(weight.shape());
        Tensor scale = Tensor.allocate(arena, new TensorSpec(weight.name() + "_scale", spec.scaleType(), shape));
        for (int i = 0; i < shape.elementCount(); i++) {
            float value = perChannel.length == 0 ? spec.storedScale(0) : perChannel[i];
            StoredScale.set(spec.scaleType(), scale.bytes(), i, value);
        }
        return scale;
    }

    private float[] find() {
        float[] amax = new float[Math.toIntExact(weight.out())];
        Workers.run(amax.length, threads, c -> amax[c] = cast.amax(DType.F32, weight.row(c)));
        if (isPerTensor()) {
            Arrays.fill(amax, largest(amax));
        }
        for (float a : amax) {
            if (!Float.isFinite(a)) {
                throw new IllegalArgumentException("the weight holds " + a);
            }
        }
        if (spec.rule() instanceof MseRule rule) {
            return search(rule, amax);
        }
        float[] scales = new float[amax.length];
        for (int c = 0; c < amax.length; c++) {
            scales[c] = spec.storedScale(amax[c]);
        }
        return scales;
    }

    private boolean isPerTensor() {
        return spec.granularity() instanceof PerTensor;
    }

    private static float largest(float[] values) {
        float largest = 0;
        for (float v : values) {
            largest = Math.max(largest, v); // NaN stays
        }
        return largest;
    }

    private float[] search(MseRule rule, float[] amax) {
        double[][] errors = new double[amax.length][rule.steps()];
        Workers.run(amax.length, threads, c -> {
            try (Arena scratch = Arena.ofConfined()) {
                ErrorSum sum = new ErrorSum(scratch);
                for (int step = 0; step < rule.steps(); step++) {
                    errors[c][step] = sum.of(c, candidate(rule, step, amax[c]));
                }
            }
        });
        if (isPerTensor()) {
            double[] total = new double[rule.steps()];
            for (double[] channel : errors) {
                for (int step = 0; step < total.length; step++) {
                    total[step] += channel[step];
                }
            }
            Arrays.fill(errors, total);
        }
        float[] scales = new float[amax.length];
        for (int c = 0; c < amax.length; c++) {
            scales[c] = candidate(rule, smallest(errors[c]), amax[c]);
        }
        return scales;
    }

    /** The multiple of the usual scale in its stored form, as in the quantiser; a channel of zeros keeps the scale 1. */
    private float candidate(MseRule rule, int step, float amax) {
        float scale = spec.exactScale(amax);
        float multiple = amax == 0 ? scale : Math.max(scale * rule.multiple(step), Float.MIN_VALUE);
        return StoredScale.round(multiple, spec.scaleType());
    }

    /** The last index of the smallest error, which has the largest scale. */
    private static int smallest(double[] errors) {
        int best = errors.length - 1;
        for (int step = best - 1; step >= 0; step--) {
            if (errors[step] < errors[best]) {
                best = step;
            }
        }
        return best;
    }

    /** Weighted squared error of one output channel, with memory for the codes. */
    private final class ErrorSum {
        private final MemorySegment codes;
        private final MemorySegment decoded;
        private final float[] rounded = new float[weight.in()];
        private final float[] exact = new float[weight.in()];

        ErrorSum(Arena arena) {
            codes = arena.allocate(weight.in(), 64);
            decoded = arena.allocate((long) weight.in() * Float.BYTES, 64);
        }

        double of(int channel, float scale) {
            MemorySegment row = weight.row(channel);
            if (spec.type().isInteger()) {
                cast.encodeIntegers(DType.F32, row, scale, 0, spec.type(), codes);
                if (pairs) {
                    BoundedPairs.bound(codes, energies);
                }
                cast.decodeIntegers(codes, scale, 0, DType.F32, decoded);
            } else {
                cast.encode(DType.F32, row, scale, spec.format(), Overflow.SATURATE, codes);
                cast.decode(spec.format(), codes, scale, DType.F32, decoded);
            }
            MemorySegment.copy(decoded, Tensor.F32_LE, 0, rounded, 0, rounded.length);
            MemorySegment.copy(row, Tensor.F32_LE, 0, exact, 0, exact.length);
            double sum = 0;
            for (int i = 0; i < rounded.length; i++) {
                double error = (double) exact[i] - rounded[i];
                sum += energies[i] * error * error;
            }
            return sum;
        }
    }
}
