package dev.octet.quant.statistics;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.FloatBuffer;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Objects;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
final class StatisticsAccumulatorTest {
    /** Any bits at all, one in eight of them special: zeros, infinities, NaNs, subnormals, the greatest number. */
    private static float[] anyFloats(int n, long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        float[] special = {
            0f,
            -0f,
            Float.NaN,
            Float.POSITIVE_INFINITY,
            Float.NEGATIVE_INFINITY,
            Float.MIN_VALUE,
            -Float.MAX_VALUE,
            Float.MAX_VALUE
        };
        float[] x = new float[n];
        for (int i = 0; i < n; i++) {
            x[i] = random.nextInt(8) == 0
                    ? special[random.nextInt(special.length)]
                    : Float.intBitsToFloat(random.nextInt());
        }
        return x;
    }

    @Test
    void channels_and_negative_numbers_are_those_of_the_definition_over_the_kept_rows() {
        float[] x = anyFloats(40 * 6, 5);
        BitSet kept = new BitSet();
        kept.set(0, 9);
        kept.set(11, 20);
        StatisticsAccumulator a = new StatisticsAccumulator();
        a.addWithChannels(MemorySegment.ofArray(x), 12, kept, 6); // 20 rows of two channel rows each
        TensorStatistics t = a.snapshot();
        ChannelStatistics channels = Objects.requireNonNull(t.channels());
        long negative = 0;
        double[] magnitudes = new double[6];
        double[] squares = new double[6];
        double[] sums = new double[6];
        float[] min = new float[6];
        float[] max = new float[6];
        Arrays.fill(min, Float.POSITIVE_INFINITY);
        Arrays.fill(max, Float.NEGATIVE_INFINITY);
        long rows = 0;
        for (int r = 0; r < 40; r++) {
            boolean finite = true;
            for (int c = 0; c < 6; c++) {
                float v = x[r * 6 + c];
                finite &= Float.isFinite(v);
                negative += kept.get(r / 2) && Float.isFinite(v) && v < 0 ? 1 : 0;
            }
            if (!finite || !kept.get(r / 2)) {
                continue;
            }
            rows++;
            for (int c = 0; c < 6; c++) {
                double v = x[r * 6 + c];
                min[c] = Math.min(min[c], (float) v);
                max[c] = Math.max(max[c], (float) v);
                sums[c] += v;
                magnitudes[c] += Math.abs(v);
                squares[c] += v * v;
            }
        }
        assertTrue(rows > 3, "the test has rows");
        assertEquals(rows, channels.count());
        assertEquals(negative, Objects.requireNonNull(t.negatives()).total());
        assertEquals(t.histogram(), Objects.requireNonNull(t.positives()).plus(t.negatives()));
        for (int c = 0; c < 6; c++) {
            assertEquals(min[c], channels.min(c));
            assertEquals(max[c], channels.max(c));
            assertEquals(Math.max(-min[c], max[c]), channels.amax(c));
            assertEquals(sums[c] / rows, channels.mean(c));
            assertEquals(magnitudes[c] / rows, channels.meanMagnitude(c));
            assertEquals(squares[c] / rows, channels.meanSquare(c));
        }
    }

    @Test
    void heads_are_those_of_the_kept_tokens() {
        int heads = 3;
        int length = 4;
        int size = 5;
        SplittableRandom random = new SplittableRandom(7);
        float[] x = new float[2 * heads * length * size];
        for (int i = 0; i < x.length; i++) {
            x[i] = (float) random.nextDouble(-1, 1);
        }
        BitSet kept = new BitSet(); // the last token of the first sample is padding
        kept.set(0, 2 * heads * length);
        float[] amax = new float[heads];
        double[] squares = new double[heads];
        for (int head = 0; head < heads; head++) {
            kept.clear(head * length + length - 1);
        }
        for (int row = 0; row < 2 * heads * length; row++) {
            for (int i = 0; kept.get(row) && i < size; i++) {
                int head = row / length % heads;
                amax[head] = Math.max(amax[head], Math.abs(x[row * size + i]));
                squares[head] += (double) x[row * size + i] * x[row * size + i];
            }
        }
        StatisticsAccumulator a = new StatisticsAccumulator();
        a.addWithHeads(MemorySegment.ofArray(x), kept, new StatisticsAccumulator.HeadShape(heads, length, size));
        ChannelStatistics of = Objects.requireNonNull(a.snapshot().heads());
        assertEquals(7L * size, of.count());
        for (int head = 0; head < heads; head++) {
            assertEquals(amax[head], of.amax(head));
            assertEquals(squares[head] / (7 * size), of.meanSquare(head), 1e-12);
        }
    }

