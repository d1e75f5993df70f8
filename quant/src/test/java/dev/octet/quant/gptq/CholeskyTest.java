package dev.octet.quant.gptq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Tag("twins")
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CholeskyTest {
    private static double[] matrix(LowerTriangle layout, long seed) {
        SecondMoment moment = Samples.moment(Samples.correlatedRows(3 * layout.size(), layout.size(), seed));
        double[] a = new double[layout.length()];
        for (int i = 0; i < layout.paddedSize(); i++) {
            for (int j = 0; j < i && i < layout.size(); j++) {
                a[layout.index(i, j)] = moment.get(i, j);
            }
            a[layout.index(i, i)] = i < layout.size() ? moment.get(i, i) + 0.1 : 1;
        }
        return a;
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 15, 16, 17, 70})
    void the_factor_has_the_bits_of_the_three_loops_of_the_textbook(int size) {
        LowerTriangle layout = new LowerTriangle(size);
        double[] a = matrix(layout, size);
        double[][] l = new double[size][size];
        for (int j = 0; j < size; j++) {
            for (int i = j; i < size; i++) {
                double rest = a[layout.index(i, j)];
                for (int t = 0; t < j; t++) {
                    rest = Math.fma(-l[i][t], l[j][t], rest);
                }
                l[i][j] = i == j ? Math.sqrt(rest) : rest / l[j][j];
            }
        }
        for (GptqTileKernel kernel : new GptqTileKernel[] {new GptqTileReference(), new GptqTileVector()}) {
            double[] factor = a.clone();
            assertTrue(Cholesky.factor(layout, factor, kernel));
            for (int i = 0; i < size; i++) {
                for (int j = 0; j <= i; j++) {
                    assertEquals(l[i][j], factor[layout.index(i, j)], kernel + " " + i + ", " + j);
                }
            }
        }
    }

    @Test
    void what_is_not_positive_definite_has_no_factor() {
        LowerTriangle layout = new LowerTriangle(40);
        for (double bad : new double[] {-1, 0, Double.NaN, Double.POSITIVE_INFINITY}) {
            for (int at : new int[] {0, 15, 16, 39}) {
                double[] a = matrix(layout, 1);
                a[layout.index(at, at)] = bad;
                assertFalse(Cholesky.factor(layout, a, GptqTileKernel.best()), bad + " at " + at);
            }
        }
    }

    @Test
    void every_element_of_the_triangle_has_a_place_of_its_own() {
        LowerTriangle layout = new LowerTriangle(50);
        boolean[] taken = new boolean[layout.length()];
        for (int i = 0; i < layout.paddedSize(); i++) {
            for (int j = 0; j <= i; j++) {
                int index = layout.index(i, j);
                assertFalse(taken[index]);
                taken[index] = true;
            }
        }
        assertEquals(10 * 256, layout.length());
        assertTrue(new LowerTriangle(LowerTriangle.MAX_SIZE).length() > 0);
    }
}
