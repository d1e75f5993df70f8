package dev.octet.quant.ggml;

import dev.octet.formats.gguf.GgufType;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * NVFP4 as checkpoints have it and as ggml's blocks have it: the same codes and scales in another order.
 *
 * <pre>
 * checkpoints  codes two to a byte, elements 2i (low half) and 2i + 1; scales apart, one E4M3 for 16 elements
 * ggml         64 elements: 4 scales, then for each 16 elements 8 bytes, elements j (low half) and j + 8
 * </pre>
 *
 * <p>Source: ggml, src/ggml-common.h (struct block_nvfp4) and src/ggml-quants.c (dequantize_row_nvfp4), and llama.cpp's conversion/base.py, which
 * reorders checkpoints of ModelOpt in the same way.
 */
@SuppressWarnings("OperatorPrecedence") // bits are put together as in ggml's C
public final class Nvfp4Blocks {
    /** The largest code of a scale, 448; ggml reads the next one, NaN elsewhere, as zero, and those with a sign without it. */
    public static final int LARGEST_SCALE = 0x7e;

    private static final int GROUP = 16;
    private static final int GROUPS = GgufType.NVFP4.blockElements() / GROUP;

    private Nvfp4Blocks() {}

    /**
     * Codes and scales as blocks.
     *
     * @param codes two to a byte, {@code 32 * blocks} bytes
     * @param scales one E4M3 for 16 elements, {@code 4 * blocks} bytes
     * @param into takes {@code 36 * blocks} bytes
     * @return the index of the first scale that ggml would read as another number, of which the blocks are not all written then; -1 when there is none
     */
    public static long pack(MemorySegment codes, MemorySegment scales, long blocks, MemorySegment into) {
        long to = 0;
        for (long group = 0; group < blocks * GROUPS; group++) {
            int scale = scales.get(ValueLayout.JAVA_BYTE, group) & 0xff;
            if (scale > LARGEST_SCALE) {
                return group;
            }
            long at = to + group % GROUPS;
            into.set(ValueLayout.JAVA_BYTE, at, (byte) scale);
            long from = group * GROUP / 2;
            long pairs = to + GROUPS + group % GROUPS * (GROUP / 2);
            for (int j = 0; j < GROUP / 2; j += 2) {
                int low = codes.get(ValueLayout.JAVA_BYTE, from + j / 2); // elements j and j + 1
                int high = codes.get(ValueLayout.JAVA_BYTE, from + j / 2 + GROUP / 4); // elements j + 8 and j + 9
                into.set(ValueLayout.JAVA_BYTE, pairs + j, (byte) (low & 15 | high << 4));
                into.set(ValueLayout.JAVA_BYTE, pairs + j + 1, (byte) (low >> 4 & 15 | high & 0xf0));
            }
            if (group % GROUPS == GROUPS - 1) {
                to += GgufType.NVFP4.blockBytes();
            }
        }
        return -1;
    }

    /**
     * Blocks as codes and scales.
     *
     * @param from {@code 36 * blocks} bytes
     * @param codes takes {@code 32 * blocks} bytes
     * @param scales takes {@code 4 * blocks} bytes
     */
    public static void unpack(MemorySegment from, long blocks, MemorySegment codes, MemorySegment scales) {
        for (long group = 0; group < blocks * GROUPS; group++) {
            long block = group / GROUPS * GgufType.NVFP4.blockBytes();
            scales.set(ValueLayout.JAVA_BYTE, group, from.get(ValueLayout.JAVA_BYTE, block + group % GROUPS));
            long pairs = block + GROUPS + group % GROUPS * (GROUP / 2);
            long to = group * GROUP / 2;
            for (int j = 0; j < GROUP / 2; j += 2) {
                int first = from.get(ValueLayout.JAVA_BYTE, pairs + j); // elements j and j + 8
                int second = from.get(ValueLayout.JAVA_BYTE, pairs + j + 1); // elements j + 1 and j + 9
                codes.set(ValueLayout.JAVA_BYTE, to + j / 2, (byte) (first & 15 | second << 4));
                codes.set(ValueLayout.JAVA_BYTE, to + j / 2 + GROUP / 4, (byte) (first >> 4 & 15 | second & 0xf0));
            }
        }
    }
}
