package dev.octet.quant.gptq;

import static dev.octet.quant.gptq.GptqTileKernel.TILE;

import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.cast.Nibbles;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.QuantizedTensor;
import dev.octet.quant.work.Workers;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.function.Function;

/**
 * Rounds the weight of a Linear layer so that the output error over the rows of a {@link SecondMoment} is small: rounds the input channels
 * in sequence, each with the correction that best compensates the errors of the earlier channels, on the fixed grid of the scales (Frantar
 * et al. 2022, arXiv:2210.17323). Output channels are independent.
 *
 * <p>The rare output channel for which this gives a larger error than rounding to nearest is rounded to nearest, so the error never exceeds
 * that of plain rounding with the same scales. With uncorrelated inputs, both give the same codes.
 *
 * <p>The same weight, moment and options give the same bytes, for any number of threads, with or without vector unit. Instances are
 * stateless and thread-safe.
 */
public final class Gptq {
    private final GptqTileKernel kernel;
    private final ElementCast cast;
    private final int threads;

    private Gptq(GptqTileKernel kernel, ElementCast cast, int threads) {
        this.kernel = kernel;
        this.cast = cast;
        this.threads = threads;
    }

    /** An instance that works in the calling thread. */
    public static Gptq sequential() {
        return parallel(1);
    }

    /**
     * An instance that uses up to {@code threads} threads of its own per call.
     *
     * @throws IllegalArgumentException when {@code threads} is below 1
     */
    public static Gptq parallel(int threads) {
        if (threads < 1) {
            throw new IllegalArgumentException(threads + " threads");
        }
        return new Gptq(GptqTileKernel.best(), ElementCast.best(), threads);
    }

    /** A copy with chosen twins, for tests. */
    Gptq with(GptqTileKernel otherKernel, ElementCast otherCast) {
        return new Gptq(otherKernel, otherCast, threads);
    }

    /**
     * Rounds a weight.
     *
     * <p>The rule of {@code spec} gives the scales; {@link dev.octet.quant.scale.ScaleRule.MseRule} weights errors by the sums of squares
     * of the inputs ({@link WeightedScales}). Multiples 0.5 to 1 in 48 steps were best on sentence encoders.
     *
     * <p>A channel whose input was always 0 is rounded to nearest. If H is singular despite its damping, the damping is raised.
     *
     * @param weight F32, BF16 or F16, of rank 2
     * @param transB whether the weight is {@code [out, in]}; else {@code [in, out]}
     * @param input second moment of the layer's input, with as many channels as the weight
     * @param spec saturating, without zero points, one scale per output channel or per tensor
     * @param arena owns the codes and scales of the result
     * @return the tensor with layout and name of the weight and scales {@code <name>_scale}; or a refusal when the moment has no rows, a
     *     weight or an input was NaN or infinite, or the moment is not positive semidefinite
     * @throws IllegalArgumentException when the arguments do not fit each other
     */
    public GptqResult quantize(
            Tensor weight, boolean transB, SecondMoment input, OperandSpec spec, GptqOptions options, Arena arena) {
        WeightedScales.requireOutputScales(weight, transB, spec);
        boolean pairs = boundsPairs(spec, options);
        return compensated(
                weight,
                transB,
                input,
                spec,
                options,
                arena,
                rows -> new OutputScales(
                        WeightedScales.find(rows, input.diagonal(), spec, cast, threads, pairs), weight, spec));
    }

    private static boolean boundsPairs(OperandSpec spec, GptqOptions options) {
        return options.boundedPairs() && spec.type() == QuantType.INT8;
    }

    /** Scales, and zero points, of a weight that is rounded. */
    interface Scales extends ChannelTile.Grid {
        /**
         * Codes with these scales.
         *
         * @param transB whether the codes lie as {@code [out, in]}
         * @param arena owns the scales
         */
        QuantizedTensor with(TensorSpec codes, MemorySegment bytes, boolean transB, Arena arena);
    }

    /** One scale for each output channel. */
    @SuppressWarnings("ArrayRecordComponent") // handed over, never compared
    private record OutputScales(float[] scales, Tensor weight, OperandSpec spec) implements Scales {
        @Override
        public float scale(long channel, int input) {
            return scales[(int) channel];
        }

        @Override
        public QuantizedTensor with(TensorSpec codes, MemorySegment bytes, boolean transB, Arena arena) {
            Tensor scale = WeightedScales.stored(weight, scales, spec, arena);
            return new QuantizedTensor(codes, bytes, scale, spec.granularity(), spec.type());
        }
    }

