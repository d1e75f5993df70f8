package dev.octet.quant.layout;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator.ReplaceUnderscores;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Patterns of compressed-tensors: what Python's {@code re.match} and string equality say of the same text and path. */
@DisplayNameGeneration(ReplaceUnderscores.class)
class ModulePatternTest {
    @ParameterizedTest
    @CsvSource({
        "lm_head, lm_head, true",
        "lm_head, model.lm_head, false",
        "lm_head, lm_head2, false",
        "re:lm_head, lm_head2, true",
        "re:lm_head$, lm_head2, false",
        "re:head, lm_head, false",
        "re:.*head, lm_head, true",
        "re:.*mlp\\.gate$, model.layers.0.mlp.gate, true",
        "re:.*mlp\\.gate$, model.layers.0.mlp.gate_proj, false",
        "re:model.layers.[01].*, model.layers.1.mlp, true",
        "re:model.layers.[01].*, model.layers.2.mlp, false",
        "re:, anything, true",
        "re:(?!.*experts).*, model.experts.0, false",
        "re:(?P<n>a)b, ab, true",
        "Linear, Linear, true",
    })
    void a_pattern_matches_as_in_python(String pattern, String path, boolean matches) {
        assertEquals(matches, ModulePattern.of(pattern).matches(path));
    }

    @ParameterizedTest
    @CsvSource({"Linear, true", "LinearBase, true", "linear, false", "Linear.weight, false", "lm_head, false"})
    void one_word_with_a_capital_looks_like_a_class(String name, boolean isClass) {
        assertEquals(
                isClass,
                assertInstanceOf(ModulePattern.Name.class, ModulePattern.of(name))
                        .isClass());
    }

    @ParameterizedTest
    @ValueSource(strings = {"re:(", "re:[a", "re:*", "re:(?P=n)a"})
    void what_java_cannot_read_is_invalid_and_matches_nothing(String text) {
        ModulePattern pattern = ModulePattern.of(text);

        assertInstanceOf(ModulePattern.Invalid.class, pattern);
        assertFalse(pattern.matches(""));
        assertEquals(text, pattern.text());
    }

    @ParameterizedTest
    @ValueSource(strings = {"re:(a+)+$", "re:(a|a)*$", "re:(.*a){20}$", "re:(a|aa)+$"})
    void an_expression_that_would_run_for_ages_gives_up(String text) {
        ModulePattern.Regex pattern = assertInstanceOf(ModulePattern.Regex.class, ModulePattern.of(text));

        assertFalse(pattern.matches("a".repeat(2000) + "!"));
        assertTrue(pattern.isSpent());
    }

    @Test
    void an_expression_nested_very_deeply_is_harmless() {
        String nested = "re:" + "(".repeat(4900) + "a" + ")".repeat(4900);

        assertFalse(ModulePattern.of(nested).matches("b"));
    }

    @Test
    void an_expression_at_the_longest_length_is_read_and_one_beyond_is_not() {
        String longest = "re:" + "a".repeat(ModulePattern.MAX_LENGTH - 3);

        assertInstanceOf(ModulePattern.Regex.class, ModulePattern.of(longest));
        assertInstanceOf(ModulePattern.Invalid.class, ModulePattern.of(longest + "a"));
    }

    @Test
    void an_ordinary_expression_stays_far_below_the_limit() {
        String path = "model.layers.61.mlp.experts.255.gate_proj".repeat(20);

        assertTrue(ModulePattern.of("re:.*layers.*mlp.*gate_proj$").matches(path));
    }
}
