package dev.octet.converter.compare;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.QuantType;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The loops for whole chunks against the one that takes pair after pair: the same numbers to the bit. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PairSumsTest {
    private static final int CHUNK = 2048;
    private static final List<NumberGrid> GRIDS = List.of(
            NumberGrid.plain(DType.F32),
            NumberGrid.plain(DType.BF16),
            NumberGrid.plain(DType.F16),
            NumberGrid.plain(DType.I8),
            NumberGrid.quantized(QuantType.E4M3FN, DType.F32),
            NumberGrid.quantized(QuantType.E4M3FN, DType.BF16),
            NumberGrid.quantized(QuantType.E2M1, DType.F8_E4M3FN),
            NumberGrid.quantized(QuantType.E5M2, DType.F32));

    @ParameterizedTest
    @CsvSource({"1e-3, 0", "0.3, 0", "0.02, 1", "1e-7, 2", "40, 3"})
    void whole_chunks_add_up_to_what_pair_after_pair_does(float noise, int oddities) {
        for (NumberGrid gridA : GRIDS) {
            for (NumberGrid gridB : GRIDS) {
                SplittableRandom random = new SplittableRandom(7 + oddities);
                PairSums chunks = new PairSums();
                PairSums pairs = new PairSums();
                for (int first = 0; first < 5 * CHUNK; first += CHUNK) {
                    int n = first == 0 ? 207 : CHUNK;
                    float[] a = new float[CHUNK];
                    float[] b = new float[CHUNK];
                    float[] sa = new float[CHUNK];
                    float[] sb = new float[CHUNK];
                    for (int i = 0; i < n; i++) {
                        sa[i] = (float) Math.scalb(random.nextDouble(0.5, 1), -4);
                        sb[i] = (float) Math.scalb(random.nextDouble(0.5, 1), -5);
                        a[i] = number(gridA, random.nextGaussian(), sa[i]);
                        b[i] = number(gridB, a[i] * (1 + noise * random.nextGaussian()), sb[i]);
                    }
                    for (int o = 0; o < oddities; o++) {
                        float[] into = random.nextBoolean() ? a : b;
                        into[random.nextInt(n)] = List.of(Float.NaN, Float.NEGATIVE_INFINITY, -0f, 0f, 1e30f, 1e-42f)
                                .get(random.nextInt(6));
                        (random.nextBoolean() ? sa : sb)[random.nextInt(n)] = random.nextInt(3);
                    }
                    chunks.add(first, a, sa, gridA, b, sb, gridB, n);
                    pairs.addEach(first, a, sa, gridA, b, sb, gridB, n);
                }
                assertSame(pairs, chunks, gridA + " and " + gridB);
            }
        }
    }

    private static float number(NumberGrid grid, double x, float multiplier) {
        if (grid.quantized()) {
            return grid.round((float) x, multiplier);
        }
        return grid.equals(NumberGrid.plain(DType.BF16)) ? BFloat16.toFloat(BFloat16.fromFloat((float) x)) : (float) x;
    }

    private static void assertSame(PairSums expected, PairSums actual, String what) {
        assertEquals(expected.count, actual.count, what);
        assertEquals(expected.signal, actual.signal, what);
        assertEquals(expected.noise, actual.noise, what);
        assertEquals(expected.squares, actual.squares, what);
        assertEquals(expected.product, actual.product, what);
        assertEquals(expected.maxError, actual.maxError, what);
        assertEquals(expected.maxUlp, actual.maxUlp, what);
        assertEquals(expected.amaxA, actual.amaxA, what);
        assertEquals(expected.amaxB, actual.amaxB, what);
        assertEquals(expected.differing, actual.differing, what);
        assertEquals(expected.zeroSigns, actual.zeroSigns, what);
        assertEquals(expected.notFinite, actual.notFinite, what);
        assertEquals(expected.apart, actual.apart, what);
        assertArrayEquals(expected.histogram, actual.histogram, what);
        assertSame(expected.towardA, actual.towardA, what + ", A");
        assertSame(expected.towardB, actual.towardB, what + ", B");
        assertEquals(expected.nearness(), actual.nearness(), what);
    }

    private static void assertSame(PairSums.Toward expected, PairSums.Toward actual, String what) {
        assertEquals(expected.beyondHalf, actual.beyondHalf, what);
        assertEquals(expected.farBeyondHalf, actual.farBeyondHalf, what);
        assertEquals(expected.moved, actual.moved, what);
        assertEquals(expected.saturated, actual.saturated, what);
        assertEquals(expected.maxUlp, actual.maxUlp, what);
    }
}
