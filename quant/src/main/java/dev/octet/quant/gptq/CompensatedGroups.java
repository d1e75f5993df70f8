package dev.octet.quant.gptq;

import static dev.octet.quant.gptq.GptqTileKernel.TILE;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.cast.ElementCast.Range;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.AffineScale;
import dev.octet.quant.scale.QuantizedTensor;
import dev.octet.quant.scale.ScaleRule.MseRule;
import dev.octet.quant.scale.StoredScale;
import dev.octet.quant.work.Workers;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * {@link Gptq} for integers with one scale, and one zero point where they have one, for a group of neighbouring inputs of an output channel.
 *
 * <p>Scales are found first, each for its own group, with errors weighted by the inputs' sums of squares; they stay while inputs are rounded in the order of
 * {@link GptqOptions#largestFirst} ("static groups"), so that files need no order of their own.
 */
final class CompensatedGroups {
    private final WeightRows rows;
    private final OperandSpec spec;
    private final int size;
    private final int groups;
    private final float[] scales;
    private final byte[] zeroPoints;

    private CompensatedGroups(WeightRows rows, OperandSpec spec, int size) {
        this.rows = rows;
        this.spec = spec;
        this.size = size;
        this.groups = rows.in() / size;
        int count = Math.toIntExact(rows.out() * groups);
        this.scales = new float[count];
        this.zeroPoints = new byte[count];
    }

    /**
     * Rounds a weight.
     *
     * @param weight F32, BF16 or F16, of rank 2
     * @param transB whether it is {@code [out, in]}; else {@code [in, out]}
     * @param input second moment of the layer's input, with as many channels as the weight
     * @param spec integers in groups along the inputs, whose number is a multiple of the group; of an {@link MseRule} all multiples are tried, any other
     *     rule means the range of the group
     * @param arena owns the codes and scales of the result
     * @return the tensor in the layout of the weight; or a refusal, as {@link Gptq#quantize}
     * @throws IllegalArgumentException when the arguments do not fit each other
     */
    static GptqResult quantize(
            Tensor weight,
            boolean transB,
            SecondMoment input,
            OperandSpec spec,
            GptqOptions options,
            int threads,
            Arena arena) {
        if (!(spec.granularity() instanceof Granularity.PerGroup(int axis, int size))
                || Math.floorMod(axis, 2) != (transB ? 1 : 0)
                || !spec.type().isInteger()) {
            throw new IllegalArgumentException(weight.spec() + ": " + spec.type() + " "
                    + spec.granularity().text() + ", not integers in groups of inputs");
        }
        try (Arena scratch = Arena.ofShared()) {
            WeightRows rows = WeightRows.of(weight, transB, scratch);
            if (input.size() != rows.in() || rows.in() % size != 0) {
                throw new IllegalArgumentException(
                        weight.spec() + " in groups of " + size + ", a moment of " + input.size() + " channels");
            }
            OptionalLong element = rows.firstNonFinite();
            if (element.isPresent()
                    || input.rows() == 0
                    || input.firstNonFinite().isPresent()) {
                return new GptqResult.Refused(
                        weight.name(),
                        element.isPresent()
                                ? "the weight is not finite"
                                : input.rows() == 0 ? "no input was seen" : "an input was not finite");
            }
            Optional<InputFactor> factor = InputFactor.of(input, options, GptqTileKernel.best());
            if (factor.isEmpty()) {
                return new GptqResult.Refused(weight.name(), "the second moment is not positive semidefinite");
            }
            CompensatedGroups work = new CompensatedGroups(rows, spec, size);
            double[] energies = input.diagonal();
            Workers.run(Math.toIntExact(rows.out()), threads, o -> work.findScales(o, energies));
            return work.round(weight, transB, factor.get(), threads, arena);
        }
    }

    private void findScales(int channel, double[] energies) {
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

    private GptqResult round(Tensor weight, boolean transB, InputFactor factor, int threads, Arena arena) {
        QuantType type = spec.type();
        int out = Math.toIntExact(rows.out());
        long in = rows.in();
        Tensor codes = Tensor.allocate(arena, new TensorSpec(weight.name(), type.dtype(), weight.shape()));
        ChannelTile.Grid grid = new ChannelTile.Grid() {
            @Override
            public float scale(long channel, int at) {
                return scales[(int) channel * groups + at / size];
            }

            @Override
            public int zeroPoint(long channel, int at) {
                return zeroPoints[(int) channel * groups + at / size];
            }
        };
        double[] errors = new double[out];
        double[] nearestErrors = new double[out];
        Workers.run(Math.ceilDiv(out, TILE), threads, t -> {
            int first = t * TILE;
            try (Arena scratch = Arena.ofConfined()) {
                ChannelTile tile = new ChannelTile(
                        factor, GptqTileKernel.best(), ElementCast.best(), type, rows, first, grid, scratch);
                ChannelTile.Rounded nearest = tile.round(false);
                ChannelTile.Rounded compensated = tile.round(true);
                for (int c = 0; c < Math.min(TILE, out - first); c++) {
                    boolean better = compensated.cost(c) < nearest.cost(c);
                    ChannelTile.Rounded rounded = better ? compensated : nearest;
                    for (int place = 0; place < in; place++) {
                        long i = factor.channel(place);
                        long at = transB ? (first + c) * in + i : i * out + first + c;
                        codes.bytes().set(ValueLayout.JAVA_BYTE, at, rounded.code(place, c));
                    }
                    errors[first + c] = rounded.cost(c);
                    nearestErrors[first + c] = nearest.cost(c);
                }
            }
        });
        Shape shape = spec.granularity().scaleShape(weight.shape());
        Tensor scale = Tensor.allocate(arena, new TensorSpec(weight.name() + "_scale", spec.scaleType(), shape));
        Tensor zero = Tensor.allocate(arena, new TensorSpec(weight.name() + "_zero_point", DType.I8, shape));
        for (int i = 0; i < scales.length; i++) {
            long at = transB ? i : (long) (i % groups) * out + i / groups;
            StoredScale.set(spec.scaleType(), scale.bytes(), at, scales[i]);
            zero.bytes().set(ValueLayout.JAVA_BYTE, at, zeroPoints[i]);
        }
        QuantizedTensor done = new QuantizedTensor(
                codes.spec(), codes.bytes(), scale, type.hasZeroPoint() ? zero : null, spec.granularity(), type);
        return new GptqResult.Done(done, sum(errors), sum(nearestErrors));
    }

    private static double sum(double[] values) {
        double sum = 0;
        for (double v : values) {
            sum += v;
        }
        return sum;
    }
}
