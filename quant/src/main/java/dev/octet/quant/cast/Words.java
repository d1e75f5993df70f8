package dev.octet.quant.cast;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;

/**
 * Packs integers of 4 or 8 bits into words of 32, as compressed-tensors' {@code pack-quantized} does: the code plus half its range, the
 * earlier in the lower bits; a last word that is not full has zeros above. Matrices are row-major, codes one to a byte and signed, words
 * little-endian.
 *
 * <p>Source: {@code compressors/pack_quantized/helpers.py} of vllm-project/compressed-tensors at ac8e2ba.
 */
public final class Words {
    private static final ValueLayout.OfInt WORD = ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    private final int bits;
    private final int inWord;
    private final int half;
    private final int mask;

    private Words(int bits) {
        this.bits = bits;
        this.inWord = Integer.SIZE / bits;
        this.half = 1 << (bits - 1);
        this.mask = (1 << bits) - 1;
    }

    /**
     * Words of codes of this width.
     *
     * @throws IllegalArgumentException for others than 4 and 8
     */
    public static Words of(int bits) {
        if (bits != 4 && bits != 8) {
            throw new IllegalArgumentException("words of codes of " + bits + " bits");
        }
        return new Words(bits);
    }

    /** How many words hold {@code codes} neighbours. */
    public long words(long codes) {
        return Math.ceilDiv(codes, (long) inWord);
    }

    /** How many codes a word holds. */
    public int inWord() {
        return inWord;
    }

    /**
     * Packs each row on its own.
     *
     * @param codes {@code rows * cols} bytes
     * @param words takes {@code rows * words(cols)} words
     */
    public void packRows(MemorySegment codes, long rows, long cols, MemorySegment words) {
        long across = words(cols);
        for (long row = 0; row < rows; row++) {
            for (long w = 0; w < across; w++) {
                long first = w * inWord;
                int count = (int) Math.min(inWord, cols - first);
                words.set(WORD, (row * across + w) * Integer.BYTES, word(codes, row * cols + first, 1, count));
            }
        }
    }

    /**
     * Unpacks rows packed each on its own.
     *
     * @param words {@code rows * words(cols)} words
     * @param codes takes {@code rows * cols} bytes
     */
    public void unpackRows(MemorySegment words, long rows, long cols, MemorySegment codes) {
        long across = words(cols);
        for (long row = 0; row < rows; row++) {
            for (long w = 0; w < across; w++) {
                int word = words.get(WORD, (row * across + w) * Integer.BYTES);
                long first = row * cols + w * inWord;
                int count = (int) Math.min(inWord, cols - w * inWord);
                for (int i = 0; i < count; i++) {
                    codes.set(ValueLayout.JAVA_BYTE, first + i, code(word, i));
                }
            }
        }
    }

    /**
     * Packs each column on its own.
     *
     * @param codes {@code rows * cols} bytes
     * @param words takes {@code words(rows) * cols} words
     */
    public void packColumns(MemorySegment codes, long rows, long cols, MemorySegment words) {
        for (long down = 0; down < words(rows); down++) {
            long first = down * inWord;
            int count = (int) Math.min(inWord, rows - first);
            for (long col = 0; col < cols; col++) {
                words.set(WORD, (down * cols + col) * Integer.BYTES, word(codes, first * cols + col, cols, count));
            }
        }
    }

    /**
     * Unpacks rows of a matrix whose columns are packed each on its own.
     *
     * @param words words from that on which holds row {@code fromRow}
     * @param codes takes {@code rows * cols} bytes
     */
    public void unpackColumns(MemorySegment words, long fromRow, long rows, long cols, MemorySegment codes) {
        long start = fromRow / inWord;
        for (long row = 0; row < rows; row++) {
            long down = (fromRow + row) / inWord - start;
            int place = (int) ((fromRow + row) % inWord);
            for (long col = 0; col < cols; col++) {
                int word = words.get(WORD, (down * cols + col) * Integer.BYTES);
                codes.set(ValueLayout.JAVA_BYTE, row * cols + col, code(word, place));
            }
        }
    }

    private int word(MemorySegment codes, long first, long stride, int count) {
        int word = 0;
        for (int i = 0; i < count; i++) {
            word |= ((codes.get(ValueLayout.JAVA_BYTE, first + i * stride) + half) & mask) << (i * bits);
        }
        return word;
    }

    private byte code(int word, int place) {
        return (byte) (((word >>> (place * bits)) & mask) - half);
    }
}
