package dev.octet.quant.gptq;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.Quantizer;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.ScaleRule;
import dev.octet.quant.scale.StoredScale;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.SplittableRandom;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class WeightedScalesTest {
    private static final ScaleRule.MseRule RULE = new ScaleRule.MseRule(0.5f, 1, 12);
    private static final int OUT = 6;
    private static final int IN = 25;

    private final Arena arena = Arena.ofConfined();
    private final Tensor weight = Samples.weight(arena, OUT, IN, 1);
    private final double[] energies =
            new SplittableRandom(1).doubles(IN).map(u -> Math.pow(u, 8) * 100).toArray();

    @AfterEach
    void free() {
        arena.close();
    }

    private static OperandSpec spec(Granularity granularity, DType scaleType) {
        return OperandSpec.fromValues(Float8Format.E4M3FN, granularity).scaledBy(RULE, scaleType);
    }

    /** Weighted squared error of some output channels with one scale, by the definition. */
    private double error(int firstChannel, int count, float scale) {
        double sum = 0;
        for (int c = firstChannel; c < firstChannel + count; c++) {
            for (int i = 0; i < IN; i++) {
                float w = weight.toFloats()[c * IN + i];
                int code = Float8Format.E4M3FN.encode(w / scale, Overflow.SATURATE);
                double e = (double) w - Float8Format.E4M3FN.decode(code) * scale;
                sum += energies[i] * e * e;
            }
        }
        return sum;
    }

    private float best(int firstChannel, int count, DType scaleType) {
        float amax = 0;
        for (int i = firstChannel * IN; i < (firstChannel + count) * IN; i++) {
            amax = Math.max(amax, Math.abs(weight.toFloats()[i]));
        }
        float best = StoredScale.round(amax / 448 * RULE.multiple(RULE.steps() - 1), scaleType);
        for (int step = RULE.steps() - 2; step >= 0; step--) {
            float scale = StoredScale.round(amax / 448 * RULE.multiple(step), scaleType);
            best = error(firstChannel, count, scale) < error(firstChannel, count, best) ? scale : best;
        }
        return best;
    }

    @ParameterizedTest
    @EnumSource(
            value = DType.class,
            names = {"F32", "BF16", "F8_E8M0"})
    void each_scale_is_the_best_of_those_tried(DType scaleType) {
        Tensor scales =
                WeightedScales.find(weight, true, energies, spec(new Granularity.PerChannel(0), scaleType), 2, arena);
        for (int c = 0; c < OUT; c++) {
            assertEquals(best(c, 1, scaleType), StoredScale.get(scaleType, scales.bytes(), c));
        }
        Tensor one =
                WeightedScales.find(weight, true, energies, spec(new Granularity.PerTensor(), scaleType), 1, arena);
        assertEquals(best(0, OUT, scaleType), StoredScale.get(scaleType, one.bytes(), 0));
    }

    @Test
    void a_common_factor_of_the_energies_and_the_layout_change_nothing() {
        OperandSpec perRow = spec(new Granularity.PerChannel(0), DType.F32);
        OperandSpec perColumn = spec(new Granularity.PerChannel(1), DType.F32);
        double[] larger = Arrays.stream(energies).map(e -> e * 1024).toArray();
        float[] expected =
                WeightedScales.find(weight, true, energies, perRow, 1, arena).toFloats();
        assertArrayEquals(
                expected,
                WeightedScales.find(weight, true, larger, perRow, 1, arena).toFloats());
        Tensor columns = Samples.transposed(weight, arena);
        assertArrayEquals(
                expected,
                WeightedScales.find(columns, false, energies, perColumn, 1, arena)
                        .toFloats());
    }

    @Test
    void equal_energies_give_the_scales_of_the_quantiser_and_unequal_ones_do_not() {
        OperandSpec perRow = spec(new Granularity.PerChannel(0), DType.F32);
        double[] equal = new double[IN];
        Arrays.fill(equal, 1);
        float[] plain = Quantizer.sequential()
                .quantize(weight, perRow, arena)
                .orElseThrow()
                .scale()
                .toFloats();
        assertArrayEquals(
                plain,
                WeightedScales.find(weight, true, equal, perRow, 1, arena).toFloats());
        assertFalse(Arrays.equals(
                plain,
                WeightedScales.find(weight, true, energies, perRow, 1, arena).toFloats()));
    }

    @Test
    void arguments_that_do_not_fit_are_refused() {
        OperandSpec perRow = spec(new Granularity.PerChannel(0), DType.F32);
        assertThrows(
                IllegalArgumentException.class,
                () -> WeightedScales.find(weight, true, new double[IN + 1], perRow, 1, arena));
        weight.bytes().set(Tensor.F32_LE, 8, Float.NaN);
        assertThrows(
                IllegalArgumentException.class, () -> WeightedScales.find(weight, true, energies, perRow, 1, arena));
    }
}
