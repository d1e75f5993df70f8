package dev.octet.quant.gptq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.cast.BlockCast;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.AffineScale;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CompensatedRowsTest {
    private static final int IN = 128;
    private static final int OUT = 40;
    private static final BlockCast CAST = BlockCast.best();

    /** Inputs of which neighbours are alike, so that errors can be compensated. */
    private static SecondMoment moment() {
        SecondMoment moment = new SecondMoment(IN);
        SplittableRandom random = new SplittableRandom(7);
        float[] row = new float[IN];
        for (int r = 0; r < 300; r++) {
            float before = 0;
            for (int i = 0; i < IN; i++) {
                before = (float) (0.8 * before + random.nextGaussian());
                row[i] = before;
            }
            moment.add(MemorySegment.ofArray(row));
        }
        return moment;
    }

    private static Tensor weight(Arena arena) {
        Tensor weight = Tensor.allocate(arena, new TensorSpec("w", DType.F32, Shape.of(OUT, IN)));
        SplittableRandom random = new SplittableRandom(3);
        for (long i = 0; i < (long) OUT * IN; i++) {
            weight.bytes().setAtIndex(Tensor.F32_LE, i, (float) (0.02 * random.nextGaussian()));
        }
        return weight;
    }

    static Stream<OperandSpec> specs() {
        Granularity channel = new Granularity.PerChannel(-2);
        return Stream.of(
                OperandSpec.fromValues(QuantType.E4M3FN, new Granularity.PerTensor()),
                OperandSpec.fromValues(QuantType.E4M3FN, channel),
                OperandSpec.fromValues(QuantType.E4M3FN, new Granularity.PerBlock(16, 32)),
                OperandSpec.fromValues(QuantType.E4M3FN, new Granularity.Mx(32)),
                OperandSpec.fromValues(QuantType.E2M1, new Granularity.PerGroup(-1, 16)),
                OperandSpec.fromValues(QuantType.INT8, channel),
                OperandSpec.fromValues(QuantType.INT8_ASYMMETRIC, channel),
                OperandSpec.fromValues(QuantType.INT4, new Granularity.PerGroup(-1, 32)),
                OperandSpec.fromValues(QuantType.INT4_ASYMMETRIC, new Granularity.PerGroup(-1, 64)));
    }

    /** Scales of rounding to nearest, and room for codes. */
    private record Case(
            OperandSpec spec, ScaleRuns runs, MemorySegment scales, MemorySegment zeroPoints, MemorySegment codes) {
        static Case of(OperandSpec spec, MemorySegment values, long rows, Arena arena) {
            Blocks blocks = Blocks.of(Shape.of(rows, IN), spec.granularity());
            ScaleRuns runs = blocks.runs();
            MemorySegment scales = arena.allocate(runs.scaleCount() * Float.BYTES);
            MemorySegment zeroPoints = arena.allocate(runs.scaleCount());
            if (spec.type().hasZeroPoint()) {
                AffineScale.of(CAST.ranges(DType.F32, values, runs), spec.type(), DType.F32, scales, zeroPoints);
            } else {
                CAST.amax(DType.F32, values, runs, scales);
                for (long s = 0; s < runs.scaleCount(); s++) {
                    scales.setAtIndex(Tensor.F32_LE, s, spec.storedScale(scales.getAtIndex(Tensor.F32_LE, s)));
                }
            }
            return new Case(
                    spec, runs, scales, zeroPoints, arena.allocate(spec.type().bytes(runs.elements())));
        }

        CompensatedRows.Errors round(CompensatedRows rows, MemorySegment values) {
            return rows.round(spec.type(), values, runs, scales, spec.type().hasZeroPoint() ? zeroPoints : null, codes);
        }

        void nearest(MemorySegment values) {
            if (spec.type().hasZeroPoint()) {
                CAST.encodeAffine(spec.type(), DType.F32, values, runs, scales, zeroPoints, codes);
            } else {
                CAST.encode(spec.type(), DType.F32, values, runs, scales, codes);
            }
        }

        /** sum of e^T H e over the rows, by its definition. */
        double error(MemorySegment values, SecondMoment h, Arena arena) {
            MemorySegment back = arena.allocate(runs.elements() * Float.BYTES);
            if (spec.type().hasZeroPoint()) {
                CAST.decodeAffine(codes, runs, scales, zeroPoints, DType.F32, back);
            } else {
                CAST.decode(spec.type(), codes, runs, scales, DType.F32, back);
            }
            double sum = 0;
            for (long r = 0; r < runs.elements() / IN; r++) {
                double[] e = new double[IN];
                for (int i = 0; i < IN; i++) {
                    e[i] = (double) values.getAtIndex(Tensor.F32_LE, r * IN + i)
                            - back.getAtIndex(Tensor.F32_LE, r * IN + i);
                }
                for (int i = 0; i < IN; i++) {
                    for (int j = 0; j < IN; j++) {
                        sum += e[i] * h.get(i, j) * e[j];
                    }
                }
            }
            return sum;
        }
    }

    @ParameterizedTest
    @MethodSource("specs")
    void errors_are_those_of_the_codes_and_well_below_those_of_rounding_to_nearest(OperandSpec spec) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment values = weight(arena).bytes();
            SecondMoment h = moment();
            CompensatedRows rows = CompensatedRows.of(h, GptqOptions.defaults()).orElseThrow();
            Case compensated = Case.of(spec, values, OUT, arena);
            CompensatedRows.Errors errors = compensated.round(rows, values);
            Case nearest = Case.of(spec, values, OUT, arena);
            nearest.nearest(values);
            // both are sums of 128 x 128 products in double precision, of errors that are differences of F32 numbers;
            // the damping is taken off again
            assertEquals(compensated.error(values, h, arena), errors.error(), 1e-9 * errors.nearest());
            assertEquals(nearest.error(values, h, arena), errors.nearest(), 1e-9 * errors.nearest());
            // of inputs whose neighbours are alike GPTQ takes half away; without compensation nothing is
            assertTrue(errors.error() < 0.7 * errors.nearest(), errors.toString());
        }
    }

    /** Those of which a part has the scales of the whole: all but one scale for the tensor. */
    static Stream<OperandSpec> specsOfParts() {
        return specs().filter(s -> !s.perTensor());
    }

    @ParameterizedTest
    @MethodSource("specsOfParts")
    void parts_of_a_weight_have_the_codes_of_the_whole(OperandSpec spec) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment values = weight(arena).bytes();
            CompensatedRows rows =
                    CompensatedRows.of(moment(), GptqOptions.defaults()).orElseThrow();
            Case whole = Case.of(spec, values, OUT, arena);
            whole.round(rows, values);
            MemorySegment lower = values.asSlice(32L * IN * Float.BYTES);
            Case part = Case.of(spec, lower, OUT - 32, arena);
            part.round(rows, lower);
            long at = spec.type().bytes(32L * IN);
            assertEquals(-1, whole.codes.asSlice(at).mismatch(part.codes), spec.toString());
        }
    }

    @Test
    void with_one_scale_for_each_channel_the_codes_are_those_of_whole_weights() {
        OperandSpec spec = OperandSpec.fromValues(QuantType.E4M3FN, new Granularity.PerChannel(-2));
        try (Arena arena = Arena.ofConfined()) {
            Tensor weight = weight(arena);
            SecondMoment h = moment();
            GptqResult whole = Gptq.sequential().quantize(weight, true, h, spec, GptqOptions.defaults(), arena);
            Case tile = Case.of(spec, weight.bytes(), OUT, arena);
            CompensatedRows.Errors errors =
                    tile.round(CompensatedRows.of(h, GptqOptions.defaults()).orElseThrow(), weight.bytes());
            assertTrue(whole instanceof GptqResult.Done);
            GptqResult.Done done = (GptqResult.Done) whole;
            assertEquals(-1, done.tensor().codes().mismatch(tile.codes));
            // sums of the same costs in another order
            assertEquals(done.error(), errors.error(), 1e-12 * done.error());
        }
    }
}
