package dev.octet.converter.sensitivity;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.calibrate.Calibrator;
import dev.octet.quant.calibrate.RoundingError;
import dev.octet.quant.cast.ElementCast.Range;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.AffineScale;
import dev.octet.quant.scale.ScaleRule;
import dev.octet.quant.statistics.ChannelStatistics;
import dev.octet.quant.statistics.TensorStatistics;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.jspecify.annotations.Nullable;

/**
 * The error of a Linear's output, predicted from the statistics of its input: no model runs. Where {@link SensitivityRun} measures what a
 * layer costs the model, this tells what the layer's own output loses.
 *
 * <ul>
 *   <li>The weight's part is {@code trace(D H D^T) / rows} for its error D and the second moment H: exact over the samples of the statistics.
 *   <li>The input's part is {@code sum over channels of v_c |Q(W)_c|^2}, as if errors of channels were independent. A static scale gives the mean
 *       error of all elements by the histogram; channels get it in proportion to their mean squares in float formats (what saturates, by how far they go beyond the clip), evenly (but never more
 *       than their mean square) in integers. For scales found at run time, rows are drawn from normal distributions with the channels' means and
 *       variances and rounded as the consumer does.
 * </ul>
 *
 * <p>At most {@value #CHANNELS} output channels, evenly spread, stand for all.
 */
public final class ErrorPrediction {
    /** Output channels that are looked at. */
    static final int CHANNELS = 256;

    /** Rows that are drawn for scales found at run time. */
    private static final int ROWS = 64;

    private static final long SEED = 20_131;

    private ErrorPrediction() {}

    /**
     * Predicts.
     *
     * @param weight F32 [out, in]
     * @param rounded what the codes stand for, F32 [out, in]
     * @param moment of the input
     * @param variances of the input's rounding error by channel: {@link #inputVariances}
     */
    public static LinearError of(Tensor weight, Tensor rounded, SecondMoment moment, double[] variances) {
        int in = moment.size();
        List<float[]> rows = new ArrayList<>();
        List<float[]> errors = new ArrayList<>();
        double ofInput = 0;
        int[] sampled = channels(weight.shape().dim(0));
        for (int out : sampled) {
            float[] w = row(weight, out, in);
            float[] q = row(rounded, out, in);
            float[] d = new float[in];
            for (int c = 0; c < in; c++) {
                d[c] = q[c] - w[c];
                ofInput += variances[c] * q[c] * q[c];
            }
            rows.add(w);
            errors.add(d);
        }
        double count = (double) Math.max(1, moment.rows()) * sampled.length;
        return new LinearError(
                Arrays.stream(moment.costs(rows)).sum() / count,
                Math.max(0, Arrays.stream(moment.costs(errors)).sum()) / count,
                ofInput / sampled.length);
    }

    /** The output channels that stand for all. */
    static int[] channels(long out) {
        int n = (int) Math.min(out, CHANNELS);
        int[] channels = new int[n];
        for (int i = 0; i < n; i++) {
            channels[i] = (int) (i * out / n);
        }
        return channels;
    }

    static float[] row(Tensor matrix, long row, int width) {
        float[] values = new float[width];
        MemorySegment.copy(matrix.bytes(), Tensor.F32_LE, row * width * Float.BYTES, values, 0, width);
        return values;
    }

    /**
     * Mean squares of the error that rounding puts into each channel of an input.
     *
     * @param format its input may be null: then all are 0
     * @param statistics with channels
     * @param calibrator for the clip of static scales
     * @throws IllegalArgumentException when the statistics have no channels
     */
    public static double[] inputVariances(LinearFormat format, TensorStatistics statistics, Calibrator calibrator) {
        ChannelStatistics channels = statistics.channels();
        if (channels == null) {
            throw new IllegalArgumentException("the statistics have no channels");
        }
        OperandSpec input = format.input();
        if (input == null || statistics.amax() == 0) {
            return new double[channels.size()];
        }
        return input.isDynamic() || !input.perTensor()
                ? drawn(asFound(format, input), channels)
                : ofStaticScale(input, statistics, channels, calibrator);
    }