    private GptqResult compensated(
            Tensor weight,
            boolean transB,
            SecondMoment input,
            OperandSpec spec,
            GptqOptions options,
            Arena arena,
            Function<WeightRows, Scales> find) {
        try (Arena scratch = Arena.ofShared()) {
            WeightRows rows = WeightRows.of(weight, transB, scratch);
            if (input.size() != rows.in()) {
                throw new IllegalArgumentException(
                        weight.spec() + " has " + rows.in() + " input channels, the moment " + input.size());
            }
            Optional<String> reason = refusal(rows, input);
            if (reason.isPresent()) {
                return new GptqResult.Refused(weight.name(), reason.get());
            }
            Optional<InputFactor> factor = InputFactor.of(input, options, kernel);
            if (factor.isEmpty()) {
                return new GptqResult.Refused(weight.name(), "the second moment is not positive semidefinite");
            }
            Scales scales = find.apply(rows);
            Codes codes = new Codes(rows, spec.type(), scratch);
            roundAll(rows, factor.get(), boundsPairs(spec, options) ? ChannelTile.Grid.bounded(scales) : scales, codes);
            TensorSpec codesSpec = new TensorSpec(weight.name(), spec.type().dtype(), weight.shape());
            Tensor target = Tensor.allocate(arena, codesSpec);
            codes.copyTo(target.bytes(), transB, scratch);
            return new GptqResult.Done(
                    scales.with(codesSpec, target.bytes(), transB, arena), sum(codes.costs), sum(codes.nearestCosts));
        }
    }

    /**
     * The same for integers with one scale, and one zero point where they have one, for a group of neighbouring inputs of an output channel.
     *
     * @param spec in groups along the inputs of the weight as it lies; of {@link dev.octet.quant.scale.ScaleRule.MseRule} all multiples are tried,
     *     with errors weighted by the inputs' sums of squares
     * @throws IllegalArgumentException when the arguments do not fit each other
     */
    public GptqResult quantizeGroups(
            Tensor weight, boolean transB, SecondMoment input, OperandSpec spec, GptqOptions options, Arena arena) {
        GroupScales.require(weight, transB, spec);
        return compensated(
                weight,
                transB,
                input,
                spec,
                options,
                arena,
                rows -> GroupScales.find(rows, input.diagonal(), spec, threads));
    }

    private static Optional<String> refusal(WeightRows rows, SecondMoment input) {
        OptionalLong element = rows.firstNonFinite();
        if (element.isPresent()) {
            long channel = element.getAsLong() / rows.in();
            int in = (int) (element.getAsLong() % rows.in());
            return Optional.of(
                    "the weight from input " + in + " to output " + channel + " is " + rows.get(channel, in));
        }
        if (input.rows() == 0) {
            return Optional.of("no input was seen");
        }
        OptionalInt channel = input.firstNonFinite();
        return channel.isPresent()
                ? Optional.of("input channel " + channel.getAsInt() + " was NaN, infinite or too large")
                : Optional.empty();
    }

    private void roundAll(WeightRows rows, InputFactor factor, ChannelTile.Grid grid, Codes codes) {
        int out = Math.toIntExact(rows.out());
        Workers.run(Math.ceilDiv(out, TILE), threads, tile -> {
            int first = tile * TILE;
            try (Arena arena = Arena.ofConfined()) {
                ChannelTile channels = new ChannelTile(factor, kernel, cast, codes.type, rows, first, grid, arena);
                ChannelTile.Rounded nearest = channels.round(false);
                ChannelTile.Rounded compensated = channels.round(true);
                for (int c = 0; c < Math.min(TILE, out - first); c++) {
                    boolean better = compensated.cost(c) < nearest.cost(c);
                    codes.set(first + c, better ? compensated : nearest, c, factor);
                    codes.nearestCosts[first + c] = nearest.cost(c);
                }
            }
        });
    }

    private static double sum(double[] values) {
        double sum = 0;
        for (double v : values) {
            sum += v;
        }
        return sum;
    }

    /** Codes as {@code [out, in]}, one byte each, in memory shared by all workers. */
    private static final class Codes {
        private final WeightRows rows;
        private final QuantType type;
        private final MemorySegment bytes;
        private final double[] costs;
        private final double[] nearestCosts;

        Codes(WeightRows rows, QuantType type, Arena arena) {
            this.rows = rows;
            this.type = type;
            this.bytes = arena.allocate(rows.out() * rows.in(), 64);
            this.costs = new double[Math.toIntExact(rows.out())];
            this.nearestCosts = new double[costs.length];
        }

        void set(int channel, ChannelTile.Rounded rounded, int column, InputFactor factor) {
            costs[channel] = rounded.cost(column);
            for (int place = 0; place < factor.size(); place++) {
                byte code = rounded.code(place, column);
                bytes.set(ValueLayout.JAVA_BYTE, (long) channel * rows.in() + factor.channel(place), code);
            }
        }

        void copyTo(MemorySegment target, boolean transB, Arena scratch) {
            MemorySegment ordered = transB ? bytes : transposed(scratch);
            if (type == QuantType.E2M1) {
                Nibbles.pack(ordered, target);
            } else {
                target.copyFrom(ordered);
            }
        }

        private MemorySegment transposed(Arena scratch) {
            MemorySegment result = scratch.allocate(bytes.byteSize(), 64);
            for (long i = 0; i < bytes.byteSize(); i++) {
                byte code = bytes.get(ValueLayout.JAVA_BYTE, i % rows.out() * rows.in() + i / rows.out());
                result.set(ValueLayout.JAVA_BYTE, i, code);
            }
            return result;
        }
    }
}