    @Test
    void heads_side_by_side_give_the_statistics_of_heads_on_an_axis_of_their_own() {
        int samples = 2;
        int heads = 3;
        int length = 4;
        int size = 5;
        SplittableRandom random = new SplittableRandom(9);
        float[] joined = new float[samples * length * heads * size];
        float[] split = new float[joined.length];
        for (int i = 0; i < joined.length; i++) {
            joined[i] = (float) random.nextDouble(-1, 1);
            int head = i / size % heads;
            int token = i / (size * heads) % length;
            int sample = i / (size * heads * length);
            split[((sample * heads + head) * length + token) * size + i % size] = joined[i];
        }
        joined[7] = Float.NaN; // of the second head of the first token, which then counts for no head
        split[length * size + 2] = Float.NaN;
        BitSet tokens = new BitSet();
        tokens.set(0, samples * length);
        tokens.clear(length - 1); // padding
        BitSet rows = new BitSet();
        rows.set(0, samples * heads * length);
        for (int head = 0; head < heads; head++) {
            rows.clear(head * length + length - 1);
        }
        StatisticsAccumulator a = new StatisticsAccumulator();
        StatisticsAccumulator b = new StatisticsAccumulator();
        a.addWithJoinedHeads(MemorySegment.ofArray(joined), (long) heads * size, tokens, heads, size);
        b.addWithHeads(MemorySegment.ofArray(split), rows, new StatisticsAccumulator.HeadShape(heads, length, size));
        assertEquals(b.snapshot().heads(), a.snapshot().heads());
        assertEquals(6L * size, Objects.requireNonNull(a.snapshot().heads()).count());
        assertEquals(1, a.snapshot().nans());
    }

    @Test
    void heads_and_channels_that_earlier_samples_do_not_have_are_not_begun_with_later_ones() {
        MemorySegment row = MemorySegment.ofArray(new float[] {1, 2, 3, 4});
        BitSet kept = BitSet.valueOf(new long[] {1});
        StatisticsAccumulator before = new StatisticsAccumulator();
        before.add(row);
        StatisticsAccumulator after = new StatisticsAccumulator(before.snapshot());
        after.addWithJoinedHeads(row, 4, kept, 2, 2);
        after.addWithHeads(row, BitSet.valueOf(new long[] {3}), new StatisticsAccumulator.HeadShape(2, 1, 2));
        after.addWithChannels(row, 4, kept, 4);
        assertEquals(16, after.snapshot().count());
        assertNull(after.snapshot().heads());
        assertNull(after.snapshot().channels());
    }

    @Test
    void rows_that_are_no_whole_number_of_heads_are_refused() {
        StatisticsAccumulator a = new StatisticsAccumulator();
        BitSet kept = BitSet.valueOf(new long[] {1});
        assertThrows(
                IllegalArgumentException.class,
                () -> a.addWithJoinedHeads(MemorySegment.ofArray(new float[10]), 10, kept, 3, 3));
    }

