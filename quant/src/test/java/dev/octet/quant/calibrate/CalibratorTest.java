package dev.octet.quant.calibrate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.statistics.LogHistogram;
import dev.octet.quant.statistics.StatisticsAccumulator;
import dev.octet.quant.statistics.TensorStatistics;
import java.nio.FloatBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.function.ToDoubleFunction;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
final class CalibratorTest {
    private static final List<Calibrator> ALL =
            List.of(new Absmax(), new Percentile(99.9), new Percentile(50), new Mse(), new Entropy());
    private static final int N = 20_000;

    /** Distributions by name; each gives N samples from a fixed seed. */
    enum Samples {
        UNIFORM(r -> r.nextDouble() * 6 - 3),
        NORMAL(Random::nextGaussian),
        /** Student's t with 2 degrees of freedom: no variance, wild outliers. */
        HEAVY_TAILS(r -> r.nextGaussian() / Math.sqrt(-Math.log(1 - r.nextDouble()))),
        /** As behind a GELU: most values close to zero, a few large. */
        GELU_LIKE(r -> {
            double x = r.nextGaussian() * 2 - 2;
            return x / (1 + Math.exp(-1.702 * x));
        }),
        NORMAL_WITH_ONE_OUTLIER(Random::nextGaussian),
        TINY(r -> r.nextGaussian() * 1e-20);

        @SuppressWarnings("ImmutableEnumChecker") // a lambda without state
        private final ToDoubleFunction<Random> draw;

        Samples(ToDoubleFunction<Random> draw) {
            this.draw = draw;
        }

        float[] take() {
            Random random = new Random(11);
            float[] x = new float[N];
            for (int i = 0; i < N; i++) {
                x[i] = (float) draw.applyAsDouble(random);
            }
            if (this == NORMAL_WITH_ONE_OUTLIER) {
                x[N / 2] = -1000f;
            }
            return x;
        }
    }

    private static TensorStatistics of(float... x) {
        StatisticsAccumulator a = new StatisticsAccumulator();
        a.add(FloatBuffer.wrap(x));
        return a.snapshot();
    }

    private static float[] magnitudes(float[] x) {
        float[] m = new float[x.length];
        for (int i = 0; i < x.length; i++) {
            m[i] = Math.abs(x[i]);
        }
        Arrays.sort(m);
        return m;
    }

    /** Mean squared error of the samples themselves through the real cast. */
    private static double error(float[] x, double clip, Float8Format format) {
        double scale = clip / format.maxValue();
        double sum = 0;
        for (float v : x) {
            double back = format.decode(format.encode((float) (v / scale), Overflow.SATURATE)) * scale;
            sum += (v - back) * (v - back);
        }
        return sum / x.length;
    }

    @ParameterizedTest
    @EnumSource(Samples.class)
    void absmax_is_the_greatest_magnitude(Samples samples) {
        float[] m = magnitudes(samples.take());
        assertEquals(m[N - 1], new Absmax().clip(of(samples.take()), Float8Format.E4M3FN));
    }

    @ParameterizedTest
    @EnumSource(Samples.class)
    void a_percentile_is_that_of_the_sorted_samples_within_a_bin(Samples samples) {
        float[] m = magnitudes(samples.take());
        TensorStatistics t = of(samples.take());
        for (double percent : new double[] {10, 50, 90, 99, 99.9, 100}) {
            double exact = m[(int) Math.ceil(percent / 100 * N) - 1];
            double clip = new Percentile(percent).clip(t, Float8Format.E4M3FN);
            assertEquals(exact, clip, exact / LogHistogram.BINS_PER_OCTAVE, samples + " " + percent);
        }
    }

    @Test
    void a_percentile_counts_zeros_and_never_gives_zero_where_something_is_not() {
        float[] x = new float[100];
        x[0] = 5;
        x[1] = -7;
        double bin = 8.0 / LogHistogram.BINS_PER_OCTAVE; // of 4 to 8, which 5 and 7 lie in; it hides where
        assertEquals(7, new Percentile(99.5).clip(of(x), Float8Format.E4M3FN), bin);
        assertEquals(5, new Percentile(98.5).clip(of(x), Float8Format.E4M3FN), bin);
        assertEquals(5, new Percentile(50).clip(of(x), Float8Format.E4M3FN), bin);
        assertTrue(new Percentile(1e-9).clip(of(0f, Float.MIN_VALUE), Float8Format.E4M3FN) > 0);
    }

