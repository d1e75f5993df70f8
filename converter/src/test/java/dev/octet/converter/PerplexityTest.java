package dev.octet.converter;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.data.NpzDataset;
import dev.octet.converter.evaluate.Evaluation;
import dev.octet.converter.evaluate.EvaluationOptions;
import dev.octet.converter.evaluate.PerplexityComparison;
import dev.octet.converter.runtime.OnnxRuntimeSession;
import dev.octet.formats.error.InvalidDataException;
import java.io.IOException;
import java.nio.file.Path;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Perplexities of causal language models against the losses that transformers finds. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PerplexityTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path GOLDEN = TESTDATA.resolve("golden/perplexity");

    private static PerplexityComparison compare(Path reference, Path candidate, int batchSize) throws IOException {
        try (ModelSource a = ModelSource.open(reference);
                ModelSource b = ModelSource.open(candidate);
                Converter converter = Converter.of(a.model());
                Dataset data = NpzDataset.open(GOLDEN.resolve("tokens.npz"), InputSpec.of(converter.source()));
                OnnxRuntimeSession x = a.load(1);
                OnnxRuntimeSession y = b.load(1)) {
            EvaluationOptions options =
                    EvaluationOptions.defaults().withBatchSize(batchSize).withPerplexity(true);
            PerplexityComparison found = Evaluation.compare(x, y, data, options).perplexity();
            assertNotNull(found);
            return found;
        }
    }

    private static JsonNode losses() throws IOException {
        return new ObjectMapper().readTree(GOLDEN.resolve("losses.json").toFile());
    }

    @ParameterizedTest
    @ValueSource(strings = {"models/tiny-hf/llama", "models/tiny-hf/gpt2", "checkpoints/qwen2"})
    void the_loss_is_that_of_transformers(String model) throws IOException {
        PerplexityComparison found = compare(TESTDATA.resolve(model), TESTDATA.resolve(model), 4);
        assertEquals(losses().path("tokens").asLong(), found.reference().tokens());
        double expected = losses().path(model).asDouble();
        assertEquals(expected, found.reference().loss(), expected * 1e-6);
        assertEquals(Math.exp(expected), found.candidate().perplexity(), Math.exp(expected) * 1e-5);
    }

    @Test
    void batches_do_not_matter() throws IOException {
        Path model = TESTDATA.resolve("models/tiny-hf/llama");
        assertEquals(
                compare(model, model, 1).reference().loss(),
                compare(model, model, 5).reference().loss(),
                1e-6);
    }

    @Test
    void an_onnx_file_and_the_folder_it_was_exported_from_have_the_same() throws IOException {
        PerplexityComparison found = compare(
                TESTDATA.resolve("models/tiny-hf/llama"),
                TESTDATA.resolve("models/tiny-onnx/llama_eager_dynamo18.onnx"),
                4);
        assertEquals(0, found.change(), 1e-5);
    }

    @Test
    void a_model_without_logits_is_refused() {
        Path bert = TESTDATA.resolve("models/tiny-hf/bert");
        assertThrows(InvalidDataException.class, () -> compare(bert, TESTDATA.resolve("models/tiny-hf/llama"), 4));
    }
}
