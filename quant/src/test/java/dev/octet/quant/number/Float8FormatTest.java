package dev.octet.quant.number;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import java.util.Optional;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class Float8FormatTest {
    @ParameterizedTest
    @EnumSource(Float8Format.class)
    void every_code_has_the_value_of_the_oracle(Float8Format format) {
        float[] expected = OracleTables.decoded(format);
        assertEquals(expected.length, format.codeCount());
        for (int code = 0; code < expected.length; code++) {
            assertEquals(expected[code], format.decode(code), "code " + code);
            assertEquals(Float.isNaN(expected[code]), format.isNaN(code), "code " + code);
        }
    }

    @ParameterizedTest
    @EnumSource(Float8Format.class)
    void every_bf16_has_the_code_of_the_oracle(Float8Format format) {
        for (Overflow overflow : Overflow.values()) {
            if (OracleTables.has(format, overflow)) {
                byte[] expected = OracleTables.encoded(format, "bf16", overflow);
                for (int bits = 0; bits < expected.length; bits++) {
                    float x = BFloat16.toFloat((short) bits);
                    assertEquals(expected[bits] & 0xFF, format.encode(x, overflow), overflow + " " + x);
                }
            }
        }
    }

    @ParameterizedTest
    @EnumSource(Float8Format.class)
    void every_f16_has_the_code_of_the_oracle(Float8Format format) {
        for (Overflow overflow : Overflow.values()) {
            if (OracleTables.has(format, overflow)) {
                byte[] expected = OracleTables.encoded(format, "f16", overflow);
                for (int bits = 0; bits < expected.length; bits++) {
                    float x = Half.toFloat((short) bits);
                    assertEquals(expected[bits] & 0xFF, format.encode(x, overflow), overflow + " " + x);
                }
            }
        }
    }

    @ParameterizedTest
    @EnumSource(Float8Format.class)
    void encoding_the_value_of_a_code_gives_the_code_back(Float8Format format) {
        for (int code = 0; code < format.codeCount(); code++) {
            float value = format.decode(code);
            if (Float.isFinite(value)) {
                assertEquals(code, format.encode(value, Overflow.SATURATE), "code " + code);
                assertEquals(code, format.encode(value, Overflow.NON_SATURATING), "code " + code);
            }
        }
    }

    @ParameterizedTest
    @EnumSource(
            value = Float8Format.class,
            names = {"E8M0"},
            mode = EnumSource.Mode.EXCLUDE)
    void halfway_between_two_codes_the_even_one_wins_and_one_ulp_decides_otherwise(Float8Format format) {
        for (int code = 0; code < format.maxCode(); code++) {
            float middle = (float) ((format.decode(code) + (double) format.decode(code + 1)) / 2);
            int even = code % 2 == 0 ? code : code + 1;
            assertEquals(even, format.encode(middle, Overflow.SATURATE), "above code " + code);
            assertEquals(code, format.encode(Math.nextDown(middle), Overflow.SATURATE), "above code " + code);
            assertEquals(code + 1, format.encode(Math.nextUp(middle), Overflow.SATURATE), "above code " + code);
        }
    }

    @Test
    void rows_say_what_the_specifications_say() {
        assertEquals(448f, Float8Format.E4M3FN.maxValue());
        assertEquals(57344f, Float8Format.E5M2.maxValue());
        assertEquals(240f, Float8Format.E4M3FNUZ.maxValue());
        assertEquals(57344f, Float8Format.E5M2FNUZ.maxValue());
        assertEquals(0x1p127f, Float8Format.E8M0.maxValue());
        assertEquals(6f, Float8Format.E2M1.maxValue());
        assertEquals(0x1p-9f, Float8Format.E4M3FN.minPositive());
        assertEquals(0x1p-6f, Float8Format.E4M3FN.minNormal());
        assertEquals(0x1p-17f, Float8Format.E5M2FNUZ.minPositive());
        assertEquals(8, Float8Format.E4M3FN.maxExponent());
        assertEquals(2, Float8Format.E2M1.maxExponent());
        assertEquals(0x7C, Float8Format.E5M2.infinityCode());
        assertEquals(0x80, Float8Format.E4M3FNUZ.nanCode());
        assertFalse(Float8Format.E4M3FNUZ.hasNegativeZero());
        assertTrue(Float8Format.E4M3FN.hasNegativeZero());
        assertEquals(Optional.of(Float8Format.E2M1), Float8Format.of(DType.F4_E2M1));
        assertEquals(Optional.empty(), Float8Format.of(DType.F32));
        assertThrows(UnsupportedOperationException.class, Float8Format.E2M1::nanCode);
        assertThrows(UnsupportedOperationException.class, Float8Format.E4M3FN::infinityCode);
    }

    @Test
    void a_saturating_exponent_takes_zero_and_infinity_to_its_ends() {
        assertEquals(0x00, Float8Format.E8M0.encode(0, Overflow.SATURATE));
        assertEquals(0x00, Float8Format.E8M0.encode(-0f, Overflow.SATURATE));
        assertEquals(0xFE, Float8Format.E8M0.encode(Float.POSITIVE_INFINITY, Overflow.SATURATE));
        assertEquals(0xFE, Float8Format.E8M0.encode(Float.MAX_VALUE, Overflow.SATURATE));
        assertEquals(0xFF, Float8Format.E8M0.encode(Float.NaN, Overflow.SATURATE));
        assertEquals(0xFF, Float8Format.E8M0.encode(-1, Overflow.SATURATE));
        assertEquals(0x80, Float8Format.E8M0.encode(1.5f, Overflow.SATURATE));
        assertEquals(0x7F, Float8Format.E8M0.encode(Math.nextDown(1.5f), Overflow.SATURATE));
    }
}