    @ParameterizedTest
    @EnumSource(Samples.class)
    void mse_finds_a_clip_as_good_as_trying_them_all_on_the_samples(Samples samples) {
        float[] x = samples.take();
        for (Float8Format format : List.of(Float8Format.E4M3FN, Float8Format.E5M2, Float8Format.E2M1)) {
            double amax = of(x).amax();
            double best = Double.POSITIVE_INFINITY;
            for (double clip = amax; clip > amax / 1024; clip *= 0.97) {
                best = Math.min(best, error(x, clip, format));
            }
            double found = error(x, new Mse().clip(of(x), format), format);
            // The bins hide where in its bin a sample lies: a few per cent where it has company, the bin's width where
            // not
            LogHistogram histogram = of(x).histogram();
            double slack = 0;
            for (int b = 0; b < LogHistogram.BIN_COUNT; b++) {
                long n = histogram.count(b);
                double width = LogHistogram.upperEdge(b) - LogHistogram.lowerEdge(b);
                slack += n < 30 ? n * width * width / 4 / N : 0;
            }
            assertTrue(found <= best * 1.03 + slack, samples + " " + format + ": " + found + " > " + best);
        }
    }

    /** Mean squared error of integers of 8 bits as ONNX's QuantizeLinear has them, over the range up to the clip. */
    private static double integerError(float[] x, double clip, QuantType type) {
        double low = 0;
        double high = 0;
        for (float v : x) {
            low = Math.min(low, Math.max(v, -clip));
            high = Math.max(high, Math.min(v, clip));
        }
        boolean zeroPoint = type == QuantType.INT8_ASYMMETRIC;
        double scale = zeroPoint ? (high - low) / 255 : clip / 127;
        double zero = zeroPoint ? Math.rint(-128 - low / scale) : 0;
        double sum = 0;
        for (float v : x) {
            double code = Math.clamp(Math.rint(v / scale) + zero, zeroPoint ? -128 : -127, 127);
            double back = (code - zero) * scale;
            sum += (v - back) * (v - back);
        }
        return sum / x.length;
    }

    @ParameterizedTest
    @EnumSource(Samples.class)
    void mse_finds_as_good_a_clip_for_integers_as_trying_them_all(Samples samples) {
        float[] x = samples.take();
        for (QuantType type : List.of(QuantType.INT8, QuantType.INT8_ASYMMETRIC)) {
            double amax = of(x).amax();
            double best = Double.POSITIVE_INFINITY;
            for (double clip = amax; clip > amax / 1024; clip *= 0.97) {
                best = Math.min(best, integerError(x, clip, type));
            }
            double found = integerError(x, new Mse().clip(of(x), type), type);
            // tried are clips 3 % apart, and bins hide where in them a sample lies: 5 % of the error; outliers stand
            // alone in wide bins
            double slack = samples == Samples.HEAVY_TAILS ? 1.3 : 1.05;
            assertTrue(found <= best * slack, samples + " " + type + ": " + found + " > " + best);
        }
    }

    @ParameterizedTest
    @EnumSource(Samples.class)
    void clips_for_integers_are_not_above_amax_nor_worse_than_absmax_by_far(Samples samples) {
        float[] x = samples.take();
        for (QuantType type : List.of(QuantType.INT8, QuantType.INT8_ASYMMETRIC)) {
            double usual = integerError(x, of(x).amax(), type);
            for (Calibrator c : List.of(new Mse(), new Percentile(99.99))) {
                double clip = c.clip(of(x), type);
                assertTrue(clip <= of(x).amax());
                // percentiles cut what the error weighs most in heavy tails; elsewhere a part in 10,000 that saturates
                // costs less than half of the rounding
                boolean tails = samples == Samples.HEAVY_TAILS || samples == Samples.NORMAL_WITH_ONE_OUTLIER;
                assertTrue((tails && c instanceof Percentile) || integerError(x, clip, type) < 1.5 * usual, c.text());
            }
        }
    }

    @Test
    void integers_start_with_mse_and_floats_with_absmax() {
        for (QuantType type : QuantType.values()) {
            assertEquals(
                    type.isInteger() ? "mse" : "absmax", Calibrator.usual(type).text());
        }
    }

