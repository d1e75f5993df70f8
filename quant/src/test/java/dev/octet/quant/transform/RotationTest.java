package dev.octet.quant.transform;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.SplittableRandom;
import java.util.stream.DoubleStream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RotationTest {
    private static final int[] SIZES = {1, 2, 4, 8, 12, 16, 20, 24, 28, 36, 44, 48, 60, 64, 72, 80, 96, 112, 384};

    @ParameterizedTest
    @EnumSource(Rotation.Kind.class)
    void rows_are_orthogonal_and_have_length_one(Rotation.Kind kind) {
        for (int size : SIZES) {
            assertOrthogonal(Rotation.of(kind, size, 7).matrix());
        }
        assertOrthogonal(Rotation.of(kind, 6, 7).matrix());
        assertOrthogonal(Rotation.of(kind, 92 + 7, 7).matrix());
    }

    private static void assertOrthogonal(double[][] r) {
        for (int i = 0; i < r.length; i++) {
            for (int j = 0; j <= i; j++) {
                double dot = 0;
                for (int k = 0; k < r.length; k++) {
                    dot += r[i][k] * r[j][k];
                }
                assertEquals(i == j ? 1 : 0, dot, 1e-13, r.length + ": " + i + ", " + j);
            }
        }
    }

    @Test
    void elements_of_a_Hadamard_matrix_have_one_magnitude() {
        for (int size : SIZES) {
            double magnitude = 1 / Math.sqrt(size);
            for (double[] row : Rotation.of(Rotation.Kind.RANDOM, size, 3).matrix()) {
                DoubleStream.of(row).forEach(x -> assertEquals(magnitude, Math.abs(x), 1e-15, "size " + size));
            }
        }
    }

    /** Hidden sizes and head sizes of models: 5120 = 256 x 20, 3584 = 128 x 28, 2880 = 16 x 180, 2304 = 64 x 36. */
    @ParameterizedTest
    @ValueSource(
            ints = {
                64, 80, 96, 128, 256, 576, 896, 1536, 2048, 2304, 2560, 2880, 3072, 3584, 4096, 5120, 6144, 7168, 8192
            })
    void sizes_of_models_have_a_Hadamard_matrix(int size) {
        assertTrue(Rotation.hasHadamard(size));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "64 | Hadamard 64 (Sylvester)",
                "48 | Hadamard 48 (4 x Paley 12)",
                "28 | Hadamard 28 (Paley 28)",
                "6 | random orthogonal 6",
                "92 | random orthogonal 92",
            })
    void the_text_says_which_construction_it_is(int size, String text) {
        assertEquals(text, Rotation.of(Rotation.Kind.HADAMARD, size, 1).text());
    }

    @Test
    void the_transposed_takes_it_back() {
        SplittableRandom random = new SplittableRandom(5);
        for (int size : new int[] {8, 12, 48, 6}) {
            double[] x = random.doubles(size + 3, -1, 1).toArray();
            double[] y = x.clone();
            Rotation rotation = Rotation.of(Rotation.Kind.RANDOM, size, 9);
            rotation.apply(y, 3);
            assertFalse(Arrays.equals(x, y));
            assertArrayEquals(Arrays.copyOf(x, 3), Arrays.copyOf(y, 3), "elements before it stay");
            rotation.applyTransposed(y, 3);
            assertArrayEquals(x, y, 1e-14);
        }
    }

    @Test
    void Sylvester_is_the_sum_over_common_bits() {
        double[][] h = Rotation.of(Rotation.Kind.HADAMARD, 16, 0).matrix();
        for (int i = 0; i < 16; i++) {
            for (int j = 0; j < 16; j++) {
                assertEquals(Integer.bitCount(i & j) % 2 == 0 ? 0.25 : -0.25, h[i][j]);
            }
        }
    }
}
