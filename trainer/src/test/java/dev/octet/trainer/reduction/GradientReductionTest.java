package dev.octet.trainer.reduction;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.scale.MsampScale;
import dev.octet.trainer.collective.CodeSum;
import dev.octet.trainer.collective.RankThreads;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GradientReductionTest {
    private static final Float8Format E4M3 = Float8Format.E4M3FN;

    private static List<String[]> rows(String kind) throws IOException {
        Path golden = Path.of(System.getProperty("octet.testdata"), "golden", "training", "gradient_reductions.csv");
        return Files.readAllLines(golden).stream()
                .map(line -> line.split(",", -1))
                .filter(row -> row[0].equals(kind))
                .toList();
    }

    private static float bits(String hex) {
        return Float.intBitsToFloat(Integer.parseUnsignedInt(hex, 16));
    }

    private static float[] floats(String hex) {
        float[] all = new float[hex.length() / 8];
        for (int i = 0; i < all.length; i++) {
            all[i] = bits(hex.substring(8 * i, 8 * i + 8));
        }
        return all;
    }

    private static float[] amaxes(List<float[]> gradients) {
        float[] amaxes = new float[gradients.size()];
        for (int r = 0; r < amaxes.length; r++) {
            amaxes[r] = RankGradient.amax(gradients.get(r));
        }
        return amaxes;
    }

    private static float[][] copies(List<float[]> gradients) {
        return gradients.stream().map(float[]::clone).toArray(float[][]::new);
    }

    @ParameterizedTest
    @EnumSource(
            names = {"F32", "NCCL"},
            mode = EnumSource.Mode.EXCLUDE)
    void codes_and_scales_are_those_of_the_formulas_in_torch(GradientReduction reduction) throws IOException {
        Map<String, List<float[]>> inputs = new HashMap<>();
        for (String[] row : rows("in")) {
            inputs.put(
                    row[1] + row[2],
                    Arrays.stream(row[3].split(";")).map(h -> floats(h)).toList());
        }
        int seen = 0;
        for (String[] row : rows("out")) {
            if (row[2].equals(reduction.text())) {
                MsampScale scale = row[3].equals("quirks") ? MsampScale.ORIGINAL : MsampScale.MENDED;
                ReductionRule rule = new ReductionRule(reduction, scale, Integer.parseInt(row[4]));
                List<float[]> gradients = requireNonNull(inputs.get(row[1] + row[4]));
                SimulatedRanks ranks = new SimulatedRanks(rule, bits(row[5]), bits(row[6]));
                ranks.agree(amaxes(gradients));
                byte[] codes = new byte[gradients.getFirst().length];
                int saturated = ranks.sum(copies(gradients), codes.length, codes);
                String what = String.join(",", Arrays.copyOf(row, 7));
                assertEquals(row[7], HexFormat.of().formatHex(codes), what);
                assertEquals(bits(row[8]), ranks.multiplier(), what);
                assertEquals(bits(row[9]), ranks.kept(), what);
                assertEquals(Integer.parseInt(row[10]), saturated, what);
                seen++;
            }
        }
        assertEquals(5 * 11 * 2 * 2, seen);
    }

    @Test
    void without_mu_ddp_leaves_room_of_the_root_of_ranks_and_the_others_none() throws IOException {
        for (String[] row : rows("out")) {
            if (bits(row[5]) == 1) {
                GradientReduction reduction =
                        requireNonNull(GradientReduction.byName().get(row[2]));
                assertEquals(
                        bits(row[6]),
                        ReductionRule.of(reduction, Integer.parseInt(row[4])).preScale());
            }
        }
    }

    @Test
    void mu_halves_when_more_than_its_ratio_saturates_and_doubles_over_its_window() throws IOException {
        float mu = AutoScale.first(4);
        assertEquals(0.5f, mu);
        int halved = 0;
        for (String[] row : rows("mu")) {
            float next = AutoScale.DEFAULT.next(mu, Long.parseLong(row[2]), Long.parseLong(row[3]), bits(row[4]));
            assertEquals(bits(row[5]), next, "step " + row[1]);
            halved += next < mu ? 1 : 0;
            mu = next;
        }
        assertEquals(20, halved);
        float free = 1;
        for (int i = 0; i < 1000; i++) {
            free = AutoScale.DEFAULT.next(free, 0, 100, 1);
        }
        assertEquals(2, free, 2e-4f); // a thousand roundings to FP32;
    }

    /** All sums, by double arithmetic of their own. */
    @Test
    void a_hop_rounds_to_half_and_then_to_e4m3_and_saturates() {
        int twice = 0;
        for (int x = 0; x < 256; x++) {
            for (int y = 0; y < 256; y++) {
                float exact = E4M3.decode(x) + E4M3.decode(y);
                float got = E4M3.decode(CodeSum.of((byte) x, (byte) y) & 0xFF);
                if (Float.isNaN(exact)) {
                    assertTrue(Float.isNaN(got));
                } else {
                    float half = Float.float16ToFloat(Float.floatToFloat16(exact));
                    float nearest = nearest(half);
                    assertEquals(nearest, got + 0f, x + " + " + y); // + 0: either zero
                    twice += nearest == nearest(exact) ? 0 : 1;
                }
            }
        }
        assertEquals(0, twice, "half has more than twice the digits of E4M3, so its rounding does not show");
        assertEquals(448, E4M3.decode(CodeSum.of((byte) E4M3.maxCode(), (byte) E4M3.maxCode()) & 0xFF));
    }

    private static float nearest(float x) {
        float best = 0;
        for (int c = 0; c < 256; c++) {
            float v = E4M3.decode(c);
            double gain = Math.abs((double) best - x) - Math.abs((double) v - x);
            if (!Float.isNaN(v) && (gain > 0 || (gain == 0 && c % 2 == 0 && v != best))) {
                best = v;
            }
        }
        return best;
    }

    @Test
    void sums_of_alike_ranks_saturate_under_legacy_and_not_under_ddp_with_few_ranks() {
        float[] gradient = ramp();
        List<float[]> four = List.of(gradient, gradient, gradient, gradient);
        assertEquals(750, saturated(GradientReduction.LEGACY, four, 1), 25);
        assertEquals(500, saturated(GradientReduction.DDP, four, 0.5f), 40);
        assertEquals(0, saturated(GradientReduction.DDP, four, 0.2f));
    }

    private static float[] ramp() {
        float[] gradient = new float[1000];
        for (int i = 0; i < gradient.length; i++) {
            gradient[i] = 448f * (i + 1) / gradient.length;
        }
        return gradient;
    }

    private static int saturated(GradientReduction reduction, List<float[]> gradients, float preScale) {
        SimulatedRanks ranks = new SimulatedRanks(ReductionRule.of(reduction, gradients.size()), 1, preScale);
        ranks.agree(amaxes(gradients));
        return ranks.sum(copies(gradients), 1000, new byte[1000]);
    }

    @Test
    void mu_brings_the_saturation_of_a_sum_below_its_ratio() {
        float[] gradient = ramp();
        List<float[]> eight = List.of(gradient, gradient, gradient, gradient, gradient, gradient, gradient, gradient);
        float mu = AutoScale.first(8);
        int steps = 0;
        int saturated = saturated(GradientReduction.MIN_SCALE, eight, mu);
        assertTrue(saturated > 0);
        while (saturated > 0) {
            mu = AutoScale.DEFAULT.next(mu, saturated, 1000, 448);
            saturated = saturated(GradientReduction.MIN_SCALE, eight, mu);
            steps++;
        }
        assertEquals(2, steps);
        assertTrue(AutoScale.DEFAULT.next(mu, 0, 1000, 448) > mu);
    }

    @Test
    void an_infinity_survives_the_sum_as_nan_unless_the_quirks_stay() {
        List<float[]> two = List.of(new float[] {1, 2}, new float[] {Float.POSITIVE_INFINITY, 2});
        for (MsampScale scale : List.of(MsampScale.MENDED, MsampScale.ORIGINAL)) {
            for (GradientReduction reduction : GradientReduction.values()) {
                SimulatedRanks ranks = new SimulatedRanks(new ReductionRule(reduction, scale, 2), 1, 1);
                ranks.agree(amaxes(two));
                byte[] sums = new byte[2];
                ranks.sum(copies(two), 2, sums);
                assertEquals(!scale.quirks(), Float.isNaN(E4M3.decode(sums[0] & 0xFF)), reduction.text());
            }
        }
    }

    @Test
    void codes_that_a_rank_accumulated_are_brought_to_the_shared_scale() {
        float[] gradient = {0.5f, -0.011f, 0.3f, 0};
        RankGradient rank = new RankGradient(ReductionRule.of(GradientReduction.MIN_SCALE, 2), 1, 1);
        float own = rank.announce(RankGradient.amax(gradient));
        assertEquals(512, own);
        rank.agree(own / 64);
        byte[] direct = new byte[4];
        rank.encode(gradient.clone(), 4, direct);
        byte[] accumulated = new byte[4];
        for (int i = 0; i < 4; i++) {
            accumulated[i] = (byte) E4M3.encode(gradient[i] * own, Overflow.SATURATE);
        }
        rank.requantise(own, 4, new float[4], accumulated);
        assertArrayEquals(direct, accumulated);
    }

    @ParameterizedTest
    @EnumSource(
            names = {"F32", "NCCL"},
            mode = EnumSource.Mode.EXCLUDE)
    void ranks_with_collectives_of_their_own_have_the_bytes_of_simulated_ones(GradientReduction reduction) {
        int n = 3;
        Random random = new Random(7);
        List<float[]> gradients = new ArrayList<>();
        for (int r = 0; r < n; r++) {
            float[] g = new float[500];
            for (int i = 0; i < g.length; i++) {
                g[i] = (float) (random.nextGaussian() * Math.pow(10, -r));
            }
            gradients.add(g);
        }
        ReductionRule rule = ReductionRule.of(reduction, n);
        SimulatedRanks simulated = new SimulatedRanks(rule, 4, rule.preScale());
        simulated.agree(amaxes(gradients));
        byte[] sums = new byte[500];
        simulated.sum(copies(gradients), 500, sums);
        List<RankGradient> ranks = new ArrayList<>();
        for (int r = 0; r < n; r++) {
            ranks.add(new RankGradient(rule, 4, rule.preScale()));
        }
        List<byte[]> codes = RankThreads.run(
                n,
                Duration.ofSeconds(20),
                others -> ranks.get(others.rank())
                        .average(gradients.get(others.rank()).clone(), others));
        for (int r = 0; r < n; r++) {
            assertArrayEquals(sums, codes.get(r), "rank " + r);
            assertEquals(simulated.multiplier(), ranks.get(r).multiplier());
            assertEquals(simulated.kept(), ranks.get(r).kept());
        }
    }
}
