package dev.octet.quant.cast;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@Tag("twins")
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class WordsTest {
    private static byte[] random(int bits, int count) {
        byte[] codes = new byte[count];
        SplittableRandom random = new SplittableRandom(7);
        for (int i = 0; i < count; i++) {
            codes[i] = (byte) random.nextInt(-(1 << (bits - 1)), 1 << (bits - 1));
        }
        return codes;
    }

    private static int[] ints(byte[] bytes) {
        int[] words = new int[bytes.length / Integer.BYTES];
        ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asIntBuffer().get(words);
        return words;
    }

    /** pack_to_int32 of compressed-tensors at ac8e2ba: of [[-8 .. 0], [7 .. -1]] with 4 bits, of [[-128, -1, 0, 1, 127]] with 8. */
    @Test
    void rows_are_packed_as_compressed_tensors_packs_them() {
        byte[] four = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 7, 6, 5, 4, 3, 2, 1, 0, -1};
        byte[] packed = new byte[4 * Integer.BYTES];
        Words.of(4).packRows(MemorySegment.ofArray(four), 2, 9, MemorySegment.ofArray(packed));
        assertArrayEquals(new int[] {0x76543210, 8, 0x89ABCDEF, 7}, ints(packed));

        byte[] eight = {-128, -1, 0, 1, 127};
        byte[] two = new byte[2 * Integer.BYTES];
        Words.of(8).packRows(MemorySegment.ofArray(eight), 1, 5, MemorySegment.ofArray(two));
        assertArrayEquals(new int[] {0x81807F00, 0xFF}, ints(two));
    }

    @ParameterizedTest
    @CsvSource({"4, 1, 1", "4, 5, 13", "4, 16, 32", "8, 1, 1", "8, 5, 13", "8, 16, 32"})
    void what_was_packed_is_unpacked(int bits, int rows, int cols) {
        Words words = Words.of(bits);
        byte[] codes = random(bits, rows * cols);
        byte[] packed = new byte[(int) (rows * words.words(cols) * Integer.BYTES)];
        byte[] back = new byte[codes.length];

        words.packRows(MemorySegment.ofArray(codes), rows, cols, MemorySegment.ofArray(packed));
        words.unpackRows(MemorySegment.ofArray(packed), rows, cols, MemorySegment.ofArray(back));

        assertArrayEquals(codes, back);
    }

    @ParameterizedTest
    @CsvSource({"4, 21, 3", "8, 21, 3", "8, 4, 1"})
    void columns_are_packed_each_on_its_own_and_read_from_any_row_on(int bits, int rows, int cols) {
        Words words = Words.of(bits);
        byte[] codes = random(bits, rows * cols);
        byte[] packed = new byte[(int) (words.words(rows) * cols * Integer.BYTES)];
        words.packColumns(MemorySegment.ofArray(codes), rows, cols, MemorySegment.ofArray(packed));

        for (int from = 0; from < rows; from++) {
            byte[] back = new byte[(rows - from) * cols];
            long skipped = (long) from / words.inWord() * cols * Integer.BYTES;
            MemorySegment rest = MemorySegment.ofArray(packed).asSlice(skipped);
            words.unpackColumns(rest, from, rows - from, cols, MemorySegment.ofArray(back));
            assertArrayEquals(Arrays.copyOfRange(codes, from * cols, codes.length), back, "from " + from);
        }
        // a column is packed as a row of its own would be
        byte[] column = new byte[rows];
        for (int row = 0; row < rows; row++) {
            column[row] = codes[row * cols];
        }
        byte[] alone = new byte[(int) words.words(rows) * Integer.BYTES];
        words.packRows(MemorySegment.ofArray(column), 1, rows, MemorySegment.ofArray(alone));
        assertEquals(ints(alone)[0], ints(packed)[0]);
    }

    @Test
    void other_widths_are_refused() {
        assertThrows(IllegalArgumentException.class, () -> Words.of(3));
    }
}
