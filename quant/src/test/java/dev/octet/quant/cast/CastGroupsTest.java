package dev.octet.quant.cast;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Groups against the reference's casts of each group by itself. */
@Tag("twins")
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CastGroupsTest {
    private static final List<DType> FLOATS = List.of(DType.F32, DType.BF16, DType.F16);
    private static final List<Float8Format> FORMATS = List.of(Float8Format.E4M3FN, Float8Format.E5M2FNUZ);
    private static final int[] SIZES = {1, 8, 16, 24, 32, 128, 1024, ElementCastVector.TILE, 2 * ElementCastVector.TILE
    };
    private static final int[] COUNTS = {0, 1, 13, 31, 32, 33, 207, 4098};
    private static final ElementCast REFERENCE = new ElementCastReference();

    static Stream<ElementCast> twins() {
        return ElementCastVector.fits()
                ? Stream.of(REFERENCE, new ElementCastScalar(), new CastArrays(), new ElementCastVector())
                : Stream.of(REFERENCE, new ElementCastScalar(), new CastArrays());
    }

    private static MemorySegment bytes(long count) {
        return MemorySegment.ofArray(new byte[(int) count]);
    }

    private static MemorySegment random(DType type, int count, double spread) {
        SplittableRandom random = new SplittableRandom(count);
        MemorySegment floats = bytes(count * (long) type.bits() / 8);
        for (int i = 0; i < count; i++) {
            Floats.set(type, floats, i, (float) (random.nextGaussian() * Math.exp(spread * random.nextGaussian())));
        }
        return floats;
    }

    private static MemorySegment scales(int count) {
        MemorySegment scales = random(DType.F32, count, 2);
        for (int i = 0; i < count; i++) {
            scales.set(Tensor.F32_LE, i * 4L, Math.abs(scales.get(Tensor.F32_LE, i * 4L)));
        }
        return scales;
    }

    /** One group of a count of elements. */
    private interface Group {
        void visit(long scale, long first, long count);
    }

    private static void forEachGroup(long count, long size, Group group) {
        for (long first = 0; first < count; first += size) {
            group.visit(first / size, first, Math.min(size, count - first));
        }
    }

    @ParameterizedTest
    @MethodSource("twins")
    void groups_have_the_codes_of_each_group_by_itself(ElementCast cast) {
        forEachCase((type, count, size) -> {
            long width = type.bits() / 8;
            MemorySegment source = random(type, count, 3);
            MemorySegment scales = scales(Math.ceilDiv(count, size));
            for (Float8Format format : FORMATS) {
                MemorySegment expected = bytes(count);
                forEachGroup(count, size, (s, first, n) -> {
                    float scale = scales.get(Tensor.F32_LE, s * 4);
                    MemorySegment in = source.asSlice(first * width, n * width);
                    REFERENCE.encode(type, in, scale, format, Overflow.SATURATE, expected.asSlice(first, n));
                });
                MemorySegment actual = bytes(count);
                cast.encodeGroups(type, source, scales, size, format, Overflow.SATURATE, actual);
                assertEquals(-1, expected.mismatch(actual), type + " " + count + " by " + size + " " + format);
            }
        });
    }

    @ParameterizedTest
    @MethodSource("twins")
    void groups_have_the_values_of_each_group_by_itself(ElementCast cast) {
        forEachCase((type, count, size) -> {
            long width = type.bits() / 8;
            MemorySegment scales = scales(Math.ceilDiv(count, size));
            for (Float8Format format : FORMATS) {
                MemorySegment codes = bytes(count);
                new SplittableRandom(count).nextBytes((byte[]) codes.heapBase().orElseThrow());
                MemorySegment expected = bytes(count * width);
                forEachGroup(count, size, (s, first, n) -> {
                    float scale = scales.get(Tensor.F32_LE, s * 4);
                    MemorySegment out = expected.asSlice(first * width, n * width);
                    REFERENCE.decode(format, codes.asSlice(first, n), scale, type, out);
                });
                MemorySegment actual = bytes(count * width);
                cast.decodeGroups(format, codes, scales, size, type, actual);
                assertEquals(-1, expected.mismatch(actual), type + " " + count + " by " + size + " " + format);
            }
        });
    }

    @ParameterizedTest
    @MethodSource("twins")
    void more_groups_than_a_kernel_takes_at_once_have_codes_too(ElementCast cast) {
        int count = 2 * ElementCastVector.TILE + 3 * 64;
        MemorySegment source = random(DType.BF16, count, 1);
        for (int size : new int[] {64, ElementCastVector.TILE}) {
            MemorySegment scales = scales(Math.ceilDiv(count, size));
            MemorySegment expected = bytes(count);
            MemorySegment actual = bytes(count);
            REFERENCE.encodeGroups(DType.BF16, source, scales, size, Float8Format.E4M3FN, Overflow.SATURATE, expected);
            cast.encodeGroups(DType.BF16, source, scales, size, Float8Format.E4M3FN, Overflow.SATURATE, actual);
            assertEquals(-1, expected.mismatch(actual), "groups of " + size);
        }
    }

    @ParameterizedTest
    @MethodSource("twins")
    void groups_raise_the_magnitudes_of_each_group_by_itself(ElementCast cast) {
        forEachCase((type, count, size) -> {
            long width = type.bits() / 8;
            MemorySegment source = random(type, count, 3);
            MemorySegment running = scales(Math.ceilDiv(count, size));
            float[] expected = running.toArray(Tensor.F32_LE);
            forEachGroup(count, size, (s, first, n) -> {
                float amax = REFERENCE.amax(type, source.asSlice(first * width, n * width));
                expected[(int) s] = Math.max(expected[(int) s], amax);
            });
            cast.amaxGroups(type, source, size, running);
            assertArrayEquals(expected, running.toArray(Tensor.F32_LE), type + " " + count + " by " + size);
        });
    }

    @ParameterizedTest
    @MethodSource("twins")
    void a_nan_tops_infinity_tops_all_in_its_group_only(ElementCast cast) {
        for (DType type : FLOATS) {
            for (int size : new int[] {16, 32, 64, 100}) {
                for (int place = 0; place < 2 * size; place++) {
                    MemorySegment source = random(type, 2 * size, 0);
                    MemorySegment amax = bytes(8);
                    Floats.set(type, source, place, Float.NEGATIVE_INFINITY);
                    cast.amaxGroups(type, source, size, amax);
                    int other = 1 - place / size;
                    assertEquals(
                            Float.POSITIVE_INFINITY, amax.get(Tensor.F32_LE, place / size * 4L), type + " " + place);
                    assertTrue(amax.get(Tensor.F32_LE, other * 4L) < 100, type + " " + place);
                    int first = place - place % size;
                    Floats.set(type, source, first, Float.NaN);
                    cast.amaxGroups(type, source, size, amax);
                    assertEquals(Float.NaN, amax.get(Tensor.F32_LE, place / size * 4L), type + " " + place);
                }
            }
        }
    }

    @ParameterizedTest
    @MethodSource("twins")
    void a_scale_of_zero_gives_zeros_with_the_signs_of_the_elements(ElementCast cast) {
        for (int size : new int[] {1, 16, 32, 48, 4096}) {
            int count = 2 * size;
            MemorySegment source = random(DType.F32, count, 3);
            MemorySegment scales = bytes(8L);
            scales.set(Tensor.F32_LE, 4, 1);
            MemorySegment by = size == 1 ? scales : scales.asSlice(0, 8);
            MemorySegment codes = bytes(count);
            cast.encodeGroups(DType.F32, source, by, size, Float8Format.E4M3FN, Overflow.SATURATE, codes);
            for (int i = 0; i < count; i++) {
                float x = source.get(Tensor.F32_LE, i * 4L);
                float divided = i < size ? Math.copySign(0f, x) : x;
                byte expected = (byte) Float8Format.E4M3FN.encode(divided, Overflow.SATURATE);
                assertEquals(expected, codes.get(ValueLayout.JAVA_BYTE, i), size + " " + i);
            }
        }
    }

    @ParameterizedTest
    @MethodSource("twins")
    void scales_that_are_not_one_for_each_group_are_refused(ElementCast cast) {
        MemorySegment floats = bytes(4 * 33);
        for (int groups : new int[] {1, 3}) {
            MemorySegment scales = bytes(4L * groups);
            assertThrows(IllegalArgumentException.class, () -> cast.amaxGroups(DType.F32, floats, 32, scales));
            assertThrows(
                    IllegalArgumentException.class,
                    () -> cast.decodeGroups(Float8Format.E4M3FN, bytes(33), scales, 32, DType.F32, floats));
            assertThrows(
                    IllegalArgumentException.class,
                    () -> cast.encodeGroups(
                            DType.F32, floats, scales, 32, Float8Format.E4M3FN, Overflow.SATURATE, bytes(33)));
        }
        assertThrows(IllegalArgumentException.class, () -> cast.amaxGroups(DType.F32, floats, 0, bytes(8)));
    }

    /** One combination to test. */
    private interface Case {
        void check(DType type, int count, int size);
    }

    private static void forEachCase(Case check) {
        for (DType type : FLOATS) {
            for (int size : SIZES) {
                for (int count : COUNTS) {
                    check.check(type, count, size);
                }
            }
        }
    }
}
