package dev.octet.trainer.reduction;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.quant.scale.MsampScale;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GradientReductionTest {
    private static float[] ones(int n) {
        float[] ones = new float[n];
        Arrays.fill(ones, 1);
        return ones;
    }

    private static List<float[]> ranks(String hex, int count) {
        List<float[]> ranks = new ArrayList<>();
        int each = hex.length() / 8 / count;
        for (int r = 0; r < count; r++) {
            float[] g = new float[each];
            for (int i = 0; i < each; i++) {
                int at = 8 * (r * each + i);
                g[i] = Float.intBitsToFloat(Integer.parseUnsignedInt(hex.substring(at, at + 8), 16));
            }
            ranks.add(g);
        }
        return ranks;
    }

    private static GradientReduction named(String key) {
        return GradientReduction.valueOf(key.toUpperCase(Locale.ROOT).replace('-', '_'));
    }

    @Test
    void every_reduction_has_the_codes_the_scale_and_the_saturated_share_of_torchs_emulation() throws IOException {
        List<String> rows = Files.readAllLines(
                Path.of(System.getProperty("octet.testdata"), "golden", "training", "msamp_reductions.csv"));
        assertEquals(60, rows.size());
        for (String row : rows) {
            String[] f = row.split(",", -1);
            List<float[]> ranks = ranks(f[3], Integer.parseInt(f[1]));
            GradientReduction.Mean mean = named(f[0]).mean(ranks, ones(ranks.size()), MsampScale.MENDED, 1);
            String where = f[0] + ", " + f[1] + " ranks, " + f[2];
            assertArrayEquals(HexFormat.of().parseHex(f[4]), mean.gradient().codes(), where);
            assertEquals(
                    Float.intBitsToFloat(Integer.parseUnsignedInt(f[5], 16)),
                    mean.gradient().scale(),
                    where);
            assertEquals(Long.parseLong(f[6]), mean.saturated(), where);
        }
    }

    @Test
    void equal_gradients_of_eight_ranks_saturate_without_room_and_do_not_with_one_over_the_root_of_ranks_eight_times_smaller() {
        List<float[]> ranks = Collections.nCopies(8, new float[] {1, 0.5f, 0.01f});
        assertEquals(2, GradientReduction.LEGACY.mean(ranks, ones(8), MsampScale.MENDED, 1).saturated());
        GradientReduction.Mean roomy = GradientReduction.MIN_SCALE.mean(ranks, ones(8), MsampScale.MENDED, 0.125f);
        assertEquals(0, roomy.saturated());
        assertEquals(1, roomy.gradient().numbers()[0], 0.07);
    }

    @Test
    void a_sum_is_rounded_at_each_hop() {
        byte one = 0x38;
        byte sixteen = 0x58;
        // 16 + 1 = 17 lies between 16 and 18, and goes to the even one each time
        assertEquals(sixteen, Fp8Sum.add(sixteen, one));
        assertArrayEquals(
                new byte[] {sixteen}, Fp8Sum.of(List.of(new byte[] {sixteen}, new byte[] {one}, new byte[] {one})));
        assertEquals(0x7E, Fp8Sum.add((byte) 0x7E, (byte) 0x7E));
        assertEquals(0x7F, Fp8Sum.add((byte) 0x7F, one) & 0x7F);
    }

    @Test
    void the_automatic_factor_halves_above_the_ratio_and_doubles_in_a_window() {
        AutoScale factor = AutoScale.DEFAULT;
        assertEquals(0.5f, factor.next(11, 1_000_000).factor());
        assertTrue(factor.next(10, 1_000_000).factor() > 1);
        for (int i = 0; i < 1000; i++) {
            factor = factor.next(0, 1_000_000);
        }
        assertEquals(2, factor.factor(), 1e-4);
    }
}
