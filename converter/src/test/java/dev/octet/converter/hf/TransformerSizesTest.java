package dev.octet.converter.hf;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.tensor.Shape;
import java.io.IOException;
import java.nio.file.Path;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Sizes out of {@code config.json}, beside the tensors of the checkpoints it came with. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TransformerSizesTest {
    private static final Path TINY = Path.of(System.getProperty("octet.testdata"), "models/tiny-hf");

    private static ObjectNode config(String model) throws IOException {
        return ModelConfig.read(TINY.resolve(model)).orElseThrow();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "gpt2",
                "llama",
                "llama-linear",
                "llama3",
                "mistral",
                "qwen2",
                "qwen2-window",
                "qwen3",
                "gemma",
                "gemma2",
                "gemma3",
                "phi3",
                "olmo2",
                "smollm3",
                "granite",
                "cohere",
                "cohere2"
            })
    void parameters_are_as_many_as_the_graph_asks_the_checkpoint_for(String model) throws IOException {
        TransformerSizes sizes = TransformerSizes.of(config(model), model);
        long elements = HfImporter.blueprint(config(model), false, model).parameters().values().stream()
                .mapToLong(Shape::elementCount)
                .sum();
        assertEquals(elements, sizes.parameters());
    }

    @Test
    void mixtral_computes_with_some_of_its_experts() throws IOException {
        ObjectNode config = config("mistral").put("model_type", "mixtral");
        config.put("num_local_experts", 8).put("num_experts_per_tok", 2);
        TransformerSizes sizes = TransformerSizes.of(config, "here");
        assertEquals(6L * sizes.layers() * sizes.expertParameters(), sizes.parameters() - sizes.activeParameters());
    }

    @Test
    void a_model_type_whose_sizes_are_not_known_is_answered_with_those_that_are() throws IOException {
        UnsupportedModelException e =
                assertThrows(UnsupportedModelException.class, () -> TransformerSizes.of(config("bert"), "here"));
        assertTrue(e.fix().contains("llama"), e.fix());
    }

    @Test
    void a_missing_key_is_named() throws IOException {
        ObjectNode config = config("llama");
        config.remove("hidden_size");
        MalformedModelException e =
                assertThrows(MalformedModelException.class, () -> TransformerSizes.of(config, "here"));
        assertTrue(e.what().contains("hidden_size"), e.what());
    }

    @Test
    void heads_that_do_not_share_keys_evenly_are_refused() throws IOException {
        ObjectNode config = config("llama").put("num_key_value_heads", 3);
        assertThrows(MalformedModelException.class, () -> TransformerSizes.of(config, "here"));
    }
}
