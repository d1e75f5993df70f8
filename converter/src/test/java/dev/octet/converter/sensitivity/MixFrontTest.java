package dev.octet.converter.sensitivity;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.Shape;
import dev.octet.quant.recipe.Recipes;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class MixFrontTest {
    private static LinearLayer layer(String weight, String group) {
        return new LinearLayer(weight, List.of(weight), List.of("x"), Shape.of(4, 4), false, 32, group);
    }

    private static List<MixGroup> random(SplittableRandom random, int groups, int formats, int sizes) {
        return IntStream.range(0, groups)
                .mapToObj(g -> {
                    List<MixGroup.Choice> choices = new ArrayList<>();
                    choices.add(new MixGroup.Choice(MixGroup.KEPT, 32L * sizes, 0));
                    for (int f = 0; f < formats; f++) {
                        choices.add(new MixGroup.Choice("f" + f, random.nextLong(1, 32L * sizes), random.nextDouble()));
                    }
                    return new MixGroup("g" + g, List.of(layer("w" + g, "g" + g)), choices);
                })
                .toList();
    }

    /** The least loss within {@code bits} of all mixes, one by one. */
    private static double exhaustive(List<MixGroup> groups, int at, long bits) {
        if (bits < 0) {
            return Double.POSITIVE_INFINITY;
        }
        if (at == groups.size()) {
            return 0;
        }
        return groups.get(at).choices().stream()
                .mapToDouble(c -> c.loss() + exhaustive(groups, at + 1, bits - c.bits()))
                .min()
                .orElseThrow();
    }

    @Test
    void no_mix_within_a_size_has_less_loss() {
        SplittableRandom random = new SplittableRandom(7);
        for (int trial = 0; trial < 20; trial++) {
            List<MixGroup> groups = random(random, 6, 3, 40);
            MixFront front = MixFront.of(groups);
            assertTrue(front.exact());
            for (long bits = 100; bits < 6 * 32 * 40; bits += 317) {
                double best = exhaustive(groups, 0, bits);
                Optional<Mix> mix = front.within((double) bits);
                assertEquals(Double.isFinite(best), mix.isPresent());
                if (mix.isPresent()) {
                    assertEquals(best, mix.get().loss(), 1e-12);
                    assertTrue(mix.get().bits() <= bits);
                    assertSums(groups, mix.get());
                }
            }
        }
    }

    private static void assertSums(List<MixGroup> groups, Mix mix) {
        double loss = 0;
        long bits = 0;
        for (MixGroup group : groups) {
            String format = mix.formats().get(group.layers().getFirst().weight());
            MixGroup.Choice choice = group.choices().stream()
                    .filter(c -> c.format().equals(format))
                    .findFirst()
                    .orElseThrow();
            loss += choice.loss();
            bits += choice.bits();
        }
        assertEquals(mix.loss(), loss, 1e-12);
        assertEquals(mix.bits(), bits);
    }

    @Test
    void the_front_falls_from_the_smallest_mix_to_none_of_loss() {
        MixFront front = MixFront.of(random(new SplittableRandom(1), 8, 2, 64));
        for (int i = 1; i < front.size(); i++) {
            assertTrue(front.bits(i) > front.bits(i - 1));
            assertTrue(front.loss(i) < front.loss(i - 1));
        }
        assertEquals(0, front.loss(front.size() - 1));
        assertEquals(front.mix(0), front.within((double) front.bits(0)).orElseThrow());
        assertTrue(front.within(front.bits(0) - 1.0).isEmpty());
        assertEquals(front.mix(front.size() - 1), front.reaching(0).orElseThrow());
    }

    @Test
    void of_too_many_sizes_the_best_of_each_interval_goes_on_and_always_the_same() {
        int most = 100;
        List<MixGroup> groups = random(new SplittableRandom(3), 30, 4, 1_000_000);
        MixFront whole = MixFront.of(groups);
        MixFront front = MixFront.of(groups, most);
        assertTrue(whole.exact());
        assertFalse(front.exact());
        assertTrue(front.size() <= most);
        for (int i = 0; i < front.size(); i++) {
            assertEquals(front.mix(i), MixFront.of(groups, most).mix(i));
            assertSums(groups, front.mix(i));
        }
        // each group moves a mix by an interval at most, so that many intervals more have room for the exact one
        double width = (double) (whole.bits(whole.size() - 1) - whole.bits(0)) / (most - 1);
        for (double bits = whole.bits(0); bits < whole.bits(whole.size() - 1); bits += 7 * width) {
            double exact = whole.within(bits).orElseThrow().loss();
            double found =
                    front.within(bits + groups.size() * width).orElseThrow().loss();
            assertTrue(found <= exact, found + " > " + exact);
        }
    }

    @Test
    void what_engines_fuse_gets_one_format_and_only_one_that_all_can_have() {
        LinearLayer q = layer("q", "qkv");
        LinearLayer k = layer("k", "qkv");
        LinearLayer o = layer("o", "o");
        OutputLoss some = new OutputLoss(Double.NaN, 0.01, Double.NaN, 0);
        List<LayerLoss> eight = List.of(
                new LayerLoss(q, some, some, 128, ""),
                new LayerLoss(k, some, some, 128, ""),
                new LayerLoss(o, some, some, 128, ""));
        List<LayerLoss> four = List.of(
                new LayerLoss(q, some, some, 64, ""),
                new LayerLoss(k, OutputLoss.NONE, some, 512, "no"),
                new LayerLoss(o, some, some, 64, ""));
        Losses losses = new Losses(
                8,
                Optional.empty(),
                Double.NaN,
                List.of(
                        new FormatLoss(LinearFormat.of(Recipes.FP8_DYNAMIC), some, eight),
                        new FormatLoss(LinearFormat.of(Recipes.NVFP4), some, four)));
        MixFront front = MixFront.of(MixGroup.of(losses, losses::value, _ -> Optional.empty()));
        Set<String> seen = new HashSet<>();
        for (int i = 0; i < front.size(); i++) {
            Mix mix = front.mix(i);
            assertEquals(mix.formats().get("q"), mix.formats().get("k"));
            seen.add(mix.formats().getOrDefault("q", ""));
        }
        assertEquals(Set.of("fp8-dynamic", MixGroup.KEPT), seen);
        assertEquals(64, front.bits(0) - 2 * 128);
    }

    @Test
    void a_prediction_of_one_format_for_all_is_what_all_lost() {
        LinearLayer a = layer("a", "a");
        LinearLayer b = layer("b", "b");
        Losses losses = new Losses(
                8,
                Optional.empty(),
                Double.NaN,
                List.of(new FormatLoss(
                        LinearFormat.of(Recipes.FP8_DYNAMIC),
                        new OutputLoss(Double.NaN, 0.05, Double.NaN, 0),
                        List.of(
                                new LayerLoss(
                                        a, new OutputLoss(Double.NaN, 0.01, Double.NaN, 0), OutputLoss.NONE, 1, ""),
                                new LayerLoss(
                                        b, new OutputLoss(Double.NaN, 0.03, Double.NaN, 0), OutputLoss.NONE, 1, "")))));
        MixFront front = MixFront.of(MixGroup.of(losses, losses::value, _ -> Optional.empty()));
        assertEquals(0.05, front.mix(0).loss(), 1e-15);
    }

    @Test
    void a_loss_that_is_no_number_is_never_chosen() {
        LinearLayer a = layer("a", "a");
        OutputLoss nan = new OutputLoss(Double.NaN, Double.NaN, Double.NaN, 0);
        Losses losses = new Losses(
                8,
                Optional.empty(),
                Double.NaN,
                List.of(new FormatLoss(
                        LinearFormat.of(Recipes.FP8_DYNAMIC), nan, List.of(new LayerLoss(a, nan, nan, 1, "")))));
        MixFront front = MixFront.of(MixGroup.of(losses, losses::value, _ -> Optional.empty()));
        assertEquals(MixGroup.KEPT, front.reaching(1).orElseThrow().formats().get("a"));
    }
}
