package dev.octet.trainer.qat;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.quant.block.Granularity;
import dev.octet.quant.calibrate.Absmax;
import dev.octet.quant.calibrate.Percentile;
import dev.octet.quant.number.CodeGrid;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.statistics.LogHistogram;
import dev.octet.quant.statistics.TensorStatistics;
import dev.octet.trainer.op.qat.QuantizeNode;
import dev.octet.trainer.qat.FakeQuantizer.Place;
import dev.octet.trainer.qat.QuantizerSettings.Levels;
import dev.octet.trainer.qat.QuantizerSettings.Variant;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** Where the parameters of inputs start after calibration; those that files have, too, are compared with files by {@code CalibratedTrainingTest} of the module cli. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CalibratedStartTest {
    private static final float LEAST = -1;
    private static final float MOST = 6;

    /** -1, 2 and 6 were seen. */
    private static TensorStatistics seen() {
        long[] counts = new long[LogHistogram.BIN_COUNT];
        for (float x : new float[] {LEAST, 2, MOST}) {
            counts[LogHistogram.binOf(x)]++;
        }
        return new TensorStatistics(3, 0, 0, 0, LEAST, MOST, 41, LogHistogram.of(counts));
    }

    private static CalibratedStart start(Method method, CodeGrid grid) {
        QuantizerSettings settings = new QuantizerSettings(
                method,
                grid,
                new Granularity.PerTensor(),
                QuantizeNode.Count.SHARED,
                grid instanceof CodeGrid.Floats(Float8Format f) && f == Float8Format.E2M1 ? Levels.TWO : Levels.ONE,
                Variant.PAPER);
        return CalibratedStart.of(settings, seen(), new Absmax());
    }

    @Test
    void codes_of_lsq_plus_reach_from_the_least_to_the_greatest_number() {
        CodeGrid codes = CodeGrid.Integers.unsigned(4);
        CalibratedStart start = start(Method.LSQ_PLUS, codes);
        assertEquals(7f / 15, start.of(Place.SCALE));
        assertEquals(LEAST, start.of(Place.OFFSET));
        CalibratedStart signed = start(Method.LSQ_PLUS, CodeGrid.Integers.signed(4));
        assertEquals(LEAST + 8 * (7f / 15), signed.of(Place.OFFSET));
    }

    @Test
    void codes_without_a_sign_reach_to_the_greatest_number() {
        assertEquals(
                MOST / 255, start(Method.LSQ, CodeGrid.Integers.unsigned(8)).of(Place.SCALE));
    }

    @Test
    void codes_of_any_width_reach_to_the_greatest_magnitude() {
        for (int bits = 2; bits <= CodeGrid.MAX_BITS; bits++) {
            CodeGrid codes = CodeGrid.Integers.signed(bits);
            assertEquals(MOST / codes.high(), start(Method.LSQ, codes).of(Place.SCALE), codes.text());
        }
    }

    @Test
    void zero_has_a_code_of_its_own_in_range_learning() {
        for (int bits = 2; bits <= CodeGrid.MAX_BITS; bits++) {
            int steps = (1 << bits) - 1;
            CalibratedStart unsigned = start(Method.RANGE, CodeGrid.Integers.unsigned(bits));
            assertEquals(7f / steps, unsigned.of(Place.SCALE), bits + " bits");
            assertEquals((float) Math.rint(steps / 7.0), unsigned.of(Place.ZERO_POINT), bits + " bits");
            CalibratedStart signed = start(Method.RANGE, CodeGrid.Integers.signed(bits));
            assertEquals(
                    unsigned.of(Place.ZERO_POINT) - (1 << (bits - 1)), signed.of(Place.ZERO_POINT), bits + " bits");
        }
    }

    @Test
    void amaxes_are_the_clip() {
        CalibratedStart start = start(Method.MODELOPT_LSQ, new CodeGrid.Floats(Float8Format.E2M1));
        assertEquals(MOST, start.of(Place.AMAX));
        assertEquals(MOST, start.of(Place.PRE_AMAX));
        assertEquals(MOST / (6f * 448), start.of(Place.GLOBAL_SCALE));
    }

    @Test
    void what_a_calibrator_cuts_off_is_not_covered() {
        QuantizerSettings settings = new QuantizerSettings(
                Method.LSQ,
                CodeGrid.Integers.signed(8),
                new Granularity.PerTensor(),
                QuantizeNode.Count.SHARED,
                Levels.ONE,
                Variant.PAPER);
        Percentile two = new Percentile(66);
        double clip = two.clip(seen(), QuantType.INT8);
        assertEquals(
                (float) (clip / 127), CalibratedStart.of(settings, seen(), two).of(Place.SCALE));
        assertEquals(2, clip, 2 / 16.0); // the bin that 2 lies in
    }
}