    @ParameterizedTest
    @ValueSource(floats = {-10000f, -1e38f, -3.4028235e38f})
    void constants_of_masks_fail_no_calibrator_for_integers_and_the_huge_ones_do_not_count(float mask) {
        float[] scores = Samples.NORMAL.take();
        float[] masked = Arrays.copyOf(scores, N + N / 2);
        Arrays.fill(masked, N, masked.length, mask);
        for (QuantType type : List.of(QuantType.INT8, QuantType.INT8_ASYMMETRIC)) {
            for (Calibrator c : ALL) {
                double clip = c.clip(of(masked).withoutMasks(), type);
                assertTrue(clip > 0 && clip <= 10_000, c.text() + ": " + clip);
                if (mask < -TensorStatistics.LEAST_MASK && !(c instanceof Percentile)) {
                    double alone = c.clip(of(scores), type);
                    // the range of what is left ends at the edge of its last bin
                    assertEquals(alone, clip, alone / LogHistogram.BINS_PER_OCTAVE * 2, c.text());
                }
            }
        }
    }

    @Test
    void mse_cuts_off_where_the_format_has_little_range() {
        float[] x = Samples.NORMAL.take();
        x[3] = 30;
        assertTrue(new Mse().clip(of(x), Float8Format.E2M1) < 10);
        assertTrue(new Mse().clip(of(x), Float8Format.E5M2) > 25);
    }

    /** The definition in the Javadoc of {@link Entropy}, from the samples, with a list of samples in place of each bin. */
    private static double divergence(float[] sorted, double clip, MagnitudeGrid grid) {
        double scale = clip / grid.max();
        double[] p = new double[LogHistogram.BIN_COUNT];
        double[] kept = new double[LogHistogram.BIN_COUNT];
        int lastBin = -1;
        for (float m : sorted) {
            if (m > 0 && (m < clip || clip == sorted[N - 1])) { // a clip is a bin's upper edge, or amax itself
                int b = LogHistogram.binOf(m);
                p[b]++;
                kept[b]++;
                lastBin = Math.max(lastBin, b);
            } else if (m > 0) {
                p[lastBin]++; // sorted: all kept ones came before
            }
        }
        double[] q = new double[LogHistogram.BIN_COUNT];
        for (int b = 0; b <= lastBin; b++) {
            if (kept[b] > 0) {
                double mass = 0;
                double width = 0;
                for (int o = 0; o <= lastBin; o++) {
                    if (kept[o] > 0 && value(o, scale, grid) == value(b, scale, grid)) {
                        mass += kept[o];
                        width += LogHistogram.upperEdge(o) - LogHistogram.lowerEdge(o);
                    }
                }
                q[b] = mass * (LogHistogram.upperEdge(b) - LogHistogram.lowerEdge(b)) / width;
            }
        }
        double pSum = Arrays.stream(p).sum();
        double qSum = Arrays.stream(q).sum();
        double sum = 0;
        for (int b = 0; b <= lastBin; b++) {
            if (p[b] > 0) {
                sum += p[b] / pSum * Math.log(p[b] / pSum / (q[b] / qSum));
            }
        }
        return sum;
    }

    private static double value(int bin, double scale, MagnitudeGrid grid) {
        return grid.nearest((LogHistogram.lowerEdge(bin) + LogHistogram.upperEdge(bin)) / 2 / scale);
    }

    @ParameterizedTest
    @EnumSource(Float8Format.class)
    void the_grid_rounds_as_the_cast_does_except_on_ties(Float8Format format) {
        MagnitudeGrid grid = new MagnitudeGrid(format);
        Random random = new Random(5);
        for (int i = 0; i < 10_000 && format.isSigned(); i++) {
            float x = (float) (grid.max() * Math.pow(2, random.nextDouble() * 40 - 38));
            assertEquals(format.decode(format.encode(x, Overflow.SATURATE)), grid.value(grid.nearest(x)));
        }
        assertEquals(0, grid.value(0));
        assertEquals(format.maxValue(), grid.max());
    }

