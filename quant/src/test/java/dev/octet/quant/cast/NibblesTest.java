package dev.octet.quant.cast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag("twins")
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class NibblesTest {
    private static final int[] COUNTS = {
        0, 1, 2, 13, 63, 64, 65, 127, 128, 129, 207, 4098, (1 << 14) + 66, (1 << 14) + 65
    };

    private static byte[] random(int count) {
        byte[] codes = new byte[count];
        SplittableRandom random = new SplittableRandom(count);
        for (int i = 0; i < count; i++) {
            codes[i] = (byte) random.nextInt(16);
        }
        return codes;
    }

    @Test
    void the_earlier_code_of_a_pair_lies_in_the_low_nibble() {
        for (int count : COUNTS) {
            byte[] codes = random(count);
            byte[] packed = new byte[(count + 1) / 2];
            Nibbles.pack(MemorySegment.ofArray(codes), MemorySegment.ofArray(packed));
            for (int i = 0; i < count; i++) {
                assertEquals(codes[i], (packed[i / 2] >> (i % 2 * 4)) & 0xF, count + " codes, " + i);
            }
            if (count % 2 == 1) {
                assertEquals(0, packed[count / 2] >> 4, "the upper half of the last byte of " + count);
            }
        }
    }

    @Test
    void what_is_packed_comes_out_as_it_was() {
        for (int count : COUNTS) {
            byte[] codes = random(count);
            MemorySegment packed = MemorySegment.ofArray(new byte[(count + 1) / 2]);
            Nibbles.pack(MemorySegment.ofArray(codes), packed);
            MemorySegment unpacked = MemorySegment.ofArray(new byte[count]);
            Nibbles.unpack(packed, unpacked);
            assertEquals(-1, unpacked.mismatch(MemorySegment.ofArray(codes)), count + " codes");
        }
    }

    @Test
    void every_byte_unpacks_as_one_at_a_time() {
        byte[] all = new byte[256];
        for (int i = 0; i < 256; i++) {
            all[i] = (byte) i;
        }
        MemorySegment packed = MemorySegment.ofArray(all);
        MemorySegment expected = MemorySegment.ofArray(new byte[512]);
        MemorySegment actual = MemorySegment.ofArray(new byte[512]);
        Nibbles.unpackFrom(0, packed, expected);
        Nibbles.unpack(packed, actual);
        assertEquals(-1, actual.mismatch(expected));
        assertEquals(0xF, actual.get(ValueLayout.JAVA_BYTE, 511));
    }

    @Test
    void sizes_that_disagree_are_refused() {
        MemorySegment codes = MemorySegment.ofArray(new byte[3]);
        for (int bytes : new int[] {1, 3}) {
            MemorySegment packed = MemorySegment.ofArray(new byte[bytes]);
            assertThrows(IllegalArgumentException.class, () -> Nibbles.pack(codes, packed));
            assertThrows(IllegalArgumentException.class, () -> Nibbles.unpack(packed, codes));
        }
    }
}
