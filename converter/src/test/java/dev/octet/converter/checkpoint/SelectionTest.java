package dev.octet.converter.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.Shape;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class SelectionTest {
    private static final Shape MATRIX = Shape.of(64, 32);
    private static final String LINEAR = "model.layers.0.mlp.up_proj.weight";
    private static final List<String> LEFT =
            List.of("lm_head.weight", "model.embed_tokens.weight", "model.layers.0.block_sparse_moe.gate.weight");

    private static List<Pattern> patterns(String... texts) {
        return Stream.of(texts).map(Pattern::compile).toList();
    }

    @Test
    void heads_embeddings_and_routers_are_taken_only_when_a_pattern_includes_them() {
        assertTrue(Selection.ALL_LINEARS.takes(LINEAR, MATRIX));
        for (String name : LEFT) {
            assertFalse(Selection.ALL_LINEARS.takes(name, MATRIX), name);
            Selection with = new Selection(List.of(), List.of(), patterns(Pattern.quote(name)), Map.of());
            assertTrue(with.takes(name, MATRIX), name);
            assertEquals(
                    List.of(name),
                    LEFT.stream().filter(n -> with.takes(n, MATRIX)).toList());
        }
    }

    @Test
    void what_is_kept_is_not_taken_even_when_a_pattern_includes_it() {
        assertFalse(new Selection(patterns("up_proj"), List.of(), patterns("."), Map.of()).takes(LINEAR, MATRIX));
        assertFalse(new Selection(List.of(), patterns("down_proj"), patterns("."), Map.of()).takes(LINEAR, MATRIX));
        assertFalse(new Selection(List.of(), List.of(), patterns("."), Map.of(LINEAR, "too large an error"))
                .takes(LINEAR, MATRIX));
    }

    @Test
    void norms_and_what_is_no_matrix_are_never_taken() {
        Selection everything = new Selection(List.of(), List.of(), patterns("."), Map.of());
        assertFalse(everything.takes("model.norm.weight", Shape.of(32)));
        assertFalse(everything.takes("model.layers.0.mlp.up_proj.bias", Shape.of(64)));
    }
}
