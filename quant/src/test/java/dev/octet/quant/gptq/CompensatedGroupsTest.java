package dev.octet.quant.gptq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.QuantizedTensor;
import dev.octet.quant.scale.ScaleRule;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.SplittableRandom;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** GPTQ of integers in groups against the squared errors of the outputs themselves. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CompensatedGroupsTest {
    private static final int IN = 96;
    private static final int OUT = 21;
    private static final int SIZE = 32;
    private static final int ROWS = 300;

    private final Arena arena = Arena.ofShared();
    private final float[][] inputs = inputs();
    private final SecondMoment moment = new SecondMoment(IN);

    CompensatedGroupsTest() {
        for (float[] row : inputs) {
            moment.add(MemorySegment.ofArray(row));
        }
    }

    @AfterEach
    void close() {
        arena.close();
    }

    private static float[][] inputs() {
        SplittableRandom random = new SplittableRandom(7);
        float[][] rows = new float[ROWS][IN];
        for (float[] row : rows) {
            float before = 0;
            for (int i = 0; i < IN; i++) {
                before = (float) (0.8 * before + random.nextGaussian());
                row[i] = before * (1 + i % 7);
            }
        }
        return rows;
    }

    private Tensor weight(boolean outIn) {
        Tensor w =
                Tensor.allocate(arena, new TensorSpec("w", DType.F32, outIn ? Shape.of(OUT, IN) : Shape.of(IN, OUT)));
        SplittableRandom random = new SplittableRandom(3);
        for (int o = 0; o < OUT; o++) {
            for (int i = 0; i < IN; i++) {
                long at = outIn ? (long) o * IN + i : (long) i * OUT + o;
                w.bytes().setAtIndex(Tensor.F32_LE, at, (float) (0.02 * random.nextGaussian() + 0.01));
            }
        }
        return w;
    }

    private static OperandSpec spec(QuantType type, boolean outIn, ScaleRule rule) {
        return OperandSpec.fromValues(type, new Granularity.PerGroup(outIn ? 1 : 0, SIZE))
                .scaledBy(rule, DType.F32);
    }

    /** The squared error of the outputs over all rows, from codes, scales and zero points as a reader takes them. */
    private double error(Tensor w, QuantizedTensor q, boolean outIn) {
        int groups = IN / SIZE;
        double sum = 0;
        for (float[] row : inputs) {
            for (int o = 0; o < OUT; o++) {
                double e = 0;
                for (int i = 0; i < IN; i++) {
                    long at = outIn ? (long) o * IN + i : (long) i * OUT + o;
                    long scale = outIn ? (long) o * groups + i / SIZE : (long) (i / SIZE) * OUT + o;
                    int code = q.codes().get(ValueLayout.JAVA_BYTE, at);
                    assertTrue(code >= q.type().lowest() && code <= q.type().highest());
                    double value = (double) (code - q.zeroPointAt(scale)) * q.scaleAt(scale);
                    e += row[i] * (w.bytes().getAtIndex(Tensor.F32_LE, at) - value);
                }
                sum += e * e;
            }
        }
        return sum;
    }

    @ParameterizedTest
    @CsvSource({"INT4, true", "INT4, false", "INT4_ASYMMETRIC, true", "INT4_ASYMMETRIC, false", "INT8, true"})
    void groups_are_compensated_in_both_layouts(QuantType type, boolean outIn) {
        Tensor w = weight(outIn);
        OperandSpec spec = spec(type, outIn, new ScaleRule.MseRule(0.5f, 1, 48));
        GptqResult.Done done = assertInstanceOf(
                GptqResult.Done.class,
                Gptq.parallel(2).quantizeGroups(w, outIn, moment, spec, GptqOptions.defaults(), arena));
        double found = error(w, done.tensor(), outIn);
        // the moment's error is of codes times scales in F32, each off by a part in 2^24 of a weight that is some 15
        // steps
        assertEquals(done.error(), found, 1e-5 * found);
        // of inputs whose neighbours are alike GPTQ takes half away; without compensation nothing is
        assertTrue(done.error() < 0.7 * done.nearestError(), done.error() + " of " + done.nearestError());
    }

    @Test
    void searched_scales_and_zero_points_each_lose_less_where_inputs_are_independent() {
        Tensor w = weight(true);
        SecondMoment independent = new SecondMoment(IN);
        for (int i = 0; i < IN; i++) {
            float[] row = new float[IN];
            row[i] = 1 + i % 7;
            independent.add(MemorySegment.ofArray(row));
        }
        Gptq gptq = Gptq.sequential();
        double[] errors = new double[3];
        OperandSpec[] specs = {
            spec(QuantType.INT4, true, new ScaleRule.AmaxRule()),
            spec(QuantType.INT4, true, new ScaleRule.MseRule(0.5f, 1, 48)),
            spec(QuantType.INT4_ASYMMETRIC, true, new ScaleRule.MseRule(0.5f, 1, 48))
        };
        for (int i = 0; i < specs.length; i++) {
            errors[i] = ((GptqResult.Done)
                            gptq.quantizeGroups(w, true, independent, specs[i], GptqOptions.defaults(), arena))
                    .nearestError();
        }
        assertTrue(errors[1] < errors[0], errors[1] + " " + errors[0]);
        assertTrue(errors[2] < errors[1], errors[2] + " " + errors[1]);
    }

    @Test
    void the_bytes_are_the_same_on_any_number_of_threads() {
        Tensor w = weight(false);
        OperandSpec spec = spec(QuantType.INT4, false, new ScaleRule.MseRule(0.5f, 1, 48));
        GptqResult.Done one = (GptqResult.Done)
                Gptq.sequential().quantizeGroups(w, false, moment, spec, GptqOptions.defaults(), arena);
        GptqResult.Done three = (GptqResult.Done)
                Gptq.parallel(3).quantizeGroups(w, false, moment, spec, GptqOptions.defaults(), arena);
        assertEquals(-1, one.tensor().codes().mismatch(three.tensor().codes()));
        assertEquals(
                -1, one.tensor().scale().bytes().mismatch(three.tensor().scale().bytes()));
    }

    @Test
    void groups_of_eight_bits_keep_within_the_bound_where_that_is_asked_for() {
        Tensor w = weight(true);
        OperandSpec spec = spec(QuantType.INT8, true, new ScaleRule.AmaxRule());
        GptqResult.Done free = (GptqResult.Done)
                Gptq.sequential().quantizeGroups(w, true, moment, spec, GptqOptions.defaults(), arena);
        GptqResult.Done bounded = (GptqResult.Done) Gptq.sequential()
                .quantizeGroups(w, true, moment, spec, GptqOptions.defaults().withBoundedPairs(), arena);
        assertTrue(BoundedPairs.beyond(free.tensor(), true) > 0);
        assertEquals(0, BoundedPairs.beyond(bounded.tensor(), true));
    }

    @Test
    void a_weight_that_is_not_finite_is_refused_by_its_place() {
        Tensor w = weight(true);
        w.bytes().setAtIndex(Tensor.F32_LE, 2L * IN + 5, Float.NaN);
        OperandSpec spec = spec(QuantType.INT4, true, new ScaleRule.AmaxRule());
        GptqResult.Refused refused = assertInstanceOf(
                GptqResult.Refused.class,
                Gptq.sequential().quantizeGroups(w, true, moment, spec, GptqOptions.defaults(), arena));
        assertEquals("the weight from input 5 to output 2 is NaN", refused.reason());
    }

    @Test
    void groups_that_do_not_divide_the_inputs_or_lie_along_the_outputs_are_refused() {
        Tensor w = weight(true);
        OperandSpec across = spec(QuantType.INT4, false, new ScaleRule.AmaxRule());
        OperandSpec uneven = OperandSpec.fromValues(QuantType.INT4, new Granularity.PerGroup(1, 40));
        for (OperandSpec spec : new OperandSpec[] {across, uneven}) {
            assertThrows(
                    IllegalArgumentException.class,
                    () -> Gptq.sequential().quantizeGroups(w, true, moment, spec, GptqOptions.defaults(), arena));
        }
    }
}