    @ParameterizedTest
    @EnumSource(Samples.class)
    void entropy_finds_the_clip_of_least_divergence_by_its_definition(Samples samples) {
        float[] m = magnitudes(samples.take());
        TensorStatistics t = of(samples.take());
        for (QuantType type : List.of(QuantType.E4M3FN, QuantType.INT8, QuantType.INT8_ASYMMETRIC)) {
            double clip = new Entropy().clip(t, type);
            double best = divergence(m, t.amax(), MagnitudeGrid.of(type, t, t.amax()));
            for (int b = t.histogram().lastBin() - 1; b >= 0; b--) {
                double candidate = LogHistogram.upperEdge(b);
                if (Arrays.stream(toDoubles(m)).filter(v -> v >= candidate).count() > 0.01 * N) {
                    break;
                }
                if (t.histogram().count(b) > 0) {
                    best = Math.min(best, divergence(m, candidate, MagnitudeGrid.of(type, t, candidate)));
                }
            }
            double found = divergence(m, clip, MagnitudeGrid.of(type, t, clip));
            // the same sums in double precision in another order, of divergences of about 1e-2
            assertEquals(best, found, 1e-12, samples + " " + type + " clip " + clip + " of " + t.amax());
            // the share of the bin that the clip lies in is an estimate: a part in 10,000 is one of the samples
            assertTrue(t.shareAbove(clip) <= Entropy.MAX_SATURATED + 1.0 / N);
        }
    }

    private static double[] toDoubles(float[] x) {
        double[] d = new double[x.length];
        for (int i = 0; i < d.length; i++) {
            d[i] = x[i];
        }
        return d;
    }

    @ParameterizedTest
    @EnumSource(QuantType.class)
    void every_clip_is_finite_and_between_zero_and_amax_whatever_the_tensor_holds(QuantType format) {
        float inf = Float.POSITIVE_INFINITY;
        float mask = -3.4028235e38f;
        float[] masked = new float[3000];
        for (int i = 0; i < masked.length; i++) {
            masked[i] = i % 3 == 0 ? mask : i % 3 == 1 ? 0 : (float) Math.sin(i);
        }
        float[] oneMasked = Samples.NORMAL.take();
        oneMasked[5] = mask;
        oneMasked[6] = -inf;
        oneMasked[7] = Float.NaN;
        float[] all = new float[4080 * 2];
        for (int b = 0; b < 4080; b++) {
            all[b] = (float) LogHistogram.lowerEdge(b);
            all[4080 + b] = -all[b];
        }
        List<float[]> tensors = List.of(
                masked,
                oneMasked,
                all,
                new float[] {Float.MIN_VALUE},
                new float[] {Float.MAX_VALUE},
                new float[] {1f},
                new float[] {-inf, inf, Float.NaN, 2f},
                Samples.HEAVY_TAILS.take());
        for (float[] x : tensors) {
            for (Calibrator c : ALL) {
                double clip = c.clip(of(x), format);
                assertTrue(
                        clip > 0 && clip <= of(x).amax(), c + " " + Arrays.toString(Arrays.copyOf(x, 4)) + ": " + clip);
            }
        }
    }

    @Test
    void a_tensor_of_nothing_but_zeros_nans_and_infinities_gives_zero() {
        for (float[] x : List.of(
                new float[0], new float[100], new float[] {Float.NaN}, new float[] {Float.NEGATIVE_INFINITY, -0f})) {
            for (Calibrator c : ALL) {
                assertEquals(0, c.clip(of(x), Float8Format.E4M3FN), c.text());
            }
        }
    }

    @Test
    void a_tensor_of_one_value_is_hit_exactly_by_every_calibrator() {
        for (Calibrator c : ALL) {
            for (float v : new float[] {3f, 0.7f, 1f, 448f}) {
                double clip = c.clip(of(v, v, -v, v), Float8Format.E4M3FN);
                assertEquals(0, error(new float[] {v}, clip, Float8Format.E4M3FN), v * v * 5e-3, c.text());
            }
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"absmax", "percentile:99.99", "percentile:99", "mse", "entropy"})
    void a_calibrator_has_the_text_it_was_made_from(String text) {
        assertEquals(text, Calibrator.parse(text).text());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "abs",
                "percentile",
                "percentile:",
                "percentile:0",
                "percentile:101",
                "percentile:x",
                "percentile:NaN"
            })
    void anything_else_is_refused_with_the_list(String text) {
        assertThrows(InvalidOptionException.class, () -> Calibrator.parse(text));
    }
}
