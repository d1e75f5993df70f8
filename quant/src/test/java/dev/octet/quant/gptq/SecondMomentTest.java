package dev.octet.quant.gptq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.util.BitSet;
import java.util.OptionalInt;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Tag("twins")
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class SecondMomentTest {
    private static float[] flat(float[][] rows, int from, int to) {
        int size = rows[0].length;
        float[] all = new float[(to - from) * size];
        for (int r = from; r < to; r++) {
            System.arraycopy(rows[r], 0, all, (r - from) * size, size);
        }
        return all;
    }

    private static void assertSameBits(SecondMoment expected, SecondMoment actual) {
        assertEquals(expected.rows(), actual.rows());
        for (int i = 0; i < expected.size(); i++) {
            for (int j = 0; j < expected.size(); j++) {
                assertEquals(expected.get(i, j), actual.get(i, j), i + ", " + j);
            }
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 13, 16, 17, 50})
    void each_element_is_the_plain_sum_of_its_products_in_the_order_of_the_rows(int size) {
        float[][] rows = Samples.correlatedRows(131, size, size);
        SecondMoment moment = Samples.moment(rows);
        for (int i = 0; i < size; i++) {
            for (int j = 0; j < size; j++) {
                double sum = 0;
                for (float[] row : rows) {
                    sum += (double) row[i] * row[j];
                }
                assertEquals(sum, moment.get(i, j), i + ", " + j);
            }
            assertEquals(moment.get(i, i), moment.diagonal()[i]);
        }
        assertEquals(131, moment.rows());
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3})
    void the_bits_do_not_depend_on_how_rows_are_split_into_batches(long seed) {
        float[][] rows = Samples.correlatedRows(200, 21, seed);
        SplittableRandom random = new SplittableRandom(seed);
        SecondMoment split = new SecondMoment(21);
        for (int from = 0; from < rows.length; ) {
            int to = Math.min(rows.length, from + random.nextInt(80));
            split.add(FloatBuffer.wrap(flat(rows, from, to)));
            if (random.nextBoolean()) {
                split.diagonal(); // makes waiting rows go in
            }
            from = to;
        }
        assertSameBits(Samples.moment(rows), split);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 16, 33})
    void both_twins_give_the_same_bits(int size) {
        float[][] rows = Samples.correlatedRows(77, size, 5);
        SecondMoment reference = new SecondMoment(size, new GptqTileReference());
        SecondMoment vector = new SecondMoment(size, new GptqTileVector());
        reference.add(FloatBuffer.wrap(flat(rows, 0, 77)));
        vector.add(FloatBuffer.wrap(flat(rows, 0, 77)));
        assertSameBits(reference, vector);
    }

    @Test
    void masked_rows_leave_no_trace() {
        float[][] rows = Samples.correlatedRows(10, 5, 1);
        float[][] kept = {rows[1], rows[2], rows[8]};
        BitSet mask = BitSet.valueOf(new long[] {0b1_0000_0110});
        rows[0][3] = Float.NaN;
        SecondMoment bySegment = new SecondMoment(5);
        bySegment.add(MemorySegment.ofArray(flat(rows, 0, 10)), mask);
        assertSameBits(Samples.moment(kept), bySegment);
        SecondMoment byBuffer = new SecondMoment(5);
        mask.set(10, 20); // rows that the batch does not have
        byBuffer.add(FloatBuffer.wrap(flat(rows, 0, 10)), mask);
        assertSameBits(Samples.moment(kept), byBuffer);
    }

    @Test
    void a_mask_may_stand_for_stretches_of_several_rows() {
        float[][] rows = Samples.correlatedRows(12, 5, 1);
        float[][] kept = {rows[0], rows[1], rows[2], rows[9], rows[10], rows[11]};
        SecondMoment moment = new SecondMoment(5);
        MemorySegment all = MemorySegment.ofArray(flat(rows, 0, 12));
        moment.add(all, 15, BitSet.valueOf(new long[] {0b1001}));
        assertSameBits(Samples.moment(kept), moment);
        moment.add(all, 60, BitSet.valueOf(new long[] {1}));
        assertEquals(18, moment.rows());
        for (long stretch : new long[] {0, 7, 25, 120, -5}) {
            assertThrows(IllegalArgumentException.class, () -> moment.add(all, stretch, new BitSet()));
        }
    }

    @Test
    void buffers_may_have_any_byte_order_and_position_and_segments_any_alignment() {
        float[][] rows = Samples.correlatedRows(4, 3, 1);
        float[] values = flat(rows, 0, 4);
        FloatBuffer bigEndian =
                ByteBuffer.allocate(64).order(ByteOrder.BIG_ENDIAN).asFloatBuffer();
        bigEndian.put(2, values);
        bigEndian.position(2).limit(14);
        SecondMoment byBuffer = new SecondMoment(3);
        byBuffer.add(bigEndian);
        assertEquals(2, bigEndian.position());
        assertSameBits(Samples.moment(rows), byBuffer);
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment odd = arena.allocate(49).asSlice(1);
            MemorySegment.copy(values, 0, odd, Tensor.F32_LE, 0, values.length);
            SecondMoment bySegment = new SecondMoment(3);
            bySegment.add(odd);
            assertSameBits(Samples.moment(rows), bySegment);
        }
    }

    @Test
    void merged_moments_are_those_of_all_rows() {
        SplittableRandom random = new SplittableRandom(1);
        float[][] rows = new float[150][18];
        for (float[] row : rows) {
            for (int c = 0; c < row.length; c++) {
                row[c] = random.nextInt(-1000, 1000); // sums of integers are exact in any order
            }
        }
        SecondMoment first = new SecondMoment(18);
        first.add(FloatBuffer.wrap(flat(rows, 0, 70)));
        SecondMoment second = new SecondMoment(18);
        second.add(FloatBuffer.wrap(flat(rows, 70, 150)));
        first.merge(second);
        assertSameBits(Samples.moment(rows), first);
        assertEquals(80, second.rows());
        assertThrows(IllegalArgumentException.class, () -> first.merge(new SecondMoment(17)));
    }

    @Test
    void a_channel_that_was_not_finite_is_named() {
        SecondMoment moment = Samples.moment(Samples.correlatedRows(100, 20, 1));
        assertEquals(OptionalInt.empty(), moment.firstNonFinite());
        float[] row = new float[20];
        row[19] = Float.NEGATIVE_INFINITY;
        moment.add(MemorySegment.ofArray(row));
        assertEquals(OptionalInt.of(19), moment.firstNonFinite());
        row[7] = Float.NaN;
        moment.add(MemorySegment.ofArray(row));
        assertEquals(OptionalInt.of(7), moment.firstNonFinite());
        assertTrue(Double.isNaN(moment.get(0, 7)));
    }

    @Test
    void the_largest_values_do_not_overflow() {
        float[] row = {Float.MAX_VALUE, Float.MIN_VALUE};
        SecondMoment moment = Samples.moment(new float[][] {row});
        assertEquals((double) Float.MAX_VALUE * Float.MAX_VALUE, moment.get(0, 0));
        assertEquals(0x1p-298, moment.get(1, 1));
    }

    @Test
    void incomplete_rows_and_impossible_sizes_are_refused() {
        SecondMoment moment = new SecondMoment(3);
        assertThrows(IllegalArgumentException.class, () -> moment.add(FloatBuffer.allocate(4)));
        assertThrows(IllegalArgumentException.class, () -> moment.add(MemorySegment.ofArray(new byte[13])));
        assertThrows(IllegalArgumentException.class, () -> new SecondMoment(0));
        assertThrows(IllegalArgumentException.class, () -> new SecondMoment(SecondMoment.MAX_SIZE + 1));
        assertThrows(IndexOutOfBoundsException.class, () -> moment.get(3, 0));
        moment.add(FloatBuffer.allocate(0));
        assertEquals(0, moment.rows());
    }
}
