package dev.octet.quant.number;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class BFloat16Test {
    @Test
    void widening_and_narrowing_gives_every_number_back() {
        for (int bits = 0; bits <= 0xFFFF; bits++) {
            float x = BFloat16.toFloat((short) bits);
            if (!Float.isNaN(x)) {
                assertEquals((short) bits, BFloat16.fromFloat(x));
            }
        }
    }

    @Test
    void a_nan_stays_a_nan_whatever_its_payload() {
        for (int payload = 1; payload < 1 << 23; payload = payload * 2 + 1) {
            float nan = Float.intBitsToFloat(0x7F800000 | payload);
            assertTrue(Float.isNaN(BFloat16.toFloat(BFloat16.fromFloat(nan))));
            assertTrue(Float.isNaN(BFloat16.toFloat(BFloat16.fromFloat(-nan))));
        }
    }

    @Test
    void ties_go_to_the_even_neighbour_and_overflow_to_infinity() {
        assertEquals((short) 0x3F80, BFloat16.fromFloat(1 + 0x1p-8f));
        assertEquals((short) 0x3F82, BFloat16.fromFloat(1 + 3 * 0x1p-8f));
        assertEquals((short) 0x3F81, BFloat16.fromFloat(Math.nextUp(1 + 0x1p-8f)));
        assertEquals((short) 0x7F80, BFloat16.fromFloat(Float.MAX_VALUE));
        assertEquals((short) 0x7F7F, BFloat16.fromFloat(Math.nextDown(0x1.FFp127f)));
        assertEquals((short) 0x8000, BFloat16.fromFloat(-0f));
    }
}
