package dev.octet.pipeline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.verify.Consumer;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ServingTest {
    /** The columns of the first table of README.md, which a test holds against the rules of {@code octet verify}. */
    private static final List<Consumer> COLUMNS =
            List.of(Consumer.VLLM, Consumer.SGLANG, Consumer.TENSORRT_LLM, Consumer.TRANSFORMERS);

    private static List<String> cells(Recipe recipe) throws IOException {
        Path readme =
                Path.of(System.getProperty("octet.testdata")).toAbsolutePath().resolveSibling("README.md");
        String row = Files.readAllLines(readme).stream()
                .filter(l -> l.startsWith("| `" + recipe.name() + "` "))
                .findFirst()
                .orElseThrow();
        return List.of(row.split("\\|", -1)).subList(2, 6);
    }

    @Test
    void the_layout_for_a_consumer_is_one_that_it_loads() throws IOException {
        for (Recipe recipe : Recipes.CHECKPOINT) {
            List<String> cells = cells(recipe);
            for (int c = 0; c < COLUMNS.size(); c++) {
                Consumer consumer = COLUMNS.get(c);
                if (cells.get(c).isBlank()) {
                    assertThrows(
                            InvalidOptionException.class,
                            () -> Serving.of(consumer, recipe, false),
                            consumer + " " + recipe.name());
                } else {
                    Serving serving = Serving.of(consumer, recipe, false);
                    assertTrue(
                            cells.get(c).contains("`" + serving.target().label() + "`"),
                            consumer + " " + recipe.name());
                }
            }
        }
    }

    @Test
    void statistics_add_what_has_static_scales_only() {
        assertEquals(
                "modelopt",
                Serving.of(Consumer.TENSORRT_LLM, Recipes.FP8_PER_TENSOR, true)
                        .target()
                        .label());
        assertEquals(
                "compressed-tensors",
                Serving.of(Consumer.SGLANG, Recipes.NVFP4, true).target().label());
    }

    @Test
    void hf_means_transformers() {
        assertEquals(Consumer.TRANSFORMERS, Serving.CONSUMERS.get("hf"));
        assertTrue(Serving.CONSUMERS.values().containsAll(Consumer.OF_CHECKPOINTS));
    }
}
