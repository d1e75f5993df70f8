package dev.octet.quant.cast;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.scale.AffineScale;
import dev.octet.quant.scale.ScaleRule;
import dev.octet.quant.scale.ScaleRule.AmaxRule;
import dev.octet.quant.scale.ScaleRule.Exponent;
import dev.octet.quant.scale.ScaleRule.MxRule;
import dev.octet.quant.scale.ScaleRule.PowerOfTwoRule;
import dev.octet.quant.scale.ScaleRule.Rounding;
import dev.octet.quant.scale.StoredScale;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Octet's numerics for checkpoints against codes and scales that other code computed. */
@Tag("twins")
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class BlockCastGoldenTest {
    private static Stream<BlockGolden> cases() {
        return BlockGolden.all();
    }

    private static Stream<BlockGolden> casesWithRule() {
        return cases().filter(c -> c.codes() == QuantType.E4M3FN);
    }

    private static Stream<BlockGolden> asymmetric() {
        return cases().filter(c -> c.codes() == QuantType.INT8_ASYMMETRIC);
    }

    private static ScaleRule rule(BlockGolden golden) {
        return switch (golden.scheme()) {
            case "block-ue8m0" -> new PowerOfTwoRule(Rounding.UP);
            case "mxfp8" -> new MxRule(Exponent.CEIL);
            case "mxfp8-ct" -> new MxRule(Exponent.COMPRESSED_TENSORS);
            default -> new AmaxRule();
        };
    }

    private static DType scaleType(BlockGolden golden) {
        return switch (golden.text("scale")) {
            case "BF16" -> DType.BF16;
            case "E8M0" -> DType.F8_E8M0;
            default -> DType.F32;
        };
    }

    private static float at(MemorySegment floats, long index) {
        return floats.get(Tensor.F32_LE, index * Float.BYTES);
    }

    @ParameterizedTest
    @MethodSource("casesWithRule")
    void scales_are_the_expected_numbers(BlockGolden golden) {
        try (Arena arena = Arena.ofConfined()) {
            Tensor source = golden.source(arena);
            MemorySegment expected = golden.tensor("multiplier", arena).bytes();
            ScaleRuns tile = golden.tile();
            MemorySegment amax = arena.allocate(tile.scaleCount() * Float.BYTES);
            for (int t = 0; t < golden.tiles(); t++) {
                BlockCast.best().amax(source.dtype(), golden.part(source.bytes(), t), tile, amax);
                for (long s = 0; s < tile.scaleCount(); s++) {
                    float scale = rule(golden).scale(at(amax, s), Float8Format.E4M3FN);
                    float stored = StoredScale.round(scale, scaleType(golden));
                    assertEquals(at(golden.part(expected, t), s), stored, "matrix " + t + ", scale " + s);
                }
            }
        }
    }

    @ParameterizedTest
    @MethodSource("casesWithRule")
    void scales_are_stored_as_the_expected_bytes(BlockGolden golden) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment multipliers = golden.tensor("multiplier", arena).bytes();
            MemorySegment expected = golden.tensor("scale", arena).bytes();
            MemorySegment stored = arena.allocate(expected.byteSize());
            for (long s = 0; s < multipliers.byteSize() / Float.BYTES; s++) {
                StoredScale.set(scaleType(golden), stored, s, at(multipliers, s));
            }
            assertEquals(-1, stored.mismatch(expected));
        }
    }

    @ParameterizedTest
    @MethodSource("cases")
    void codes_are_the_expected_bytes(BlockGolden golden) {
        assertCodes(golden, ElementCast.best());
    }

    @ParameterizedTest
    @MethodSource("cases")
    void codes_of_the_reference_are_the_expected_bytes(BlockGolden golden) {
        assertCodes(golden, new ElementCastReference());
    }

    private static void assertCodes(BlockGolden golden, ElementCast twin) {
        try (Arena arena = Arena.ofConfined()) {
            BlockCast cast = new BlockCast(twin, Overflow.SATURATE);
            ScaleRuns tile = golden.tile();
            Tensor source = golden.source(arena);
            MemorySegment expected = golden.tensor("codes", arena).bytes();
            MemorySegment scales = golden.tensor("multiplier", arena).bytes();
            MemorySegment codes = arena.allocate(golden.codes().bytes(tile.elements()));
            for (int t = 0; t < golden.tiles(); t++) {
                MemorySegment x = golden.part(source.bytes(), t);
                MemorySegment s = golden.part(scales, t);
                if (golden.codes() == QuantType.INT8_ASYMMETRIC) {
                    MemorySegment zero = golden.tensor("zero_point", arena).bytes();
                    cast.encodeAffine(
                            QuantType.INT8_ASYMMETRIC, source.dtype(), x, tile, s, golden.part(zero, t), codes);
                } else {
                    cast.encode(golden.codes(), source.dtype(), x, tile, s, codes);
                }
                assertEquals(-1, codes.mismatch(golden.part(expected, t)), "matrix " + t);
            }
        }
    }

    @ParameterizedTest
    @MethodSource("asymmetric")
    void ranges_of_integers_give_the_expected_scales_and_zero_points(BlockGolden golden) {
        try (Arena arena = Arena.ofConfined()) {
            ScaleRuns tile = golden.tile();
            Tensor source = golden.source(arena);
            MemorySegment expectedScales = golden.tensor("multiplier", arena).bytes();
            MemorySegment expectedZeros = golden.tensor("zero_point", arena).bytes();
            MemorySegment scales = arena.allocate(tile.scaleCount() * Float.BYTES);
            MemorySegment zeros = arena.allocate(tile.scaleCount());
            for (int t = 0; t < golden.tiles(); t++) {
                AffineScale.of(
                        BlockCast.best().ranges(source.dtype(), golden.part(source.bytes(), t), tile),
                        QuantType.INT8_ASYMMETRIC,
                        DType.F32,
                        scales,
                        zeros);
                assertEquals(-1, scales.mismatch(golden.part(expectedScales, t)), "scales of matrix " + t);
                assertEquals(-1, zeros.mismatch(golden.part(expectedZeros, t)), "zero points of matrix " + t);
            }
        }
    }

    @ParameterizedTest
    @MethodSource("cases")
    void dequantised_F32_has_the_expected_bytes(BlockGolden golden) throws NoSuchAlgorithmException {
        assertDequantised(golden, DType.F32);
    }

    @ParameterizedTest
    @MethodSource("cases")
    void dequantised_BF16_has_the_expected_bytes(BlockGolden golden) throws NoSuchAlgorithmException {
        assertDequantised(golden, DType.BF16);
    }

    @ParameterizedTest
    @MethodSource("cases")
    void dequantised_F16_has_the_expected_bytes(BlockGolden golden) throws NoSuchAlgorithmException {
        assertDequantised(golden, DType.F16);
    }

    private static void assertDequantised(BlockGolden golden, DType type) throws NoSuchAlgorithmException {
        try (Arena arena = Arena.ofConfined()) {
            BlockCast cast = BlockCast.best();
            ScaleRuns tile = golden.tile();
            MemorySegment codes = golden.tensor("codes", arena).bytes();
            MemorySegment scales = golden.tensor("multiplier", arena).bytes();
            MemorySegment values = arena.allocate(tile.elements() * type.bits() / 8);
            MessageDigest sum = MessageDigest.getInstance("SHA-256");
            for (int t = 0; t < golden.tiles(); t++) {
                MemorySegment c = golden.part(codes, t);
                MemorySegment s = golden.part(scales, t);
                if (golden.codes() == QuantType.INT8_ASYMMETRIC) {
                    MemorySegment zero = golden.tensor("zero_point", arena).bytes();
                    cast.decodeAffine(c, tile, s, golden.part(zero, t), type, values);
                } else {
                    cast.decode(golden.codes(), c, tile, s, type, values);
                }
                sum.update(values.asByteBuffer());
            }
            assertEquals(golden.dequantised(type), HexFormat.of().formatHex(sum.digest()));
        }
    }
}