    private static double[] ofStaticScale(
            OperandSpec input, TensorStatistics statistics, ChannelStatistics channels, Calibrator calibrator) {
        double[] variances = new double[channels.size()];
        if (input.type().isInteger()) {
            double clip = calibrator.clip(statistics, input.type());
            double error = RoundingError.meanOfSteps(
                    statistics, scale(input.type(), statistics, clip).scale(), clip);
            for (int c = 0; c < variances.length; c++) {
                variances[c] = Math.min(error, channels.meanSquare(c));
            }
            return variances;
        }
        double clip = calibrator.clip(statistics, input.format());
        double saturation = RoundingError.ofSaturation(statistics, clip);
        double error = Math.max(0, RoundingError.mean(statistics, input.format(), clip) - saturation);
        double mean = statistics.sumOfSquares() / statistics.finiteCount();
        double beyond = 0;
        for (int c = 0; c < variances.length; c++) {
            beyond += beyond(channels, c, clip) / variances.length;
        }
        for (int c = 0; c < variances.length; c++) {
            variances[c] = error * channels.meanSquare(c) / mean
                    + (beyond == 0 ? 0 : saturation * beyond(channels, c, clip) / beyond);
        }
        return variances;
    }

    /** The square of how far a channel goes beyond the clip. */
    private static double beyond(ChannelStatistics channels, int channel, double clip) {
        double over = Math.max(0, channels.amax(channel) - clip);
        return over * over;
    }

    /** The static scale of integers, and their zero point, as conversions choose them. */
    private static AffineScale scale(QuantType type, TensorStatistics statistics, double clip) {
        if (!type.hasZeroPoint()) {
            return new AffineScale((float) (clip / type.amaxDivisor()), (byte) 0);
        }
        Range range = Range.ZERO.with((float) Math.max(statistics.min(), -clip)).with((float)
                Math.min(statistics.max(), clip));
        return AffineScale.of(range, type, DType.F32);
    }

    /** The input as the consumer finds its scales: by the rule of the weight where both have the same form. */
    static OperandSpec asFound(LinearFormat format, OperandSpec input) {
        boolean alike = input.type() == format.weight().type()
                && input.granularity().getClass()
                        == format.weight().granularity().getClass()
                && (input.granularity() instanceof Granularity.Mx
                        || format.weight().twoLevels());
        return alike
                ? new OperandSpec(
                        input.type(), input.granularity(), format.weight().scaling())
                : input.scaledBy(new ScaleRule.AmaxRule(), DType.F32);
    }

    private static double[] drawn(OperandSpec input, ChannelStatistics channels) {
        int in = channels.size();
        SplittableRandom random = new SplittableRandom(SEED);
        double[] variances = new double[in];
        try (Arena arena = Arena.ofConfined()) {
            Tensor rows = Tensor.allocate(arena, new TensorSpec("rows", DType.F32, Shape.of(ROWS, in)));
            for (int c = 0; c < in; c++) {
                double mean = channels.mean(c);
                double deviation = Math.sqrt(Math.max(0, channels.meanSquare(c) - mean * mean));
                for (int r = 0; r < ROWS; r++) {
                    float x = (float)
                            Math.clamp(mean + deviation * random.nextGaussian(), channels.min(c), channels.max(c));
                    rows.bytes().set(Tensor.F32_LE, ((long) r * in + c) * Float.BYTES, x);
                }
            }
            Tensor rounded = RoundedWeight.of(rows, input, arena);
            for (int r = 0; r < ROWS; r++) {
                float[] x = row(rows, r, in);
                float[] q = row(rounded, r, in);
                for (int c = 0; c < in; c++) {
                    double e = (double) q[c] - x[c];
                    variances[c] += e * e / ROWS;
                }
            }
        }
        return variances;
    }

    /** Rounds an input as a consumer of the format does. */
    static Tensor roundedInput(
            LinearFormat format,
            Tensor rows,
            @Nullable TensorStatistics statistics,
            Calibrator calibrator,
            Arena arena) {
        OperandSpec input = format.input();
        if (input == null) {
            return rows;
        }
        if (input.isDynamic() || !input.perTensor() || statistics == null) {
            return RoundedWeight.of(rows, asFound(format, input), arena);
        }
        if (input.type().isInteger()) {
            double clip = calibrator.clip(statistics, input.type());
            return integers(rows, input.type(), scale(input.type(), statistics, clip), arena);
        }
        float scale = (float)
                (calibrator.clip(statistics, input.format()) / input.format().maxValue());
        return RoundedWeight.withScale(rows, input.type(), scale, arena);
    }

    private static Tensor integers(Tensor rows, QuantType type, AffineScale scale, Arena arena) {
        Tensor rounded = Tensor.allocate(arena, rows.spec());
        for (long i = 0; i < rows.shape().elementCount(); i++) {
            double steps = Math.rint(rows.bytes().getAtIndex(Tensor.F32_LE, i) / scale.scale()) + scale.zeroPoint();
            double code = Math.clamp(steps, type.lowest(), type.highest());
            rounded.bytes().setAtIndex(Tensor.F32_LE, i, (float) (code - scale.zeroPoint()) * scale.scale());
        }
        return rounded;
    }
}