    @Test
    void channels_that_go_on_from_a_snapshot_end_with_the_same_bits_and_merge_to_the_same_ranges() {
        float[] x = new float[400];
        SplittableRandom random = new SplittableRandom(8);
        for (int i = 0; i < x.length; i++) {
            x[i] = (float) random.nextDouble(-3, 1);
        }
        MemorySegment all = MemorySegment.ofArray(x);
        BitSet every = new BitSet();
        every.set(0, 100);
        StatisticsAccumulator whole = new StatisticsAccumulator();
        whole.addWithChannels(all.asSlice(0, 800), 4, every, 4);
        StatisticsAccumulator resumed = new StatisticsAccumulator(whole.snapshot());
        StatisticsAccumulator second = new StatisticsAccumulator();
        whole.addWithChannels(all.asSlice(800), 4, every, 4);
        resumed.addWithChannels(all.asSlice(800), 4, every, 4);
        assertEquals(whole.snapshot(), resumed.snapshot());
        StatisticsAccumulator first = new StatisticsAccumulator();
        first.addWithChannels(all.asSlice(0, 800), 4, every, 4);
        second.addWithChannels(all.asSlice(800), 4, every, 4);
        ChannelStatistics merged =
                Objects.requireNonNull(first.snapshot().merge(second.snapshot()).channels());
        ChannelStatistics once = Objects.requireNonNull(whole.snapshot().channels());
        assertEquals(once.count(), merged.count());
        for (int c = 0; c < 4; c++) {
            assertEquals(once.min(c), merged.min(c));
            assertEquals(once.meanSquare(c), merged.meanSquare(c), 1e-12);
        }
        assertThrows(
                IllegalArgumentException.class,
                () -> resumed.addWithChannels(all, 5, every, 5),
                "the channels are another number");
    }

    /** The definition, element by element. */
    private static TensorStatistics reference(float[] x) {
        long zeros = 0;
        long nans = 0;
        long infinities = 0;
        float min = Float.POSITIVE_INFINITY;
        float max = Float.NEGATIVE_INFINITY;
        double squares = 0;
        long[] bins = new long[LogHistogram.BIN_COUNT];
        for (float v : x) {
            if (Float.isNaN(v)) {
                nans++;
            } else if (Float.isInfinite(v)) {
                infinities++;
            } else {
                min = Math.min(min, v);
                max = Math.max(max, v);
                squares += (double) v * v;
                if (v == 0) {
                    zeros++;
                } else {
                    bins[LogHistogram.binOf(v)]++;
                }
            }
        }
        boolean finite = nans + infinities < x.length;
        return new TensorStatistics(
                x.length, zeros, nans, infinities, finite ? min : 0, finite ? max : 0, squares, LogHistogram.of(bins));
    }

    private static void assertSame(TensorStatistics expected, TensorStatistics actual) {
        // Sums of n terms in another order differ by n roundings at most
        assertEquals(expected.sumOfSquares(), actual.sumOfSquares(), expected.sumOfSquares() * 1e-12);
        assertEquals(withoutSquares(expected), withoutSquares(actual));
    }

    private static TensorStatistics withoutSquares(TensorStatistics t) {
        return new TensorStatistics(t.count(), t.zeros(), t.nans(), t.infinities(), t.min(), t.max(), 0, t.histogram());
    }

