package dev.octet.quant;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.cast.ElementCastReference;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.cast.Nibbles;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.QuantizedTensor;
import dev.octet.quant.scale.ScaleRule;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class QuantizerTest {
    private static final List<Granularity> GRANULARITIES = List.of(
            new Granularity.PerTensor(),
            new Granularity.PerChannel(0),
            new Granularity.PerChannel(1),
            new Granularity.PerChannel(-1),
            new Granularity.PerToken(),
            new Granularity.PerGroup(1, 4),
            new Granularity.PerGroup(-1, 5),
            new Granularity.PerBlock(3, 7),
            new Granularity.PerBlock(128, 128),
            new Granularity.Mx(32),
            new Granularity.Mx(0, 2));

    private static Tensor random(Arena arena, DType type, Shape shape, long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        Tensor tensor = Tensor.allocate(arena, new TensorSpec("w", type, shape));
        for (long i = 0; i < shape.elementCount(); i++) {
            Floats.set(type, tensor.bytes(), i, (float) (random.nextGaussian() * Math.exp(random.nextGaussian())));
        }
        return tensor;
    }

    @ParameterizedTest
    @EnumSource(
            value = DType.class,
            names = {"F32", "BF16", "F16"})
    void every_granularity_gives_each_element_the_code_by_its_own_scale(DType type) {
        try (Arena arena = Arena.ofConfined()) {
            Tensor source = random(arena, type, Shape.of(5, 9, 13), 1);
            for (Granularity granularity : GRANULARITIES) {
                for (Float8Format format : List.of(Float8Format.E4M3FN, Float8Format.E5M2, Float8Format.E2M1)) {
                    OperandSpec spec =
                            OperandSpec.fromValues(format, granularity).scaledBy(new ScaleRule.AmaxRule(), DType.BF16);
                    checkByDefinition(source, spec, arena);
                }
            }
        }
    }

    /** Element by element, with nothing but the definitions of scale index, rule and format. */
    private static void checkByDefinition(Tensor source, OperandSpec spec, Arena arena) {
        QuantizedTensor actual =
                Quantizer.sequential().quantize(source, spec, arena).orElseThrow();
        Shape shape = source.shape();
        Blocks blocks = Blocks.of(shape, spec.granularity());
        float[] amax = new float[(int) blocks.scaleCount()];
        for (long i = 0; i < shape.elementCount(); i++) {
            int s = (int) blocks.scaleOf(i);
            amax[s] = Math.max(amax[s], Math.abs(Floats.get(source.dtype(), source.bytes(), i)));
        }
        MemorySegment codes = MemorySegment.ofArray(new byte[(int) shape.elementCount()]);
        Tensor decoded = Quantizer.sequential().dequantize(actual, DType.F32, arena);
        for (long i = 0; i < shape.elementCount(); i++) {
            int s = (int) blocks.scaleOf(i);
            float scale = spec.storedScale(amax[s]);
            assertEquals(scale, actual.scaleAt(s), spec.toString());
            float x = Floats.get(source.dtype(), source.bytes(), i) / scale;
            int code = spec.format().encode(x, Overflow.SATURATE);
            codes.set(ValueLayout.JAVA_BYTE, i, (byte) code);
            assertEquals(
                    spec.format().decode(code) * scale, Floats.get(DType.F32, decoded.bytes(), i), spec.toString());
        }
        MemorySegment expected = codes;
        if (spec.format() == Float8Format.E2M1) {
            expected = MemorySegment.ofArray(new byte[(int) actual.codes().byteSize()]);
            Nibbles.pack(codes, expected);
        }
        assertEquals(-1, expected.mismatch(actual.codes()), spec.toString());
    }

    @Test
    void the_number_of_threads_and_the_twin_do_not_change_a_byte() {
        try (Arena arena = Arena.ofShared()) {
            Tensor source = random(arena, DType.F32, Shape.of(1300, 1029), 2);
            for (Granularity granularity : List.of(
                    new Granularity.PerTensor(),
                    new Granularity.PerChannel(0),
                    new Granularity.PerChannel(1),
                    new Granularity.PerBlock(128, 128))) {
                for (ScaleRule rule : List.of(new ScaleRule.AmaxRule(), new ScaleRule.MseRule(0.5f, 1.5f, 3))) {
                    OperandSpec spec = OperandSpec.fromValues(Float8Format.E4M3FN, granularity)
                            .scaledBy(rule, DType.F32);
                    QuantizedTensor one =
                            Quantizer.sequential().quantize(source, spec, arena).orElseThrow();
                    QuantizedTensor three = Quantizer.parallel(3)
                            .with(new ElementCastReference())
                            .quantize(source, spec, arena)
                            .orElseThrow();
                    assertEquals(-1, one.codes().mismatch(three.codes()), spec.toString());
                    assertEquals(-1, one.scale().bytes().mismatch(three.scale().bytes()), spec.toString());
                }
            }
        }
    }

    @Test
    void confined_memory_is_quantised_by_the_calling_thread() {
        try (Arena arena = Arena.ofConfined()) {
            Tensor source = random(arena, DType.F32, Shape.of(2100, 1024), 3);
            OperandSpec spec = OperandSpec.fromValues(Float8Format.E4M3FN, new Granularity.PerTensor());
            assertInstanceOf(Quantization.Done.class, Quantizer.parallel(4).quantize(source, spec, arena));
        }
    }

    @Test
    void zeros_get_the_scale_one() {
        try (Arena arena = Arena.ofConfined()) {
            Tensor source = Tensor.ofFloats(arena, "w", Shape.of(2, 2), 0, -0f, 3, 4);
            OperandSpec spec = OperandSpec.fromValues(Float8Format.E4M3FN, new Granularity.PerChannel(0))
                    .scaledBy(new ScaleRule.MseRule(), DType.F32);
            QuantizedTensor q =
                    Quantizer.sequential().quantize(source, spec, arena).orElseThrow();
            assertEquals(1f, q.scaleAt(0));
            assertArrayEquals(
                    new byte[] {0, (byte) 0x80}, q.codes().asSlice(0, 2).toArray(ValueLayout.JAVA_BYTE));
        }
    }

    @Test
    void a_tensor_with_a_nan_is_refused_with_its_place() {
        try (Arena arena = Arena.ofConfined()) {
            Tensor source = Tensor.ofFloats(arena, "w", Shape.of(2, 2), 0, 1, Float.NaN, Float.POSITIVE_INFINITY);
            OperandSpec spec = OperandSpec.fromValues(Float8Format.E4M3FN, new Granularity.PerToken());
            Quantization result = Quantizer.sequential().quantize(source, spec, arena);
            assertEquals(new Quantization.Refused("w", 2, Float.NaN), result);
            InvalidDataException e = assertThrows(InvalidDataException.class, result::orElseThrow);
            assertTrue(e.where().contains("element 2"), e.where());
        }
    }

    @Test
    void an_infinity_is_refused_too() {
        try (Arena arena = Arena.ofConfined()) {
            Tensor source = Tensor.ofFloats(arena, "w", Shape.of(2), 5, Float.NEGATIVE_INFINITY);
            OperandSpec spec = OperandSpec.fromValues(Float8Format.E5M2, new Granularity.PerTensor());
            assertEquals(
                    new Quantization.Refused("w", 1, Float.NEGATIVE_INFINITY),
                    Quantizer.sequential().quantize(source, spec, arena));
        }
    }

    @Test
    void searching_the_scale_never_makes_the_error_larger() {
        try (Arena arena = Arena.ofConfined()) {
            Tensor source = random(arena, DType.F32, Shape.of(16, 257), 4);
            Granularity rows = new Granularity.PerChannel(0);
            double plain = squaredError(source, new ScaleRule.AmaxRule(), rows, arena);
            double searched = squaredError(source, new ScaleRule.MseRule(), rows, arena);
            assertTrue(searched < plain, searched + " against " + plain);
        }
    }

    private static double squaredError(Tensor source, ScaleRule rule, Granularity granularity, Arena arena) {
        OperandSpec spec =
                OperandSpec.fromValues(Float8Format.E4M3FN, granularity).scaledBy(rule, DType.F32);
        QuantizedTensor q = Quantizer.sequential().quantize(source, spec, arena).orElseThrow();
        float[] values = Quantizer.sequential().dequantize(q, DType.F32, arena).toFloats();
        float[] expected = source.toFloats();
        double sum = 0;
        for (int i = 0; i < values.length; i++) {
            sum += ((double) values[i] - expected[i]) * ((double) values[i] - expected[i]);
        }
        return sum;
    }

    @Test
    void given_scales_are_used_as_they_are() {
        try (Arena arena = Arena.ofConfined()) {
            Tensor source = Tensor.ofFloats(arena, "w", Shape.of(2, 2), 1, 2, 3, 1000);
            Tensor scale = Tensor.ofFloats(arena, "s", Shape.of(2), 2, 1);
            QuantizedTensor q = Quantizer.sequential()
                    .quantize(
                            source,
                            scale,
                            new Granularity.PerChannel(0),
                            Float8Format.E4M3FN,
                            Overflow.SATURATE,
                            arena);
            assertArrayEquals(
                    new float[] {1, 2, 3, 448},
                    Quantizer.sequential().dequantize(q, DType.F32, arena).toFloats());
        }
    }

    @Test
    void a_scale_that_is_no_positive_number_is_refused() {
        try (Arena arena = Arena.ofConfined()) {
            Tensor source = Tensor.ofFloats(arena, "w", Shape.of(1), 1);
            for (float bad : new float[] {0, -1, Float.NaN, Float.POSITIVE_INFINITY}) {
                Tensor scale = Tensor.ofFloats(arena, "s", Shape.SCALAR, bad);
                assertThrows(
                        IllegalArgumentException.class,
                        () -> Quantizer.sequential()
                                .quantize(
                                        source,
                                        scale,
                                        new Granularity.PerTensor(),
                                        Float8Format.E4M3FN,
                                        Overflow.SATURATE,
                                        arena));
            }
        }
    }

    @Test
    void tensors_without_elements_and_scalars_are_tensors() {
        try (Arena arena = Arena.ofConfined()) {
            for (Granularity granularity :
                    List.of(new Granularity.PerTensor(), new Granularity.PerChannel(0), new Granularity.PerToken())) {
                Tensor empty = Tensor.ofFloats(arena, "w", Shape.of(3, 0));
                QuantizedTensor q = Quantizer.sequential()
                        .quantize(empty, OperandSpec.fromValues(Float8Format.E4M3FN, granularity), arena)
                        .orElseThrow();
                assertEquals(0, q.codes().byteSize());
            }
            Tensor scalar = Tensor.ofFloats(arena, "w", Shape.SCALAR, 448);
            QuantizedTensor q = Quantizer.sequential()
                    .quantize(scalar, OperandSpec.fromValues(Float8Format.E4M3FN, new Granularity.PerTensor()), arena)
                    .orElseThrow();
            assertEquals(0x7E, q.codes().get(ValueLayout.JAVA_BYTE, 0));
        }
    }
}
