package dev.octet.quant.cast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.OracleTables;
import dev.octet.quant.number.Overflow;
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
import org.junit.jupiter.params.provider.MethodSource;

/** What holds for every twin; most of it is that the twin does as the reference does. */
@Tag("twins")
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ElementCastTest {
    private static final List<DType> FLOATS = List.of(DType.F32, DType.BF16, DType.F16);
    private static final int[] LENGTHS = {
        0, 1, 13, 16, 31, 32, 33, 207, 4098, ElementCastVector.TILE - 1, ElementCastVector.TILE + 17
    };
    private static final ElementCast REFERENCE = new ElementCastReference();

    static Stream<ElementCast> twins() {
        return ElementCastVector.fits()
                ? Stream.of(REFERENCE, new ElementCastScalar(), new CastArrays(), new ElementCastVector())
                : Stream.of(REFERENCE, new ElementCastScalar(), new CastArrays());
    }

    private static List<Float8Format> signedFormats() {
        return Stream.of(Float8Format.values()).filter(Float8Format::isSigned).toList();
    }

    @ParameterizedTest
    @MethodSource("twins")
    void every_bf16_and_f16_has_the_code_of_the_oracle(ElementCast cast) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment all = allShorts(arena);
            MemorySegment codes = arena.allocate(1 << 16);
            for (Float8Format format : Float8Format.values()) {
                for (Overflow overflow : Overflow.values()) {
                    if (OracleTables.has(format, overflow)) {
                        for (DType type : List.of(DType.BF16, DType.F16)) {
                            cast.encode(type, all, 1, format, overflow, codes);
                            byte[] expected =
                                    OracleTables.encoded(format, type == DType.BF16 ? "bf16" : "f16", overflow);
                            assertEquals(
                                    -1,
                                    codes.mismatch(MemorySegment.ofArray(expected)),
                                    format + " " + overflow + " " + type);
                        }
                    }
                }
            }
        }
    }

    private static MemorySegment allShorts(Arena arena) {
        MemorySegment all = arena.allocate(2 << 16);
        for (int bits = 0; bits < 1 << 16; bits++) {
            all.set(Tensor.I16_LE, bits * 2L, (short) bits);
        }
        return all;
    }

    @ParameterizedTest
    @MethodSource("twins")
    void every_code_has_the_value_of_the_reference_in_every_type(ElementCast cast) {
        MemorySegment codes = MemorySegment.ofArray(new byte[256]);
        for (int code = 0; code < 256; code++) {
            codes.set(ValueLayout.JAVA_BYTE, code, (byte) code);
        }
        for (Float8Format format : Float8Format.values()) {
            MemorySegment known = codes.asSlice(0, format.codeCount());
            for (float scale : new float[] {1, 0.3f, 0x1p-126f, 3e38f, 0x1p-20f}) {
                for (DType type : FLOATS) {
                    MemorySegment expected = MemorySegment.ofArray(new byte[format.codeCount() * type.bits() / 8]);
                    MemorySegment actual = MemorySegment.ofArray(new byte[(int) expected.byteSize()]);
                    REFERENCE.decode(format, known, scale, type, expected);
                    cast.decode(format, known, scale, type, actual);
                    assertEquals(-1, expected.mismatch(actual), format + " " + type + " " + scale);
                }
            }
        }
    }

    @ParameterizedTest
    @MethodSource("twins")
    void floats_at_every_border_between_two_codes_go_where_the_reference_sends_them(ElementCast cast) {
        for (Float8Format format : signedFormats()) {
            MemorySegment borders = borders(format);
            int count = (int) borders.byteSize() / 4;
            MemorySegment expected = MemorySegment.ofArray(new byte[count]);
            MemorySegment actual = MemorySegment.ofArray(new byte[count]);
            for (Overflow overflow : Overflow.values()) {
                REFERENCE.encode(DType.F32, borders, 1, format, overflow, expected);
                cast.encode(DType.F32, borders, 1, format, overflow, actual);
                assertEquals(-1, expected.mismatch(actual), format + " " + overflow);
            }
        }
    }

    /** Codes, the middles between them, what lies beyond the last one, and the special floats; one ulp around each; both signs. */
    private static MemorySegment borders(Float8Format format) {
        float step = format.maxValue() - format.decode(format.maxCode() - 1);
        Stream.Builder<Float> at = Stream.builder();
        for (int code = 0; code <= format.maxCode(); code++) {
            float value = format.decode(code);
            float next = code == format.maxCode() ? value + step : format.decode(code + 1);
            at.add(value).add((float) (((double) value + next) / 2)).add(next);
        }
        for (float special :
                new float[] {Float.MIN_VALUE, Float.MIN_NORMAL, Float.MAX_VALUE, Float.POSITIVE_INFINITY}) {
            at.add(special);
        }
        List<Float> all = at.build()
                .flatMap(x -> Stream.of(x, Math.nextUp(x), Math.nextDown(x)))
                .flatMap(x -> Stream.of(x, -x))
                .toList();
        float[] floats = new float[all.size() + 2];
        for (int i = 0; i < all.size(); i++) {
            floats[i] = all.get(i);
        }
        floats[all.size()] = Float.intBitsToFloat(0x7F800001);
        floats[all.size() + 1] = Float.intBitsToFloat(0xFFFFFFFF);
        return MemorySegment.ofArray(floats);
    }

    @ParameterizedTest
    @MethodSource("twins")
    void a_sample_of_all_floats_goes_where_the_reference_sends_it(ElementCast cast) {
        int count = 1 << 16;
        float[] floats = new float[count];
        for (int i = 0; i < count; i++) {
            floats[i] = Float.intBitsToFloat(i * 65521); // a prime step: every exponent, all kinds of mantissas
        }
        MemorySegment source = MemorySegment.ofArray(floats);
        MemorySegment expected = MemorySegment.ofArray(new byte[count]);
        MemorySegment actual = MemorySegment.ofArray(new byte[count]);
        for (Float8Format format : Float8Format.values()) {
            for (Overflow overflow : Overflow.values()) {
                for (float scale : new float[] {1, 0.1f, 1234.5f, 0x1p-126f}) {
                    REFERENCE.encode(DType.F32, source, scale, format, overflow, expected);
                    cast.encode(DType.F32, source, scale, format, overflow, actual);
                    assertEquals(-1, expected.mismatch(actual), format + " " + overflow + " " + scale);
                }
            }
        }
    }

    @ParameterizedTest
    @MethodSource("twins")
    void any_length_any_place_in_memory_and_any_kind_of_segment_gives_the_bytes_of_the_reference(ElementCast cast) {
        for (int length : LENGTHS) {
            for (DType type : FLOATS) {
                for (Float8Format format :
                        List.of(Float8Format.E4M3FN, Float8Format.E5M2, Float8Format.E4M3FNUZ, Float8Format.E2M1)) {
                    try (Arena arena = Arena.ofConfined()) {
                        Case c = Case.random(type, length, length + type.bits());
                        c.check(cast, format, arena.allocate(length * 8L + 64, 64), 0);
                        c.check(cast, format, arena.allocate(length * 8L + 64, 64), 3);
                        c.check(cast, format, MemorySegment.ofArray(new byte[length * 8 + 64]), 1);
                    }
                }
            }
        }
    }

    /** Random floats and scales, and what the reference makes of them. */
    private record Case(DType type, int length, MemorySegment source, MemorySegment scales) {
        static Case random(DType type, int length, long seed) {
            SplittableRandom random = new SplittableRandom(seed);
            MemorySegment source = MemorySegment.ofArray(new byte[length * type.bits() / 8]);
            MemorySegment scales = MemorySegment.ofArray(new byte[length * 4]);
            for (int i = 0; i < length; i++) {
                Floats.set(type, source, i, (float) (random.nextGaussian() * Math.exp(3 * random.nextGaussian())));
                scales.set(Tensor.F32_LE, i * 4L, (float) Math.exp(random.nextGaussian()));
            }
            return new Case(type, length, source, scales);
        }

        /** Works in {@code memory} from byte {@code offset} on: source (read-only), then codes or floats. */
        void check(ElementCast cast, Float8Format format, MemorySegment memory, long offset) {
            long width = type.bits() / 8;
            MemorySegment.copy(source, 0, memory, offset, source.byteSize());
            MemorySegment in = memory.asSlice(offset, source.byteSize()).asReadOnly();
            MemorySegment codes = memory.asSlice(offset + source.byteSize() + 1, length);
            MemorySegment expected = MemorySegment.ofArray(new byte[length]);
            MemorySegment floats = MemorySegment.ofArray(new byte[(int) (length * width)]);
            MemorySegment expectedFloats = MemorySegment.ofArray(new byte[(int) (length * width)]);

            REFERENCE.encode(type, in, 0.7f, format, Overflow.SATURATE, expected);
            cast.encode(type, in, 0.7f, format, Overflow.SATURATE, codes);
            assertEquals(-1, expected.mismatch(codes));
            REFERENCE.decode(format, expected, 0.7f, type, expectedFloats);
            cast.decode(format, codes.asReadOnly(), 0.7f, type, floats);
            assertEquals(-1, expectedFloats.mismatch(floats));

            REFERENCE.encodeGroups(type, in, scales, 1, format, Overflow.NON_SATURATING, expected);
            cast.encodeGroups(type, in, scales.asReadOnly(), 1, format, Overflow.NON_SATURATING, codes);
            assertEquals(-1, expected.mismatch(codes));
            REFERENCE.decodeGroups(format, expected, scales, 1, type, expectedFloats);
            cast.decodeGroups(format, codes, scales, 1, type, floats);
            assertEquals(-1, expectedFloats.mismatch(floats));

            assertEquals(REFERENCE.amax(type, in), cast.amax(type, in));
            MemorySegment expectedAmax = MemorySegment.ofArray(scales.toArray(ValueLayout.JAVA_BYTE));
            MemorySegment amax = MemorySegment.ofArray(scales.toArray(ValueLayout.JAVA_BYTE));
            REFERENCE.amaxGroups(type, in, 1, expectedAmax);
            cast.amaxGroups(type, in, 1, amax);
            assertEquals(-1, expectedAmax.mismatch(amax));
        }
    }

    @ParameterizedTest
    @MethodSource("twins")
    void the_largest_magnitude_is_found_in_every_place_and_a_nan_tops_infinity(ElementCast cast) {
        for (DType type : FLOATS) {
            for (int length : new int[] {1, 13, 64, 207}) {
                MemorySegment source = MemorySegment.ofArray(new byte[length * type.bits() / 8]);
                for (int place = 0; place < length; place++) {
                    source.fill((byte) 0);
                    Floats.set(type, source, place, -3);
                    assertEquals(3f, cast.amax(type, source));
                    Floats.set(type, source, place, Float.NEGATIVE_INFINITY);
                    assertEquals(Float.POSITIVE_INFINITY, cast.amax(type, source));
                    Floats.set(type, source, length - 1 - place, Float.NaN);
                    assertTrue(Float.isNaN(cast.amax(type, source)));
                }
            }
        }
        assertEquals(0f, cast.amax(DType.F32, MemorySegment.ofArray(new byte[0])));
    }

    @ParameterizedTest
    @MethodSource("twins")
    void sizes_types_and_scales_that_do_not_fit_are_refused(ElementCast cast) {
        MemorySegment floats = MemorySegment.ofArray(new byte[16]);
        MemorySegment codes = MemorySegment.ofArray(new byte[4]);
        MemorySegment three = MemorySegment.ofArray(new byte[3]);
        refused(() -> cast.encode(DType.F32, floats, 1, Float8Format.E4M3FN, Overflow.SATURATE, three));
        refused(() -> cast.encode(DType.F64, floats, 1, Float8Format.E4M3FN, Overflow.SATURATE, codes));
        refused(() -> cast.encodeGroups(DType.F32, floats, three, 1, Float8Format.E4M3FN, Overflow.SATURATE, codes));
        refused(() -> cast.decode(Float8Format.E4M3FN, three, 1, DType.F32, floats));
        refused(() -> cast.decodeGroups(Float8Format.E4M3FN, codes, three, 1, DType.F32, floats));
        refused(() -> cast.amax(DType.F32, three));
        refused(() -> cast.amax(DType.I32, floats));
        refused(() -> cast.amaxGroups(DType.F32, floats, 1, three));
        for (float bad : new float[] {0, -1, Float.NaN, Float.POSITIVE_INFINITY}) {
            refused(() -> cast.encode(DType.F32, floats, bad, Float8Format.E4M3FN, Overflow.SATURATE, codes));
            refused(() -> cast.decode(Float8Format.E4M3FN, codes, bad, DType.F32, floats));
        }
    }

    private static void refused(Runnable call) {
        assertThrows(IllegalArgumentException.class, call::run);
    }
}