    private static TensorStatistics of(float... x) {
        StatisticsAccumulator a = new StatisticsAccumulator();
        a.add(FloatBuffer.wrap(x));
        return a.snapshot();
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2, 3, 13, 207, 4095, 4096, 4097, 20_001})
    void any_floats_are_counted_as_the_definition_says(int n) {
        float[] x = anyFloats(n, n);
        assertSame(reference(x), of(x));
    }

    @Test
    void finite_floats_in_a_native_unaligned_segment_are_counted_too() {
        float[] x = new SplittableRandom(7)
                .doubles(9999, -5, 5)
                .boxed()
                .map(Double::floatValue)
                .collect(() -> FloatBuffer.allocate(9999), FloatBuffer::put, FloatBuffer::put)
                .array();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment s = arena.allocate(x.length * 4L + 1).asSlice(1);
            MemorySegment.copy(x, 0, s, ValueLayout.JAVA_FLOAT_UNALIGNED, 0, x.length);
            StatisticsAccumulator a = new StatisticsAccumulator();
            a.add(s);
            assertSame(reference(x), a.snapshot());
        }
    }

    @Test
    void rows_that_are_not_kept_leave_no_trace_even_with_huge_values() {
        float[] real = anyFloats(6 * 5, 3);
        float[] padded = new float[10 * 5];
        BitSet kept = new BitSet();
        int[] at = {0, 1, 4, 5, 6, 9};
        Arrays.fill(padded, 1e38f);
        for (int r = 0; r < at.length; r++) {
            System.arraycopy(real, r * 5, padded, at[r] * 5, 5);
            kept.set(at[r]);
        }
        StatisticsAccumulator a = new StatisticsAccumulator();
        a.add(MemorySegment.ofArray(padded), 5, kept);
        assertSame(reference(real), a.snapshot());
    }

    @Test
    void elements_that_are_no_whole_rows_are_refused() {
        StatisticsAccumulator a = new StatisticsAccumulator();
        MemorySegment ten = MemorySegment.ofArray(new float[10]);
        assertThrows(IllegalArgumentException.class, () -> a.add(ten, 4, new BitSet()));
        assertThrows(IllegalArgumentException.class, () -> a.add(ten, 0, new BitSet()));
        assertThrows(IllegalArgumentException.class, () -> a.add(MemorySegment.ofArray(new byte[6])));
    }

    @Test
    void going_on_from_a_snapshot_ends_with_the_same_bits() {
        float[] first = anyFloats(5000, 1);
        float[] second = anyFloats(777, 2);
        StatisticsAccumulator whole = new StatisticsAccumulator();
        whole.add(FloatBuffer.wrap(first));
        whole.add(FloatBuffer.wrap(second));
        StatisticsAccumulator resumed = new StatisticsAccumulator(of(first));
        resumed.add(FloatBuffer.wrap(second));
        assertEquals(whole.snapshot(), resumed.snapshot());
    }

    @Test
    void merging_counts_as_one_run_would() {
        float[] first = anyFloats(5000, 1);
        float[] second = anyFloats(777, 2);
        float[] both = java.util.Arrays.copyOf(first, 5777);
        System.arraycopy(second, 0, both, 5000, 777);
        assertSame(of(both), of(first).merge(of(second)));
        assertEquals(of(first).merge(of(second)), of(second).merge(of(first)));
        assertEquals(of(first), of(first).merge(TensorStatistics.EMPTY));
    }

    @Test
    void a_range_on_one_side_of_zero_stays_there() {
        TensorStatistics negative = of(-3f, -2f).merge(TensorStatistics.EMPTY);
        assertEquals(-3f, negative.min());
        assertEquals(-2f, negative.max());
        assertEquals(3f, negative.amax());
        assertEquals(Math.sqrt(6.5), negative.rms());
    }

    @Test
    void the_share_above_a_limit_is_right_within_a_bin() {
        float[] x = new float[1000];
        for (int i = 0; i < x.length; i++) {
            x[i] = i * (i % 2 == 0 ? 1 : -1);
        }
        TensorStatistics t = of(x);
        for (double limit : new double[] {0, 0.5, 1, 100, 511, 512, 700, 990, 999, 2000}) {
            long above = 0;
            for (float v : x) {
                above += Math.abs(v) > limit ? 1 : 0;
            }
            assertEquals(above / 1000.0, t.shareAbove(limit), 0.003, "limit " + limit);
        }
        assertEquals(0, TensorStatistics.EMPTY.shareAbove(1));
    }

    @Test
    void bins_meet_at_their_edges_and_cover_every_finite_float() {
        for (int b = 0; b < LogHistogram.BIN_COUNT; b++) {
            assertTrue(LogHistogram.lowerEdge(b) < LogHistogram.upperEdge(b));
            assertEquals(b, LogHistogram.binOf((float) LogHistogram.lowerEdge(b)));
            assertEquals(b, LogHistogram.binOf(Math.nextDown((float) LogHistogram.upperEdge(b))));
        }
        assertEquals(LogHistogram.BIN_COUNT - 1, LogHistogram.binOf(-Float.MAX_VALUE));
        assertThrows(IllegalArgumentException.class, () -> LogHistogram.binOf(Float.NaN));
        assertThrows(IllegalArgumentException.class, () -> LogHistogram.binOf(Float.NEGATIVE_INFINITY));
    }
}
