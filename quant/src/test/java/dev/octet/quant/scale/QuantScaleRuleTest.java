package dev.octet.quant.scale;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.Float8Format;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class QuantScaleRuleTest {
    private static final TransformerEngineScale PLAIN = new TransformerEngineScale(0, false, false);
    private static final TransformerEngineScale POWERS = new TransformerEngineScale(0, true, false);

    @ParameterizedTest
    @CsvSource({
        "0.1, 4480, 4096",
        "1, 448, 256",
        "3.5, 128, 128",
        "448, 1, 1",
        "449, 0.99777281, 0.5",
        "1e-36, 3.4028234663852886e38, 0x1p127",
        "1e-45, 3.4028234663852886e38, 0x1p127",
        "0, 1, 1",
        "Infinity, 1, 1",
        "NaN, 1, 1"
    })
    void transformer_engine_divides_in_fp32(float amax, float expected, float powerOfTwo) {
        assertEquals(expected, PLAIN.quantScale(amax, Float8Format.E4M3FN, DType.F32));
        assertEquals(powerOfTwo, POWERS.quantScale(amax, Float8Format.E4M3FN, DType.F32));
    }

    @Test
    void a_quotient_beyond_fp32_becomes_the_largest_number_of_the_input_in_block_kernels() {
        TransformerEngineScale blocks = new TransformerEngineScale(0, false, true);
        assertEquals(Float.MAX_VALUE, blocks.quantScale(1e-38f, Float8Format.E4M3FN, DType.F32));
        assertEquals(0x1.FEp127f, blocks.quantScale(1e-38f, Float8Format.E4M3FN, DType.BF16));
        assertEquals(65504f, blocks.quantScale(1e-38f, Float8Format.E4M3FN, DType.F16));
        TransformerEngineScale cut = new TransformerEngineScale(0, true, true);
        assertEquals(0x1p127f, cut.quantScale(1e-38f, Float8Format.E4M3FN, DType.BF16));
        assertEquals(0x1p15f, cut.quantScale(1e-38f, Float8Format.E4M3FN, DType.F16));
    }

    @Test
    void a_smaller_amax_is_raised_to_epsilon() {
        TransformerEngineScale rule = new TransformerEngineScale(0.5f, false, false);
        assertEquals(896, rule.quantScale(0, Float8Format.E4M3FN, DType.F32));
        assertEquals(896, rule.quantScale(0.5f, Float8Format.E4M3FN, DType.F32));
        assertEquals(448, rule.quantScale(1, Float8Format.E4M3FN, DType.F32));
    }

    @ParameterizedTest
    @CsvSource({
        "448, 127",
        "449, 128",
        "447, 127",
        "224, 126",
        "1, 119",
        "3.5, 120",
        "1e-38, 0",
        "0, 0",
        "Infinity, 254",
        "NaN, 255"
    })
    void mx_exponents_round_up(float amax, int code) {
        assertEquals(code, TransformerEngineMxScale.exponentCode(amax, Float8Format.E4M3FN));
    }

    @Test
    void mx_multipliers_let_no_element_saturate() {
        TransformerEngineMxScale rule = new TransformerEngineMxScale();
        for (int bits = 0x01000000; bits < 0x7F000000; bits += 12_345) {
            float amax = Float.intBitsToFloat(bits);
            float scaled = amax * rule.quantScale(amax, Float8Format.E4M3FN, DType.F32);
            assertTrue(scaled <= 448, amax + " becomes " + scaled);
            assertTrue(scaled >= 223.9f || amax < 1e-35f, amax + " becomes " + scaled);
        }
    }

    @Test
    void the_scale_is_the_reciprocal_to_the_bit_even_where_it_is_subnormal() {
        assertEquals(0x1p-127f, QuantScaleRule.scale(0x1p127f));
        assertEquals(2.938736e-39f, QuantScaleRule.scale(Float.MAX_VALUE));
        assertEquals(0x1p127f, QuantScaleRule.scale(0x1p-127f));
    }

    @Test
    void torchao_divides_in_fp64_and_takes_logarithms_in_fp32() throws IOException {
        List<String> rows = Files.readAllLines(
                Path.of(System.getProperty("octet.testdata"), "golden", "training", "torchao_scales.csv"));
        for (String row : rows) {
            String[] hex = row.split(",", -1);
            float amax = Float.intBitsToFloat(Integer.parseUnsignedInt(hex[0], 16));
            int column = 1;
            for (Float8Format format : List.of(Float8Format.E4M3FN, Float8Format.E5M2)) {
                for (boolean powerOfTwo : new boolean[] {false, true}) {
                    float expected = Float.intBitsToFloat(Integer.parseUnsignedInt(hex[column++], 16));
                    float got = new TorchaoScale(powerOfTwo).quantScale(amax, format, DType.F32);
                    assertEquals(expected, got, () -> format + " " + powerOfTwo + " amax " + amax);
                }
            }
        }
    }

    @Test
    void torchao_gives_zeros_a_large_scale() {
        assertEquals(0x1.97742p48f, new TorchaoScale(false).quantScale(0, Float8Format.E4M3FN, DType.F32));
        assertEquals(0x1p48f, new TorchaoScale(true).quantScale(0, Float8Format.E4M3FN, DType.F32));
        assertEquals(0f, new TorchaoScale(false).quantScale(Float.POSITIVE_INFINITY, Float8Format.E4M3FN, DType.F32));
    }

    @Test
    void msamp_takes_powers_of_two_after_the_multiplier_before_with_its_oddities_or_mended() throws IOException {
        List<String> rows = Files.readAllLines(
                Path.of(System.getProperty("octet.testdata"), "golden", "training", "msamp_scales.csv"));
        for (String row : rows) {
            String[] hex = row.split(",", -1);
            float amax = Float.intBitsToFloat(Integer.parseUnsignedInt(hex[0], 16));
            float before = Float.intBitsToFloat(Integer.parseUnsignedInt(hex[1], 16));
            int column = 2;
            for (float max : new float[] {448, 57344, 65504}) {
                for (MsampScale rule : List.of(MsampScale.ORIGINAL, MsampScale.MENDED)) {
                    float expected = Float.intBitsToFloat(Integer.parseUnsignedInt(hex[column++], 16));
                    assertEquals(
                            expected, rule.quantScale(amax, before, max), () -> rule + " " + max + " amax " + amax);
                }
            }
        }
    }

    @Test
    void an_infinite_amax_turns_msamps_multiplier_over_and_keeps_the_mended_one() {
        assertEquals(0.125f, MsampScale.ORIGINAL.quantScale(Float.POSITIVE_INFINITY, 8, 448));
        assertEquals(8f, MsampScale.MENDED.quantScale(Float.POSITIVE_INFINITY, 8, 448));
        assertEquals(Float.POSITIVE_INFINITY, MsampScale.ORIGINAL.quantScale(1e-37f, 8, 448));
        assertEquals(0x1p126f, MsampScale.MENDED.quantScale(1e-37f, 8, 448));
    }
}
