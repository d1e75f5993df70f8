package dev.octet.pipeline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.sensitivity.LinearLayer;
import dev.octet.converter.sensitivity.Mix;
import dev.octet.converter.sensitivity.MixFront;
import dev.octet.converter.sensitivity.MixGroup;
import dev.octet.formats.tensor.Shape;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What follows when a mix loses more than predicted. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class AutoMixTighteningTest {
    private static final MixFront FRONT = MixFront.of(IntStream.range(0, 24)
            .mapToObj(i -> new MixGroup(
                    "w" + i,
                    List.of(new LinearLayer("w" + i, List.of("n"), List.of("x"), Shape.of(4, 4), false, 32, "w" + i)),
                    List.of(
                            new MixGroup.Choice(MixGroup.KEPT, 512, 0),
                            new MixGroup.Choice("fp8-dynamic", 128, 0.001 * (1 + i)),
                            new MixGroup.Choice("nvfp4", 72, 0.01 * (1 + i)))))
            .toList());

    @ParameterizedTest
    @ValueSource(doubles = {1.01, 1.3, 2, 5})
    void a_loss_some_times_the_predicted_one_is_within_the_gate_at_the_second_attempt(double times) {
        double allowed = 0.2;
        Mix mix = FRONT.reaching(allowed).orElseThrow();
        double lost = times * mix.loss();
        assertTrue(lost > allowed);
        Mix next = AutoMix.tighter(FRONT, mix, lost, allowed).orElseThrow();
        assertTrue(times * next.loss() <= allowed, next.loss() + " times " + times);
        assertTrue(next.bits() > mix.bits());
    }

    @Test
    void a_loss_that_is_allowed_ends_the_search() {
        Mix mix = FRONT.reaching(0.2).orElseThrow();
        assertEquals(Optional.empty(), AutoMix.tighter(FRONT, mix, 0.2, 0.2));
    }

    @Test
    void a_model_that_gives_no_number_or_too_much_whatever_is_kept_is_not_written_as_it_was() {
        Mix mix = FRONT.reaching(0.2).orElseThrow();
        assertEquals(Optional.empty(), AutoMix.tighter(FRONT, mix, Double.POSITIVE_INFINITY, 0.2));
        assertEquals(Optional.empty(), AutoMix.tighter(FRONT, mix, Double.NaN, 0.2));
    }
}
