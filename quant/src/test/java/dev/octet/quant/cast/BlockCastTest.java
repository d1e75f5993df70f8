package dev.octet.quant.cast;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.Quantizer;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.AffineScale;
import dev.octet.quant.scale.QuantizedTensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

@Tag("twins")
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class BlockCastTest {
    private static final List<DType> FLOATS = List.of(DType.F32, DType.BF16, DType.F16);
    private static final List<Granularity> GRANULARITIES = List.of(
            new Granularity.PerTensor(),
            new Granularity.PerChannel(-2),
            new Granularity.PerChannel(-1),
            new Granularity.PerToken(),
            new Granularity.PerGroup(-1, 1),
            new Granularity.PerGroup(-1, 3),
            new Granularity.PerGroup(-1, 16),
            new Granularity.PerGroup(-1, 48),
            new Granularity.PerGroup(-1, 64),
            new Granularity.PerGroup(-2, 3),
            new Granularity.Mx(32),
            new Granularity.PerBlock(128, 128),
            new Granularity.PerBlock(2, 32),
            new Granularity.PerBlock(3, 7));
    private static final long[][] SHAPES = {
        {1, 1}, {3, 13}, {5, 31}, {4, 32}, {3, 33}, {2, 127}, {3, 128}, {130, 33}, {3, 129}, {5, 207}, {1, 4098},
        {0, 5}, {5, 0}
    };

    static Stream<ElementCast> twins() {
        return Stream.of(ElementCast.best(), new CastArrays(), new ElementCastScalar());
    }

    /** A tile of random elements, among them zeros of both signs, subnormal and very large ones, and scales, one of them zero. */
    private record Case(Blocks tile, DType type, MemorySegment source, MemorySegment scales, MemorySegment zeroPoints) {
        static Case random(Blocks tile, DType type, Arena arena) {
            SplittableRandom random = new SplittableRandom(tile.elements());
            MemorySegment source = arena.allocate(tile.elements() * type.bits() / 8);
            for (long i = 0; i < tile.elements(); i++) {
                Floats.set(type, source, i, random(random));
            }
            MemorySegment scales = arena.allocate(tile.scaleCount() * Float.BYTES);
            MemorySegment zeroPoints = arena.allocate(tile.scaleCount());
            for (long s = 0; s < tile.scaleCount(); s++) {
                float scale = s % 7 == 5 ? 0 : (float) (0.01 * Math.exp(random.nextGaussian()));
                scales.setAtIndex(Tensor.F32_LE, s, scale);
                zeroPoints.set(ValueLayout.JAVA_BYTE, s, (byte) random.nextInt());
            }
            return new Case(tile, type, source, scales, zeroPoints);
        }

        private static float random(SplittableRandom random) {
            float x = (float) random.nextGaussian();
            return switch (random.nextInt(20)) {
                case 0 -> 0f * x;
                case 1 -> x * 1e-6f;
                case 2 -> x * 1e4f;
                default -> x;
            };
        }

        private boolean affine(QuantType codes) {
            return codes.hasZeroPoint();
        }

        MemorySegment encode(BlockCast cast, QuantType codes) {
            MemorySegment result = MemorySegment.ofArray(new byte[(int) codes.bytes(tile.elements())]);
            if (affine(codes)) {
                cast.encodeAffine(codes, type, source, tile.runs(), scales, zeroPoints, result);
            } else {
                cast.encode(codes, type, source, tile.runs(), scales, result);
            }
            return result;
        }

        MemorySegment encodeByReference(QuantType codes) {
            MemorySegment result = MemorySegment.ofArray(new byte[(int) codes.bytes(tile.elements())]);
            BlockReference.encode(codes, type, source, tile, scales, affine(codes) ? zeroPoints : null, result);
            return result;
        }

        MemorySegment decode(BlockCast cast, QuantType codes, MemorySegment encoded) {
            MemorySegment result = MemorySegment.ofArray(new byte[(int) source.byteSize()]);
            if (affine(codes)) {
                cast.decodeAffine(encoded, tile.runs(), scales, zeroPoints, type, result);
            } else {
                cast.decode(codes, encoded, tile.runs(), scales, type, result);
            }
            return result;
        }

        MemorySegment decodeByReference(QuantType codes, MemorySegment encoded) {
            MemorySegment result = MemorySegment.ofArray(new byte[(int) source.byteSize()]);
            BlockReference.decode(codes, encoded, tile, scales, affine(codes) ? zeroPoints : null, type, result);
            return result;
        }

        @Override
        public String toString() {
            return tile + " " + type;
        }
    }

    private static Stream<Blocks> tiles() {
        return GRANULARITIES.stream().flatMap(g -> Stream.of(SHAPES).map(s -> Blocks.of(Shape.of(s[0], s[1]), g)));
    }

    @ParameterizedTest
    @EnumSource(QuantType.class)
    void codes_and_values_are_those_of_the_reference(QuantType codes) {
        tiles().forEach(tile -> {
            for (DType type : FLOATS) {
                try (Arena arena = Arena.ofConfined()) {
                    Case c = Case.random(tile, type, arena);
                    MemorySegment encoded = c.encodeByReference(codes);
                    MemorySegment decoded = c.decodeByReference(codes, encoded);
                    twins().map(cast -> new BlockCast(cast, Overflow.SATURATE)).forEach(cast -> {
                        assertEquals(-1, encoded.mismatch(c.encode(cast, codes)), c::toString);
                        assertEquals(-1, decoded.mismatch(c.decode(cast, codes, encoded)), c::toString);
                    });
                }
            }
        });
    }

    @ParameterizedTest
    @MethodSource("twins")
    void largest_magnitudes_are_those_of_the_reference_among_them_nan_and_infinity(ElementCast cast) {
        tiles().forEach(tile -> {
            for (DType type : FLOATS) {
                try (Arena arena = Arena.ofConfined()) {
                    Case c = Case.random(tile, type, arena);
                    assertAmax(c, cast);
                    plant(c, Float.NEGATIVE_INFINITY);
                    assertAmax(c, cast);
                    plant(c, Float.NaN);
                    assertAmax(c, cast);
                }
            }
        });
    }

    private static void plant(Case c, float special) {
        for (long i = 5; i < c.tile.elements(); i += 103) {
            Floats.set(c.type, c.source, i, special);
        }
    }

    private static void assertAmax(Case c, ElementCast cast) {
        MemorySegment expected = MemorySegment.ofArray(new byte[(int) c.scales.byteSize()]);
        MemorySegment actual =
                MemorySegment.ofArray(new byte[(int) c.scales.byteSize()]).fill((byte) 0x7F);
        BlockReference.amax(c.type, c.source, c.tile, expected);
        new BlockCast(cast, Overflow.SATURATE).amax(c.type, c.source, c.tile.runs(), actual);
        assertArrayEquals(expected.toArray(Tensor.F32_LE), actual.toArray(Tensor.F32_LE), c::toString);
    }

    /** All 65,536 elements of a 16-bit type; NaN and infinity made zeros. */
    private static MemorySegment allFinite(DType type) {
        MemorySegment all = MemorySegment.ofArray(new byte[1 << 17]);
        for (int bits = 0; bits < 1 << 16; bits++) {
            all.set(Tensor.I16_LE, bits * 2L, (short) bits);
            if (!Float.isFinite(Floats.get(type, all, bits))) {
                Floats.set(type, all, bits, 0);
            }
        }
        return all;
    }

    @ParameterizedTest
    @EnumSource(QuantType.class)
    void every_bf16_and_f16_has_the_code_of_the_reference(QuantType codes) {
        for (Granularity granularity :
                List.of(new Granularity.PerChannel(-2), new Granularity.Mx(32), new Granularity.PerGroup(-1, 16))) {
            Blocks tile = Blocks.of(Shape.of(256, 256), granularity);
            for (DType type : List.of(DType.BF16, DType.F16)) {
                try (Arena arena = Arena.ofConfined()) {
                    Case random = Case.random(tile, type, arena);
                    Case all = new Case(tile, type, allFinite(type), random.scales, random.zeroPoints);
                    MemorySegment expected = all.encodeByReference(codes);
                    twins().map(cast -> new BlockCast(cast, Overflow.SATURATE))
                            .forEach(cast ->
                                    assertEquals(-1, expected.mismatch(all.encode(cast, codes)), all::toString));
                }
            }
        }
    }

    @ParameterizedTest
    @EnumSource(
            value = DType.class,
            names = {"F32", "BF16", "F16"})
    void tiles_of_any_height_have_the_bytes_of_the_whole_matrix(DType type) {
        for (Granularity granularity : GRANULARITIES) {
            for (Float8Format format : List.of(Float8Format.E4M3FN, Float8Format.E2M1)) {
                for (long cols : new long[] {62, 207}) {
                    try (Arena arena = Arena.ofConfined()) {
                        Tensor source = matrix(Shape.of(264, cols), type, arena);
                        QuantizedTensor whole = Quantizer.sequential()
                                .quantize(source, OperandSpec.fromValues(format, granularity), arena)
                                .orElseThrow();
                        for (long height : new long[] {12, 128, 256, 264}) {
                            assertTiles(source, whole, height, arena);
                        }
                    }
                }
            }
        }
    }

    private static Tensor matrix(Shape shape, DType type, Arena arena) {
        SplittableRandom random = new SplittableRandom(shape.elementCount());
        Tensor tensor = Tensor.allocate(arena, new TensorSpec("w", type, shape));
        for (long i = 0; i < shape.elementCount(); i++) {
            Floats.set(type, tensor.bytes(), i, (float) random.nextGaussian());
        }
        return tensor;
    }

    private static void assertTiles(Tensor source, QuantizedTensor whole, long height, Arena arena) {
        Granularity granularity = whole.granularity();
        QuantType codes = QuantType.of(whole.format()).orElseThrow();
        long rows = source.shape().dim(0);
        long cols = source.shape().dim(1);
        long block = granularity.blockShape(source.shape())[0];
        if (height != rows && height % block != 0) {
            return; // no border of blocks
        }
        long scalesBefore = 0;
        for (long row = 0; row < rows; row += height) {
            Blocks tile = Blocks.of(Shape.of(Math.min(height, rows - row), cols), granularity);
            long first = row * cols;
            long width = source.dtype().bits() / 8;
            MemorySegment in = source.bytes().asSlice(first * width, tile.elements() * width);
            MemorySegment scales = arena.allocate(tile.scaleCount() * Float.BYTES);
            BlockCast cast = BlockCast.best();
            cast.amax(source.dtype(), in, tile.runs(), scales);
            OperandSpec spec = OperandSpec.fromValues(whole.format(), granularity);
            for (long s = 0; s < tile.scaleCount(); s++) {
                scales.setAtIndex(Tensor.F32_LE, s, spec.storedScale(scales.getAtIndex(Tensor.F32_LE, s)));
            }
            String what = granularity + " " + codes + " " + source.spec() + " by " + height + " at " + row;
            MemorySegment expected =
                    whole.scale().bytes().asSlice(scalesBefore * Float.BYTES, tile.scaleCount() * Float.BYTES);
            assertEquals(-1, expected.mismatch(scales), what);
            MemorySegment encoded = arena.allocate(codes.bytes(tile.elements()));
            cast.encode(codes, source.dtype(), in, tile.runs(), scales, encoded);
            long at = codes == QuantType.E2M1 ? first / 2 : first;
            assertEquals(-1, whole.codes().asSlice(at, encoded.byteSize()).mismatch(encoded), what);
            scalesBefore += tile.scaleCount();
        }
    }

    @ParameterizedTest
    @MethodSource("twins")
    void asymmetric_integers_come_back_within_half_a_step_and_zero_as_zero(ElementCast cast) {
        BlockCast tiles = new BlockCast(cast, Overflow.SATURATE);
        Blocks tile = Blocks.of(Shape.of(6, 207), new Granularity.PerChannel(-2));
        try (Arena arena = Arena.ofConfined()) {
            Tensor source = matrix(Shape.of(6, 207), DType.F32, arena);
            for (int i = 0; i < 207; i++) {
                float x = source.bytes().getAtIndex(Tensor.F32_LE, i);
                source.bytes().setAtIndex(Tensor.F32_LE, i, Math.abs(x)); // row 0: only positive
                source.bytes().setAtIndex(Tensor.F32_LE, 207 + i, -1 - Math.abs(x)); // row 1: only negative
                source.bytes().setAtIndex(Tensor.F32_LE, 414 + i, 0); // row 2: nothing
                source.bytes().setAtIndex(Tensor.F32_LE, 621 + i, x * 2e38f); // row 3: a span beyond the largest float
            }
            source.bytes().setAtIndex(Tensor.F32_LE, 0, 0);
            source.bytes().setAtIndex(Tensor.F32_LE, 621, 3e38f);
            source.bytes().setAtIndex(Tensor.F32_LE, 622, -3e38f);
            clampRow(source.bytes(), 3);
            MemorySegment scales = arena.allocate(6 * 4);
            MemorySegment zeroPoints = arena.allocate(6);
            MemorySegment codes = arena.allocate(tile.elements());
            MemorySegment decoded = arena.allocate(tile.elements() * 4);
            AffineScale.of(
                    tiles.ranges(DType.F32, source.bytes(), tile.runs()),
                    QuantType.INT8_ASYMMETRIC,
                    DType.F32,
                    scales,
                    zeroPoints);
            tiles.encodeAffine(
                    QuantType.INT8_ASYMMETRIC, DType.F32, source.bytes(), tile.runs(), scales, zeroPoints, codes);
            tiles.decodeAffine(codes, tile.runs(), scales, zeroPoints, DType.F32, decoded);
            for (int i = 0; i < tile.elements(); i++) {
                float x = source.bytes().getAtIndex(Tensor.F32_LE, i);
                float scale = scales.getAtIndex(Tensor.F32_LE, i / 207);
                // The zero point is rounded too, so the ends of the range may saturate by half a step more.
                double bound = 1.001 * scale;
                double error = Math.abs((double) x - decoded.getAtIndex(Tensor.F32_LE, i));
                assertTrue(x == 0 ? error == 0 : error <= bound, i + ": " + x + " off by " + error / scale + " steps");
            }
        }
    }

    private static void clampRow(MemorySegment floats, int row) {
        for (int i = row * 207; i < (row + 1) * 207; i++) {
            float x = Math.clamp(floats.getAtIndex(Tensor.F32_LE, i), -3e38f, 3e38f);
            floats.setAtIndex(Tensor.F32_LE, i, x);
        }
    }

    @ParameterizedTest
    @MethodSource("twins")
    void ranges_of_blocks_are_gathered_from_all_their_rows(ElementCast cast) {
        Blocks tile = Blocks.of(Shape.of(5, 40), new Granularity.PerBlock(2, 32));
        float[] floats = new float[200];
        floats[40 + 31] = 51; // block 0, second row
        floats[5] = -204;
        floats[4 * 40 + 39] = 255; // the last block
        MemorySegment scales = MemorySegment.ofArray(new float[6]);
        MemorySegment zeroPoints = MemorySegment.ofArray(new byte[6]);
        AffineScale.of(
                new BlockCast(cast, Overflow.SATURATE).ranges(DType.F32, MemorySegment.ofArray(floats), tile.runs()),
                QuantType.INT8_ASYMMETRIC,
                DType.F32,
                scales,
                zeroPoints);
        assertArrayEquals(new float[] {1, 1, 1, 1, 1, 1}, scales.toArray(ValueLayout.JAVA_FLOAT));
        assertArrayEquals(new byte[] {76, -128, -128, -128, -128, -128}, zeroPoints.toArray(ValueLayout.JAVA_BYTE));
    }
}
