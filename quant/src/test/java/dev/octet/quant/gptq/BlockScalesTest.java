package dev.octet.quant.gptq;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.ModelFile;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.cast.BlockCast;
import dev.octet.quant.cast.Nibbles;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.GlobalScale;
import dev.octet.quant.scale.ScaleRule;
import dev.octet.quant.scale.ScaleSearch;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Searched scales next to those of {@code testdata/make/scale_search.py}, byte by byte. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class BlockScalesTest {
    private static final int ROWS = 24;
    private static final int COLS = 64;
    private static final OperandSpec NVFP4 = OperandSpec.fromValues(QuantType.E2M1, new Granularity.PerGroup(-1, 16))
            .scaledBy(new ScaleRule.AmaxRule(), DType.F8_E4M3FN);
    private static final OperandSpec MXFP4 = OperandSpec.fromValues(QuantType.E2M1, new Granularity.Mx(32))
            .scaledBy(new ScaleRule.MxRule(ScaleRule.Exponent.COMPRESSED_TENSORS), DType.F8_E8M0);
    private static final OperandSpec INT4 = OperandSpec.fromValues(QuantType.INT4, new Granularity.PerGroup(-1, 32))
            .scaledBy(new ScaleRule.AmaxRule(), DType.BF16);
    private static final OperandSpec ASYMMETRIC = OperandSpec.fromValues(
                    QuantType.INT4_ASYMMETRIC, new Granularity.PerGroup(-1, 32))
            .scaledBy(new ScaleRule.AmaxRule(), DType.BF16);

    private static ModelFile golden;

    @BeforeAll
    static void open() throws IOException {
        golden = ModelFile.open(Path.of(System.getProperty("octet.testdata"), "golden/scale-search.safetensors"));
    }

    @AfterAll
    static void close() {
        golden.close();
    }

    private static byte[] bytes(String name) {
        return golden.model().tensor(name).bytes().toArray(ValueLayout.JAVA_BYTE);
    }

    private static double @Nullable [] energies(ScaleSearch search) {
        return search == ScaleSearch.HESSIAN
                ? golden.model().tensor("energies").bytes().toArray(Tensor.F64_LE)
                : null;
    }

    /** What rounding with searched scales gives: multipliers, E4M3 codes of two levels, zero points, codes one to a byte, decoded values. */
    @SuppressWarnings("ArrayRecordComponent") // handed over, never compared
    private record Rounded(float[] scales, byte[] stored, byte[] zeroPoints, byte[] codes, float[] values) {}

    private static Rounded round(OperandSpec scheme, ScaleSearch search, int fromRow, int toRow) {
        BlockScales how = new BlockScales(scheme, search, energies(search));
        Tensor w = golden.model().tensor("w");
        BlockCast cast = BlockCast.best();
        ScaleRuns runs =
                Blocks.of(Shape.of(toRow - fromRow, COLS), scheme.granularity()).runs();
        try (Arena arena = Arena.ofConfined()) {
            long bytes = runs.elements() * Float.BYTES;
            MemorySegment floats = w.bytes().asSlice((long) fromRow * COLS * Float.BYTES, bytes);
            MemorySegment scales = arena.allocate(runs.scaleCount() * Float.BYTES, 64);
            MemorySegment stored = arena.allocate(runs.scaleCount());
            MemorySegment points = arena.allocate(runs.scaleCount());
            MemorySegment codes = arena.allocate(scheme.type().bytes(runs.elements()), 64);
            MemorySegment decoded = arena.allocate(bytes, 64);
            BlockScales.Values values = new BlockScales.Values(DType.F32, floats, runs, scales);
            if (scheme.type().hasZeroPoint()) {
                how.affine(values, cast.ranges(DType.F32, floats, runs), points);
                cast.encodeAffine(scheme.type(), DType.F32, floats, runs, scales, points, codes);
                cast.decodeAffine(codes, runs, scales, points, DType.F32, decoded);
            } else {
                cast.amax(DType.F32, floats, runs, scales);
                if (scheme.twoLevels()) {
                    how.twoLevels(values, how.global(amax(w), GlobalScale.Direction.DIVISOR), stored);
                } else {
                    how.oneLevel(values);
                }
                cast.encode(scheme.type(), DType.F32, floats, runs, scales, codes);
                cast.decode(scheme.type(), codes, runs, scales, DType.F32, decoded);
            }
            MemorySegment spread = codes;
            if (scheme.type() == QuantType.E2M1) {
                spread = arena.allocate(runs.elements(), 64);
                Nibbles.unpack(codes, spread);
            }
            return new Rounded(
                    scales.toArray(Tensor.F32_LE),
                    stored.toArray(ValueLayout.JAVA_BYTE),
                    points.toArray(ValueLayout.JAVA_BYTE),
                    spread.toArray(ValueLayout.JAVA_BYTE),
                    decoded.toArray(Tensor.F32_LE));
        }
    }

    private static Rounded round(OperandSpec scheme, ScaleSearch search) {
        return round(scheme, search, 0, ROWS);
    }

    private static float amax(Tensor w) {
        float amax = 0;
        for (float v : w.toFloats()) {
            amax = Math.max(amax, Math.abs(v));
        }
        return amax;
    }

    @ParameterizedTest
    @EnumSource(
            value = ScaleSearch.class,
            names = {"MSE", "HESSIAN", "FOUR_OVER_SIX"})
    void NVFP4_has_the_bytes_of_the_reference(ScaleSearch search) {
        Rounded rounded = round(NVFP4, search);
        String name = "nvfp4." + search.label();
        assertArrayEquals(bytes(name + ".scales"), rounded.stored());
        assertArrayEquals(bytes(name + ".codes"), rounded.codes());
        float global = golden.model().tensor(name + ".global").toFloats()[0];
        GlobalScale expected = new BlockScales(NVFP4, search, null)
                .global(amax(golden.model().tensor("w")), GlobalScale.Direction.DIVISOR);
        assertEquals(global, expected.value());
    }

    @ParameterizedTest
    @EnumSource(
            value = ScaleSearch.class,
            names = {"MSE", "HESSIAN"})
    void MXFP4_has_the_bytes_of_the_reference(ScaleSearch search) {
        Rounded rounded = round(MXFP4, search);
        byte[] exponents = new byte[rounded.scales().length];
        for (int i = 0; i < exponents.length; i++) {
            exponents[i] = (byte) Float8Format.E8M0.encode(rounded.scales()[i], Overflow.SATURATE);
        }
        assertArrayEquals(bytes("mxfp4." + search.label() + ".scales"), exponents);
        assertArrayEquals(bytes("mxfp4." + search.label() + ".codes"), rounded.codes());
    }

    @ParameterizedTest
    @EnumSource(
            value = ScaleSearch.class,
            names = {"MSE", "HESSIAN"})
    void INT4_groups_have_the_bytes_of_the_reference(ScaleSearch search) {
        Rounded rounded = round(INT4, search);
        assertArrayEquals(
                golden.model().tensor("int4." + search.label() + ".scales").toFloats(), rounded.scales());
        assertArrayEquals(bytes("int4." + search.label() + ".codes"), rounded.codes());
        Rounded asymmetric = round(ASYMMETRIC, search);
        String name = "int4-asymmetric." + search.label();
        assertArrayEquals(golden.model().tensor(name + ".scales").toFloats(), asymmetric.scales());
        assertArrayEquals(bytes(name + ".points"), asymmetric.zeroPoints());
        assertArrayEquals(bytes(name + ".codes"), asymmetric.codes());
    }

    @ParameterizedTest
    @EnumSource(ScaleSearch.class)
    void parts_of_a_weight_have_the_bytes_of_the_whole(ScaleSearch search) {
        Rounded whole = round(NVFP4, search);
        Rounded part = round(NVFP4, search, 5, 12);
        byte[] expected = new byte[7 * COLS];
        System.arraycopy(whole.codes(), 5 * COLS, expected, 0, expected.length);
        assertArrayEquals(expected, part.codes());
    }

    private static double error(Rounded rounded, double @Nullable [] energies) {
        float[] w = golden.model().tensor("w").toFloats();
        double sum = 0;
        for (int i = 0; i < w.length; i++) {
            double e = (double) w[i] - rounded.values()[i];
            sum += (energies == null ? 1 : energies[i % COLS]) * e * e;
        }
        return sum;
    }

    @ParameterizedTest
    @ValueSource(strings = {"nvfp4", "mxfp4", "int4", "int4-asymmetric"})
    void each_search_loses_least_by_its_own_measure(String name) {
        OperandSpec scheme = switch (name) {
            case "nvfp4" -> NVFP4;
            case "mxfp4" -> MXFP4;
            case "int4" -> INT4;
            default -> ASYMMETRIC;
        };
        double[] energies = energies(ScaleSearch.HESSIAN);
        Rounded amax = round(scheme, ScaleSearch.AMAX);
        Rounded mse = round(scheme, ScaleSearch.MSE);
        Rounded hessian = round(scheme, ScaleSearch.HESSIAN);
        assertTrue(error(mse, null) < error(amax, null));
        assertTrue(error(mse, null) < error(hessian, null));
        assertTrue(error(hessian, energies) < error(amax, energies));
        assertTrue(error(hessian, energies) < error(mse, energies));
    }

    @Test
    void four_over_six_loses_less_than_six_alone() {
        assertTrue(error(round(NVFP4, ScaleSearch.FOUR_OVER_SIX), null) < error(round(NVFP4, ScaleSearch.AMAX), null));
    }

    @Test
    void a_block_of_zeros_keeps_the_scale_that_it_has_without_a_search() {
        for (ScaleSearch search : ScaleSearch.values()) {
            assertEquals(
                    Float8Format.E4M3FN.encode(1, Overflow.SATURATE),
                    round(NVFP4, search).stored()[3 * 4 + 1]);
        }
    }
}
