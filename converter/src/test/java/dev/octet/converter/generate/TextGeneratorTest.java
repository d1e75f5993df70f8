package dev.octet.converter.generate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.converter.ModelSource;
import dev.octet.converter.data.Batch;
import dev.octet.converter.runtime.OnnxRuntimeSession;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.stream.LongStream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Texts continued beside what transformers' greedy generation gives ({@code golden/generate/greedy.json}). */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TextGeneratorTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path MODELS = TESTDATA.resolve("models/tiny-hf");
    private static final long END = 2; // eos_token_id of the models here

    private static TextGenerator open(String model) throws IOException {
        try (ModelSource source = ModelSource.openForGeneration(MODELS.resolve(model))) {
            return source.generator(1);
        }
    }

    private static GeneratedTokens generated(String model, Sampling sampling, int most, Set<Long> ends, Long... prompt)
            throws IOException {
        try (TextGenerator generator = open(model)) {
            TextGenerator.Settings settings = new TextGenerator.Settings(most, sampling, ends);
            return generator.generate(List.of(prompt), settings, new SplittableRandom(7), token -> {});
        }
    }

    static List<JsonNode> cases() throws IOException {
        List<JsonNode> cases = new ArrayList<>();
        new ObjectMapper()
                .readTree(TESTDATA.resolve("golden/generate/greedy.json").toFile())
                .forEach(cases::add);
        return cases;
    }

    private static List<Long> tokens(JsonNode array) {
        return LongStream.range(0, array.size())
                .map(i -> array.get((int) i).asLong())
                .boxed()
                .toList();
    }

    @ParameterizedTest
    @MethodSource("cases")
    void greedy_tokens_are_those_of_transformers(JsonNode given) throws IOException {
        List<Long> expected = tokens(given.path("tokens"));
        List<Long> heard = new ArrayList<>();
        try (TextGenerator generator = open(given.path("model").asText())) {
            TextGenerator.Settings settings = new TextGenerator.Settings(12, Sampling.GREEDY, Set.of(END));
            GeneratedTokens made =
                    generator.generate(tokens(given.path("prompt")), settings, new SplittableRandom(1), heard::add);
            assertEquals(expected, made.tokens());
            assertEquals(expected, heard);
            assertEquals(
                    expected.getLast() == END ? GeneratedTokens.End.END_OF_TEXT : GeneratedTokens.End.LENGTH,
                    made.end());
        }
    }

    /** In these all roundings are of a token alone, or by scales that are fixed, so that a cache changes none of them. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "ct-fp8-dynamic",
                "ct-fp8-static",
                "ct-fp8-weights-only",
                "ct-int8",
                "ct-nvfp4",
                "hf-fp8-block",
                "torchao-fp8-dynamic"
            })
    void a_quantised_model_says_what_the_graph_without_a_cache_computes(String name) throws IOException {
        Path folder = TESTDATA.resolve("checkpoints/foreign").resolve(name);
        List<Long> whole = new ArrayList<>(List.of(5L, 17L, 40L));
        try (ModelSource source = ModelSource.open(folder, ModelSource.Activations.AS_CONSUMERS);
                OnnxRuntimeSession session = source.load(1);
                Arena arena = Arena.ofShared()) {
            for (int i = 0; i < 8; i++) {
                long[] ids = whole.stream().mapToLong(t -> t).toArray();
                Shape shape = Shape.of(1, ids.length);
                Map<String, Tensor> fed = Map.of(
                        "input_ids",
                        Tensor.ofLongs(arena, "input_ids", shape, ids),
                        "attention_mask",
                        Tensor.ofLongs(
                                arena,
                                "attention_mask",
                                shape,
                                LongStream.generate(() -> 1).limit(ids.length).toArray()));
                try (OnnxRuntimeSession.Outputs outputs = session.run(new Batch(0, 1, fed))) {
                    float[] logits = outputs.read("logits").toFloats();
                    int vocabulary = logits.length / ids.length;
                    float[] last = Arrays.copyOfRange(logits, logits.length - vocabulary, logits.length);
                    whole.add((long) Sampling.GREEDY.choose(last, new SplittableRandom(0)));
                }
            }
        }
        try (ModelSource source = ModelSource.openForGeneration(folder);
                TextGenerator generator = source.generator(1)) {
            TextGenerator.Settings settings = new TextGenerator.Settings(8, Sampling.GREEDY, Set.of());
            GeneratedTokens made =
                    generator.generate(whole.subList(0, 3), settings, new SplittableRandom(0), token -> {});
            assertEquals(whole.subList(3, whole.size()), made.tokens());
        }
    }

    @Test
    void a_text_ends_where_learned_positions_do() throws IOException {
        // gpt2-hub has 32 positions: the last token that is run stands at the last of them
        GeneratedTokens made = generated("gpt2-hub", Sampling.GREEDY, 100, Set.of(), 5L, 6L);
        assertEquals(GeneratedTokens.End.POSITIONS, made.end());
        assertEquals(32 + 1, 2 + made.tokens().size());
    }

    @Test
    void the_same_seed_draws_the_same_tokens_and_a_temperature_changes_them() throws IOException {
        Sampling hot = new Sampling(2, 0, 1);
        List<Long> once = generated("llama", hot, 20, Set.of(), 5L).tokens();
        assertEquals(once, generated("llama", hot, 20, Set.of(), 5L).tokens());
        assertNotEquals(
                once, generated("llama", Sampling.GREEDY, 20, Set.of(), 5L).tokens());
    }

    @Test
    void a_token_that_is_none_of_the_vocabulary_is_refused() {
        InvalidDataException e = assertThrows(
                InvalidDataException.class, () -> generated("mistral", Sampling.GREEDY, 1, Set.of(), 3L, 37L));
        assertEquals("token 37 of the prompt is none of the model's 37", e.what());
    }

    @Test
    void an_empty_prompt_and_one_that_is_too_long_are_refused() {
        InvalidDataException empty =
                assertThrows(InvalidDataException.class, () -> generated("mistral", Sampling.GREEDY, 1, Set.of()));
        assertTrue(empty.what().contains("no tokens"), empty.what());
        Long[] many = LongStream.range(0, 33).map(i -> 3).boxed().toArray(Long[]::new);
        InvalidDataException longer = assertThrows(
                InvalidDataException.class, () -> generated("gpt2-hub", Sampling.GREEDY, 1, Set.of(), many));
        assertEquals("the prompt has 33 tokens, the model has 32 positions", longer.what());
    }

    @Test
    void a_model_that_does_not_predict_the_next_token_is_refused_with_those_that_do() {
        UnsupportedModelException e = assertThrows(UnsupportedModelException.class, () -> open("bert"));
        assertTrue(e.what().contains("BertForMaskedLM"), e.what());
        assertTrue(e.fix().contains("LlamaForCausalLM") && !e.fix().contains("Bert"), e.fix());
    }

    @Test
    void an_ONNX_file_is_refused() {
        Path onnx = TESTDATA.resolve("models/tiny-onnx/llama_eager_script17.onnx");
        UnsupportedModelException e =
                assertThrows(UnsupportedModelException.class, () -> ModelSource.openForGeneration(onnx));
        assertTrue(e.what().contains("no config.json"), e.what());
    }
}
