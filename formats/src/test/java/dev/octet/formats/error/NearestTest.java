package dev.octet.formats.error;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class NearestTest {
    private static final List<String> VERBS = List.of("inspect", "calibrate", "quantize", "evaluate", "quickstart");

    @Test
    void a_swap_of_neighbours_is_one_error() {
        assertEquals(1, Nearest.distance("qunatize", "quantize"));
        assertEquals(3, Nearest.distance("kitten", "sitting"));
        assertEquals(4, Nearest.distance("", "abcd"));
        assertEquals(0, Nearest.distance("same", "same"));
    }

    @Test
    void the_nearest_name_comes_first() {
        assertEquals("quantize", Nearest.names("quantise", VERBS).getFirst());
        assertEquals("calibrate", Nearest.names("Calibrate", VERBS).getFirst());
    }

    @Test
    void the_beginning_of_a_name_is_near_to_it() {
        assertEquals(List.of("quickstart"), Nearest.names("quick", VERBS));
    }

    @Test
    void where_nothing_is_near_all_names_are_listed() {
        assertEquals(
                "valid: calibrate, evaluate, inspect, quantize, quickstart", Nearest.advice("zzzzzzzzzzzz", VERBS));
    }
}
