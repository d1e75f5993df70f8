package dev.octet.quant.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CastErrorTest {
    private static CastError of(float[] exact, float[] approximate) {
        return CastError.between(
                DType.F32, MemorySegment.ofArray(exact), DType.F32, MemorySegment.ofArray(approximate), exact.length);
    }

    @Test
    void a_tenth_of_the_amplitude_as_noise_is_20_decibels() {
        CastError d = of(new float[] {10, -10}, new float[] {11, -9});
        assertEquals(20, d.sqnrDb(), 1e-12);
        assertEquals(1, d.meanSquaredError());
        assertEquals(1, d.maxError());
    }

    @Test
    void equal_values_have_no_noise_and_point_the_same_way() {
        CastError d = of(new float[] {1, 2, 0}, new float[] {1, 2, -0f});
        assertEquals(Double.POSITIVE_INFINITY, d.sqnrDb());
        assertEquals(1, d.cosine(), 1e-15);
        assertEquals(0, d.maxUlp());
    }

    @Test
    void cosine_of_right_angles_opposites_and_zeros() {
        assertEquals(0, of(new float[] {1, 0}, new float[] {0, 1}).cosine());
        assertEquals(-1, of(new float[] {1, 1}, new float[] {-2, -2}).cosine(), 1e-15);
        assertEquals(1, of(new float[] {0}, new float[] {0}).cosine());
        assertEquals(0, of(new float[] {0}, new float[] {1}).cosine());
        assertEquals(1, of(new float[] {1e30f}, new float[] {1e30f}).cosine(), 1e-15);
    }

    @Test
    void pieces_add_up_to_the_whole() {
        CastError a = of(new float[] {1, 2}, new float[] {1.5f, 2});
        CastError b = of(new float[] {3}, new float[] {4});
        assertEquals(of(new float[] {1, 2, 3}, new float[] {1.5f, 2, 4}), a.plus(b));
        assertEquals(a, a.plus(CastError.NONE));
    }

    @Test
    void ulps_are_counted_across_zero_and_a_nan_is_as_far_as_can_be() {
        assertEquals(1, of(new float[] {1}, new float[] {Math.nextUp(1f)}).maxUlp());
        assertEquals(
                2,
                of(new float[] {Float.MIN_VALUE}, new float[] {-Float.MIN_VALUE})
                        .maxUlp());
        CastError nan = of(new float[] {1}, new float[] {Float.NaN});
        assertEquals(Long.MAX_VALUE, nan.maxUlp());
        assertTrue(Double.isNaN(nan.maxError()));
        assertTrue(Double.isNaN(nan.cosine()));
    }

    @Test
    void tensors_of_different_shapes_are_refused() {
        try (Arena arena = Arena.ofConfined()) {
            Tensor a = Tensor.ofFloats(arena, "a", Shape.of(2), 1, 2);
            Tensor b = Tensor.ofFloats(arena, "b", Shape.of(1, 2), 1, 2);
            assertThrows(IllegalArgumentException.class, () -> CastError.between(a, b));
        }
    }
}
