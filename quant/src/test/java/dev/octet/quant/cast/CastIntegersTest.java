package dev.octet.quant.cast;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.cast.ElementCast.Range;
import dev.octet.quant.number.QuantType;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

@Tag("twins")
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CastIntegersTest {
    private static final List<DType> FLOATS = List.of(DType.F32, DType.BF16, DType.F16);
    private static final int[] LENGTHS = {0, 1, 13, 16, 31, 32, 33, 207, 4098, ElementCastVector.TILE + 17};
    private static final int[] ZERO_POINTS = {-128, -127, -1, 0, 1, 64, 127};
    private static final int[] SMALL_ZERO_POINTS = {-8, -7, -1, 0, 1, 7};

    static Stream<ElementCast> twins() {
        return ElementCastVector.fits()
                ? Stream.of(
                        new ElementCastReference(), new ElementCastScalar(), new CastArrays(), new ElementCastVector())
                : Stream.of(new ElementCastReference(), new ElementCastScalar(), new CastArrays());
    }

    private static MemorySegment bytes(long count) {
        return MemorySegment.ofArray(new byte[(int) count]);
    }

    /** In exact decimal arithmetic. */
    private static int expected(float quotient, int zeroPoint, int lowest, int highest) {
        if (Float.isNaN(quotient) || quotient == Float.POSITIVE_INFINITY) {
            return highest;
        }
        if (quotient == Float.NEGATIVE_INFINITY) {
            return lowest;
        }
        BigDecimal code =
                new BigDecimal(quotient).setScale(0, RoundingMode.HALF_EVEN).add(BigDecimal.valueOf(zeroPoint));
        return code.min(BigDecimal.valueOf(highest))
                .max(BigDecimal.valueOf(lowest))
                .intValueExact();
    }

    /** Halves of integers and their neighbours, far and special floats. */
    private static float[] quotients() {
        Stream.Builder<Float> at = Stream.builder();
        for (int halves = -600; halves <= 600; halves++) {
            float x = halves / 2f;
            at.add(x).add(Math.nextUp(x)).add(Math.nextDown(x));
        }
        for (float x : new float[] {
            -0f, Float.MIN_VALUE, 1e9f, -1e9f, 0x1p23f, 0x1.8p23f, -0x1.8p23f, Float.MAX_VALUE, -Float.MAX_VALUE
        }) {
            at.add(x);
        }
        at.add(Float.POSITIVE_INFINITY).add(Float.NEGATIVE_INFINITY).add(Float.NaN);
        at.add(Float.intBitsToFloat(0xFF812345));
        List<Float> all = at.build().toList();
        float[] quotients = new float[all.size()];
        for (int i = 0; i < quotients.length; i++) {
            quotients[i] = all.get(i);
        }
        return quotients;
    }

    @ParameterizedTest
    @MethodSource("twins")
    void quotients_around_every_tie_round_to_even_and_saturate(ElementCast cast) {
        float[] quotients = quotients();
        MemorySegment codes = bytes(quotients.length);
        // as compressed-tensors and ONNX have them; eight bits without a zero point are symmetric
        Map<QuantType, int[]> ends = Map.of(
                QuantType.INT8, new int[] {-127, 127},
                QuantType.INT8_ASYMMETRIC, new int[] {-128, 127},
                QuantType.INT4, new int[] {-8, 7},
                QuantType.INT4_ASYMMETRIC, new int[] {-8, 7});
        ends.forEach((type, end) -> {
            for (int zeroPoint : type.bits() == 4 ? SMALL_ZERO_POINTS : ZERO_POINTS) {
                cast.encodeIntegers(DType.F32, MemorySegment.ofArray(quotients), 1, zeroPoint, type, codes);
                for (int i = 0; i < quotients.length; i++) {
                    int code = codes.get(ValueLayout.JAVA_BYTE, i);
                    int exact = expected(quotients[i], zeroPoint, end[0], end[1]);
                    assertEquals(exact, code, type + " " + quotients[i] + " " + zeroPoint);
                }
            }
        });
    }

    @ParameterizedTest
    @MethodSource("twins")
    void every_code_has_the_value_of_the_formula_in_every_type(ElementCast cast) {
        MemorySegment codes = bytes(256);
        for (int code = 0; code < 256; code++) {
            codes.set(ValueLayout.JAVA_BYTE, code, (byte) code);
        }
        for (DType type : FLOATS) {
            MemorySegment values = bytes(256L * type.bits() / 8);
            MemorySegment expected = bytes(values.byteSize());
            for (float scale : new float[] {1, 0.3f, 0x1p-126f, 1e36f, 3e38f, 0}) {
                for (int zeroPoint : ZERO_POINTS) {
                    cast.decodeIntegers(codes, scale, zeroPoint, type, values);
                    for (int code = 0; code < 256; code++) {
                        Floats.set(type, expected, code, ((byte) code - zeroPoint) * scale);
                    }
                    assertEquals(-1, expected.mismatch(values), type + " " + scale + " " + zeroPoint);
                }
            }
        }
    }

    @ParameterizedTest
    @MethodSource("twins")
    void any_length_gives_the_bytes_of_the_reference(ElementCast cast) {
        ElementCast reference = new ElementCastReference();
        for (int length : LENGTHS) {
            for (DType type : FLOATS) {
                MemorySegment source = random(type, length);
                MemorySegment expected = bytes(length);
                MemorySegment actual = bytes(length);
                reference.encodeIntegers(type, source, 0.013f, -7, QuantType.INT8_ASYMMETRIC, expected);
                cast.encodeIntegers(type, source, 0.013f, -7, QuantType.INT8_ASYMMETRIC, actual);
                assertEquals(-1, expected.mismatch(actual), type + " " + length);
                MemorySegment expectedFloats = bytes(source.byteSize());
                MemorySegment floats = bytes(source.byteSize());
                reference.decodeIntegers(actual, 0.013f, -7, type, expectedFloats);
                cast.decodeIntegers(actual, 0.013f, -7, type, floats);
                assertEquals(-1, expectedFloats.mismatch(floats), type + " " + length);
                assertEquals(reference.range(type, source), cast.range(type, source), type + " " + length);
            }
        }
    }

    private static MemorySegment random(DType type, int length) {
        SplittableRandom random = new SplittableRandom(length);
        MemorySegment source = bytes((long) length * type.bits() / 8);
        for (int i = 0; i < length; i++) {
            Floats.set(type, source, i, (float) random.nextGaussian());
        }
        return source;
    }

    @ParameterizedTest
    @MethodSource("twins")
    void ends_of_the_range_are_found_in_every_place_and_zero_is_inside(ElementCast cast) {
        for (DType type : FLOATS) {
            for (int length : new int[] {1, 13, 64, 207}) {
                for (int place = 0; place < length; place++) {
                    MemorySegment source = bytes((long) length * type.bits() / 8);
                    Floats.set(type, source, place, -3);
                    assertEquals(new Range(-3, 0), cast.range(type, source));
                    Floats.set(type, source, place, 5);
                    assertEquals(new Range(0, 5), cast.range(type, source));
                    Floats.set(type, source, length - 1 - place, -0f);
                    assertEquals(new Range(0, 2 * place == length - 1 ? 0 : 5), cast.range(type, source));
                }
            }
        }
        assertEquals(Range.ZERO, cast.range(DType.F32, bytes(0)));
    }

    @ParameterizedTest
    @MethodSource("twins")
    void nan_widens_no_range(ElementCast cast) {
        MemorySegment source = bytes(4 * 40);
        for (int i = 0; i < 40; i++) {
            source.set(Tensor.F32_LE, i * 4L, i % 2 == 0 ? Float.NaN : i - 20);
        }
        assertEquals(new Range(-19, 19), cast.range(DType.F32, source));
    }

    @ParameterizedTest
    @MethodSource("twins")
    void a_scale_of_zero_gives_zero_points(ElementCast cast) {
        MemorySegment codes = bytes(207);
        cast.encodeIntegers(DType.BF16, random(DType.BF16, 207), 0, 5, QuantType.INT4_ASYMMETRIC, codes);
        for (int i = 0; i < 207; i++) {
            assertEquals(5, codes.get(ValueLayout.JAVA_BYTE, i));
        }
    }
}
