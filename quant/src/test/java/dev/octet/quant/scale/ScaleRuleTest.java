package dev.octet.quant.scale;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.ScaleRule.AmaxRule;
import dev.octet.quant.scale.ScaleRule.Exponent;
import dev.octet.quant.scale.ScaleRule.MseRule;
import dev.octet.quant.scale.ScaleRule.MxRule;
import dev.octet.quant.scale.ScaleRule.PowerOfTwoRule;
import dev.octet.quant.scale.ScaleRule.Rounding;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ScaleRuleTest {
    private static final List<DType> SCALE_TYPES = List.of(DType.F32, DType.BF16, DType.F16, DType.F8_E8M0);

    private static List<ScaleRule> rules() {
        List<ScaleRule> rules = new ArrayList<>(List.of(new AmaxRule(), new MseRule()));
        for (Rounding rounding : Rounding.values()) {
            rules.add(new PowerOfTwoRule(rounding));
        }
        for (Exponent exponent : Exponent.values()) {
            rules.add(new MxRule(exponent));
        }
        return rules;
    }

    @Test
    void no_amax_whatever_gives_a_scale_that_cannot_be_stored_or_divided_by() {
        float[] amaxes = {0, Float.MIN_VALUE, 1e-40f, Float.MIN_NORMAL, 1e-20f, 1, 448, 1e20f, Float.MAX_VALUE};
        for (Float8Format format :
                List.of(Float8Format.E4M3FN, Float8Format.E5M2, Float8Format.E4M3FNUZ, Float8Format.E2M1)) {
            for (ScaleRule rule : rules()) {
                for (DType type : SCALE_TYPES) {
                    OperandSpec spec = OperandSpec.fromValues(format, new Granularity.PerTensor())
                            .scaledBy(rule, type);
                    for (float amax : amaxes) {
                        float scale = spec.storedScale(amax);
                        String what = spec + " amax " + amax + " scale " + scale;
                        assertTrue(scale >= StoredScale.smallest(type) && scale <= StoredScale.largest(type), what);
                        assertEquals(scale, StoredScale.round(scale, type), what);
                    }
                    assertEquals(1f, spec.storedScale(0), spec.toString());
                }
            }
        }
    }

    @Test
    void the_largest_magnitude_lands_on_the_largest_number() {
        assertEquals(1f, new AmaxRule().scale(448, Float8Format.E4M3FN));
        assertEquals(0.1f / 448, new AmaxRule().scale(0.1f, Float8Format.E4M3FN));
        assertEquals(2f, new AmaxRule().scale(12, Float8Format.E2M1));
    }

    @Test
    void powers_of_two_go_where_their_rounding_says() {
        assertEquals(1f, new PowerOfTwoRule(Rounding.UP).scale(448, Float8Format.E4M3FN));
        assertEquals(2f, new PowerOfTwoRule(Rounding.UP).scale(449, Float8Format.E4M3FN));
        assertEquals(1f, new PowerOfTwoRule(Rounding.DOWN).scale(895, Float8Format.E4M3FN));
        assertEquals(1f, new PowerOfTwoRule(Rounding.NEAREST).scale(448 * 1.41f, Float8Format.E4M3FN));
        assertEquals(2f, new PowerOfTwoRule(Rounding.NEAREST).scale(448 * 1.42f, Float8Format.E4M3FN));
    }

    @Test
    void block_exponents_of_the_three_schools_differ_where_they_are_known_to() {
        int ctAbove = 0;
        int clips = 0;
        for (int bits = 0x3F80; bits < 0x4000; bits++) { // every BF16 in [1, 2)
            float amax = BFloat16.toFloat((short) bits);
            float ceil = new MxRule(Exponent.CEIL).scale(amax, Float8Format.E4M3FN);
            float ct = new MxRule(Exponent.COMPRESSED_TENSORS).scale(amax, Float8Format.E4M3FN);
            float floor = new MxRule(Exponent.OCP_FLOOR).scale(amax, Float8Format.E4M3FN);
            assertTrue(amax / ceil <= 448, "amax " + amax);
            assertTrue(amax / ct <= 448, "amax " + amax);
            ctAbove += ct != ceil ? 1 : 0;
            clips += amax / floor > 448 ? 1 : 0;
        }
        assertEquals(1, ctAbove);
        assertEquals(31, clips);
        assertEquals(0x1p-8f, new MxRule(Exponent.CEIL).scale(1.75f, Float8Format.E4M3FN));
        assertEquals(0x1p-7f, new MxRule(Exponent.COMPRESSED_TENSORS).scale(1.75f, Float8Format.E4M3FN));
    }

    @Test
    void transformer_engines_examples_come_out() {
        MxRule ceil = new MxRule(Exponent.CEIL);
        float[] amax = {448, 449, 447, 224, 1, 3.5f};
        int[] code = {127, 128, 127, 126, 119, 120};
        for (int i = 0; i < amax.length; i++) {
            float scale = ceil.scale(amax[i], Float8Format.E4M3FN);
            assertEquals(code[i], Float8Format.E8M0.encode(scale, Overflow.SATURATE), "amax " + amax[i]);
        }
    }

    @Test
    void a_scale_stored_as_an_exponent_is_rounded_up() {
        assertEquals(2f, StoredScale.round(1.01f, DType.F8_E8M0));
        assertEquals(1f, StoredScale.round(1f, DType.F8_E8M0));
        assertEquals(0x1p127f, StoredScale.round(Float.MAX_VALUE, DType.F8_E8M0));
    }

    @Test
    void amaxes_that_are_no_number_have_no_scale() {
        for (float bad : new float[] {-1, Float.NaN, Float.POSITIVE_INFINITY}) {
            assertThrows(IllegalArgumentException.class, () -> new AmaxRule().scale(bad, Float8Format.E4M3FN));
        }
        assertThrows(IllegalArgumentException.class, () -> StoredScale.round(1, DType.F64));
        assertThrows(IllegalArgumentException.class, () -> new MseRule(1, 0.5f, 3));
        Granularity all = new Granularity.PerTensor();
        assertThrows(IllegalArgumentException.class, () -> OperandSpec.fromValues(Float8Format.E8M0, all));
        assertThrows(
                IllegalArgumentException.class,
                () -> OperandSpec.fromValues(Float8Format.E5M2, all).scaledBy(new AmaxRule(), DType.I8));
    }
}
