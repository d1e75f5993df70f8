package dev.octet.quant.cast;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class FloatsTest {
    @ParameterizedTest
    @EnumSource(
            value = DType.class,
            names = {"BF16", "F16"})
    void all_numbers_of_two_bytes_widen_to_the_bits_that_single_ones_do(DType type) {
        int count = 1 << 16;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment narrow = arena.allocate(count * 2L, 64);
            MemorySegment wide = arena.allocate(count * 4L, 64);
            for (int i = 0; i < count; i++) {
                narrow.set(Tensor.I16_LE, i * 2L, (short) i);
            }
            Floats.convert(type, narrow, DType.F32, wide, count - 1); // an odd number
            Floats.set(DType.F32, wide, count - 1, Floats.get(type, narrow, count - 1));
            for (int i = 0; i < count; i++) {
                int expected = Float.floatToRawIntBits(Floats.get(type, narrow, i));
                assertEquals(Integer.toHexString(expected), Integer.toHexString(wide.get(Tensor.I32_LE, i * 4L)));
            }
        }
    }

    @ParameterizedTest
    @EnumSource(
            value = DType.class,
            names = {"BF16", "F16", "F32"})
    void floats_narrow_as_single_ones_do(DType type) {
        int count = 5000;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment wide = arena.allocate(count * 4L, 64);
            MemorySegment narrow = arena.allocate(count * 4L, 64);
            for (int i = 0; i < count; i++) {
                wide.set(Tensor.F32_LE, i * 4L, (float) (Math.sin(i) * Math.exp(i % 40 - 20)));
            }
            Floats.convert(DType.F32, wide, type, narrow, count);
            MemorySegment one = arena.allocate(4);
            for (int i = 0; i < count; i++) {
                Floats.set(type, one, 0, wide.get(Tensor.F32_LE, i * 4L));
                assertEquals(Floats.get(type, one, 0), Floats.get(type, narrow, i));
            }
        }
    }
}
