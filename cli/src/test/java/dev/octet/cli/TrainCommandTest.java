package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.converter.Converter;
import dev.octet.formats.ModelFile;
import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.autodiff.Ties;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code octet train} as typed: what users write, and what they are told when it does not work. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TrainCommandTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path MODELS = TESTDATA.resolve("models/tiny-onnx");
    private static final String GPT2 =
            MODELS.resolve("gpt2_eager_script17.onnx").toString();
    private static final String TIED = "m.transformer.wte.weight and m.lm_head.weight transposed";
    private static final String SGD = "optimizer: {type: sgd, lr: 0.5, momentum: 0.9, nesterov: true}";

    @TempDir
    Path folder;

    private CommandLine train(String model, String run, List<String> lines, String... more) throws IOException {
        Path config = folder.resolve(run + ".yaml");
        Files.write(config, lines);
        List<String> words = new ArrayList<>(List.of(
                "train",
                model,
                "--config",
                config.toString(),
                "-o",
                folder.resolve(run).toString()));
        words.addAll(Arrays.asList(more));
        return CommandLine.run(words.toArray(String[]::new));
    }

    private List<JsonNode> metrics(String run) throws IOException {
        List<JsonNode> lines = new ArrayList<>();
        for (String line : Files.readAllLines(folder.resolve(run).resolve("metrics.jsonl"))) {
            lines.add(new ObjectMapper().readTree(line));
        }
        return lines;
    }

    /** Four sequences of eight tokens, as {@code make/tied_training.py} has them, in one batch. */
    private List<String> tokens(String... lines) throws IOException {
        ByteBuffer tokens = ByteBuffer.allocate(2 * 32).order(ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; i < 32; i++) {
            tokens.putShort((short) ((7 * i + 3 * (i / 8)) % 96));
        }
        Files.write(folder.resolve("tokens.bin"), tokens.array());
        List<String> all = new ArrayList<>(List.of("data: {train: tokens.bin, sequence: 8}", "batch_size: 4"));
        all.addAll(Arrays.asList(lines));
        return all;
    }

    private static void assertRefused(CommandLine line, ExitCode code, String told) {
        assertEquals(code, line.code(), line.err());
        assertTrue(line.err().contains(told), line.err());
    }

    /** What torch's GPT-2, whose output layer is its embedding, comes to: {@code make/tied_training.py}. */
    @ParameterizedTest
    @ValueSource(strings = {"gpt2_eager_script17.onnx", "gpt2_eager_dynamo18.onnx"})
    void an_export_whose_tie_was_broken_trains_as_the_tied_model_does_in_torch(String model) throws IOException {
        double[] torch = {
            4.632938385009766,
            4.006206512451172,
            3.1069693565368652,
            3.002628803253174,
            3.4257142543792725,
            2.833268642425537
        };
        List<String> config = tokens("loss: {type: causal-lm}", "steps: 6", SGD);
        CommandLine line = train(MODELS.resolve(model).toString(), "run", config);
        assertEquals(ExitCode.OK, line.code(), line.err());
        List<JsonNode> steps = metrics("run");
        for (int i = 0; i < torch.length; i++) {
            // steps of 0.5 with momentum make the most of differences in the last places
            assertEquals(torch[i], steps.get(i).get("loss").asDouble(), 1e-5, "step " + (i + 1));
        }
    }

    /** Scales with room for 2^30 times the amax, under which everything underflows. */
    @Test
    void what_the_guard_did_is_in_the_answer_for_programs() throws IOException {
        List<String> config = tokens(
                "loss: {type: causal-lm}",
                "steps: 4",
                "precision: {mode: fp8, recipe: delayed, margin: 30}",
                "guard: {every: 1, warm_up: 1}");
        String model = TESTDATA.resolve("models/tiny-hf/llama").toString();
        CommandLine line = train(model, "guarded", config, "--json");
        assertEquals(ExitCode.OK, line.code(), line.err());
        JsonNode guard = new ObjectMapper().readTree(line.out()).path("guard");
        long products = guard.path("products").asLong();
        assertTrue(
                products > 0
                        && guard.path("demotions").asLong()
                                >= guard.path("demoted").asLong(),
                line.out());
        assertTrue(guard.path("demoted").asLong() > 0, line.out());
        assertTrue(guard.path("products_in_fp8").asLong(-1) >= 0, line.out());
        assertEquals(0, guard.path("rollbacks").asLong(-1));
        JsonNode without = new ObjectMapper()
                .readTree(train(model, "unguarded", config.subList(0, config.size() - 1), "--json")
                        .out());
        assertTrue(without.path("guard").isNull(), without.toString());
    }

    @Test
    void what_is_done_with_ties_is_said_before_the_first_step_and_kept() throws IOException {
        List<String> config = tokens("loss: {type: causal-lm}", "steps: 1");
        CommandLine line = train(GPT2, "run", config, "--progress", "plain");
        String one = "tied: exported twice, trained as one parameter (ties: embeddings): " + TIED;
        assertTrue(line.err().contains(one), line.err());
        JsonNode manifest =
                new ObjectMapper().readTree(folder.resolve("run/run.json").toFile());
        assertEquals(one, manifest.at("/sessions/0/notes/0").asText());
        List<String> apart = tokens("loss: {type: causal-lm}", "steps: 1", "ties: none");
        JsonNode plan = new ObjectMapper()
                .readTree(train(GPT2, "dry", apart, "--dry-run", "--json").out());
        assertEquals(
                "equal at the start, trained separately (ties: none): " + TIED,
                plan.at("/notes/0").asText());
    }

    @Test
    void a_dry_run_says_what_a_start_would_do() throws IOException {
        List<String> config = tokens("loss: {type: causal-lm}", "steps: 4");
        String none = "there is no checkpoint to resume from";
        assertRefused(train(GPT2, "run", config, "--dry-run", "--resume"), ExitCode.USAGE, none);
        assertTrue(train(GPT2, "run", config, "--dry-run").out().contains(", new"));
        assertEquals(ExitCode.OK, train(GPT2, "run", config, "--steps", "2").code());
        String there = "there is a run in the folder, up to step 2";
        assertRefused(train(GPT2, "run", config, "--dry-run"), ExitCode.USAGE, there);
        assertRefused(train(GPT2, "run", config), ExitCode.USAGE, there);
        String on = train(GPT2, "run", config, "--dry-run", "--resume").out();
        assertTrue(on.contains(", continues after step 2"), on);
        List<String> other = tokens("loss: {type: causal-lm}", "steps: 5", "schedule: {type: linear}");
        assertRefused(train(GPT2, "run", other, "--dry-run", "--resume"), ExitCode.USAGE, "cannot resume");
        assertRefused(train(GPT2, "run", other, "--resume"), ExitCode.USAGE, "cannot resume");
        assertEquals(ExitCode.OK, train(GPT2, "run", config, "--resume").code());
        String done = "all 4 steps are done";
        assertRefused(train(GPT2, "run", config, "--dry-run", "--resume"), ExitCode.USAGE, done);
    }

    @Test
    void a_simulation_of_ranks_says_what_it_simulates_before_the_first_step_and_what_saturated_at_the_end()
            throws IOException {
        List<String> config = tokens(
                "loss: {type: causal-lm}",
                "steps: 2",
                "gradient_accumulation: 8",
                "precision: {gradient_reduction: legacy}");
        String plan =
                train(GPT2, "run", config, "--dry-run", "--simulate-ranks", "8").out();
        assertTrue(plan.contains("simulates 8 ranks: gradients of matrices are averaged by legacy in E4M3"), plan);
        String end = train(GPT2, "run", config, "--simulate-ranks", "8").out();
        assertTrue(
                Pattern.compile("(?m)^reduction +\\d+\\.\\d+ % of codes saturated, most at step [12]: ")
                        .matcher(end)
                        .find(),
                end);
        CommandLine json = train(GPT2, "other", config, "--simulate-ranks", "8", "--json");
        JsonNode reduction = new ObjectMapper().readTree(json.out()).get("reduction");
        assertTrue(reduction.get("saturated").asDouble() > 0, json.out());
        assertTrue(
                reduction.get("worst_saturated").asDouble()
                        >= reduction.get("worst_step_saturated").asDouble(),
                json.out());
        assertRefused(train(GPT2, "third", config, "--simulate-ranks", "0"), ExitCode.USAGE, "give one from 1 to 1024");
    }

    @Test
    void a_pattern_that_names_only_the_copy_is_refused() throws IOException {
        List<String> config = tokens("loss: {type: causal-lm}", "steps: 1", "freeze: [lm_head]");
        assertRefused(train(GPT2, "run", config), ExitCode.USAGE, "which is tied to");
        config.add("ties: none");
        assertEquals(ExitCode.OK, train(GPT2, "run", config).code());
    }

    /** Both places of the file hold what was trained; without the tie each holds its own. */
    @ParameterizedTest
    @CsvSource({"embeddings, 1", "none, 0"})
    void an_exported_run_has_the_trained_weights_in_both_places(String ties, int found) throws IOException {
        List<String> config = tokens("loss: {type: causal-lm}", "steps: 3", SGD, "ties: " + ties);
        assertEquals(ExitCode.OK, train(GPT2, "run", config).code());
        Path file = folder.resolve("m.onnx");
        String run = folder.resolve("run").toString();
        CommandLine line = CommandLine.run("export", run, "-o", file.toString(), "--target", "onnx");
        assertEquals(ExitCode.OK, line.code(), line.err());
        try (ModelFile model = ModelFile.open(file);
                Converter converter = Converter.of(model.model());
                ModelFile before = ModelFile.open(Path.of(GPT2));
                Converter untrained = Converter.of(before.model())) {
            assertEquals(found, Ties.find(converter.canonical().graph()).size());
            String wte = "m.transformer.wte.weight";
            assertTrue(constant(converter, wte)
                            .bytes()
                            .mismatch(constant(untrained, wte).bytes())
                    >= 0);
        }
    }

    private static Tensor constant(Converter converter, String name) {
        return converter.canonical().graph().initializers().entrySet().stream()
                .filter(e -> e.getKey().equals(name))
                .findFirst()
                .orElseThrow()
                .getValue()
                .tensor()
                .orElseThrow();
    }

    /** Ten texts of three to twelve words: batches of several lengths, each with a program of its own. */
    @Test
    void texts_of_different_lengths_are_tokenised_padded_and_trained_on() throws IOException {
        List<String> texts = new ArrayList<>();
        for (int words = 3; words < 13; words++) {
            texts.add("{\"text\": \""
                    + "the cat and ".repeat(4).substring(0, 3 * words).strip() + "\"}");
            texts.add("{\"text\": \"a dog ran over the hill" + " far".repeat(words) + "\"}");
        }
        Files.write(folder.resolve("t.jsonl"), texts);
        List<String> config = List.of(
                "data: {train: t.jsonl, tokenizer: '" + TESTDATA.resolve("tokenizer/words.json")
                        + "', pad_multiple: 4}",
                "loss: {type: causal-lm}",
                "batch_size: 2",
                "steps: 20",
                "optimizer: {lr: 1.0e-2}");
        CommandLine line = train(GPT2, "run", config);
        assertEquals(ExitCode.OK, line.code(), line.err());
        Set<Long> lengths = new TreeSet<>();
        List<JsonNode> steps = metrics("run");
        steps.forEach(s -> lengths.add(s.get("tokens").asLong() / 2));
        assertTrue(lengths.size() > 1 && lengths.stream().allMatch(l -> l % 4 == 0), lengths.toString());
        double first = steps.getFirst().get("loss").asDouble();
        double last = steps.getLast().get("loss").asDouble();
        assertTrue(last < 0.7 * first, first + " to " + last);
    }

    /** Evaluates texts of 4, 4, 9 and 13 tokens in batches of a size, with the weights of the model: the first step of a warm-up changes nothing. */
    private JsonNode evaluated(int batchSize) throws IOException {
        Files.write(
                folder.resolve("t.jsonl"),
                List.of(
                        "{\"text\": \"the cat\"}",
                        "{\"text\": \"a dog\"}",
                        "{\"text\": \"the cat and a dog ran far\"}",
                        "{\"text\": \"the cat and a dog ran far far far far far\"}"));
        List<String> config = List.of(
                "data: {train: t.jsonl, eval: t.jsonl, tokenizer: '" + TESTDATA.resolve("tokenizer/words.json")
                        + "', pad_multiple: 1}",
                "loss: {type: causal-lm}",
                "batch_size: " + batchSize,
                "steps: 2",
                "schedule: {type: linear, warmup: 1}",
                "eval_every: 1");
        String run = "batches-of-" + batchSize;
        CommandLine line = train(GPT2, run, config, "--steps", "1");
        assertEquals(ExitCode.OK, line.code(), line.err());
        JsonNode evaluation = metrics(run).getLast();
        String perplexity = String.format(
                Locale.ROOT, "%.3f", evaluation.get("eval_perplexity").asDouble());
        assertTrue(line.err().contains(", perplexity " + perplexity + " over 4 samples"), line.err());
        assertTrue(line.out().contains(", perplexity best " + perplexity), line.out());
        return evaluation;
    }

    @Test
    void perplexity_weighs_each_token_of_the_evaluation_alike_however_texts_are_put_into_batches() throws IOException {
        JsonNode together = evaluated(4);
        assertEquals(3 + 3 + 8 + 12, together.get("eval_positions").asLong());
        double loss = together.get("eval_loss").asDouble();
        assertEquals(Math.exp(loss), together.get("eval_perplexity").asDouble(), 1e-9 * Math.exp(loss));
        for (int size : new int[] {1, 2}) {
            JsonNode apart = evaluated(size);
            assertEquals(together.get("eval_positions"), apart.get("eval_positions"));
            assertEquals(loss, apart.get("eval_loss").asDouble(), 1e-6 * loss);
        }
    }

    @Test
    void packed_texts_make_full_sequences_of_one_length() throws IOException {
        List<String> texts = new ArrayList<>();
        for (int words = 1; words < 40; words++) {
            texts.add("{\"text\": \"the cat and a dog ran over the hill" + " far".repeat(words % 7) + "\"}");
        }
        Files.write(folder.resolve("t.jsonl"), texts);
        List<String> config = List.of(
                "data: {train: t.jsonl, tokenizer: '" + TESTDATA.resolve("tokenizer/words.json")
                        + "', pack: true, sequence: 16, eos: '[SEP]'}",
                "loss: {type: causal-lm}",
                "batch_size: 2",
                "steps: 20",
                "optimizer: {lr: 1.0e-2}");
        CommandLine line = train(GPT2, "run", config);
        assertEquals(ExitCode.OK, line.code(), line.err());
        List<JsonNode> steps = metrics("run");
        assertTrue(steps.stream().allMatch(s -> s.get("tokens").asLong() == 32), steps.toString());
        double first = steps.getFirst().get("loss").asDouble();
        double last = steps.getLast().get("loss").asDouble();
        assertTrue(last < 0.7 * first, first + " to " + last);
    }

    @Test
    void a_tokenizer_of_more_tokens_than_the_model_has_is_told_before_the_first_step_with_both_numbers()
            throws IOException {
        Files.writeString(folder.resolve("t.jsonl"), "{\"text\": \"the cat\"}\n".repeat(8));
        String json = Files.readString(TESTDATA.resolve("tokenizer/words.json"));
        Files.writeString(folder.resolve("tokenizer.json"), json.replaceAll("\"cat\": \\d+", "\"cat\": 32000"));
        List<String> config =
                List.of("data: {train: t.jsonl, tokenizer: tokenizer.json}", "loss: {type: causal-lm}", "steps: 1");
        CommandLine line = train(GPT2, "run", config);
        assertRefused(line, ExitCode.INPUT, "token 32000 is out of range: the model's embedding ");
        assertTrue(line.err().contains(" has 101 rows"), line.err());
        assertTrue(Files.notExists(folder.resolve("run")));
    }

    @Test
    void packing_without_knowing_what_ends_a_text_is_refused() throws IOException {
        Files.writeString(folder.resolve("t.jsonl"), "{\"text\": \"the cat\"}\n".repeat(8));
        String data = "data: {train: t.jsonl, pack: true, sequence: 4, tokenizer: '"
                + TESTDATA.resolve("tokenizer/words.json") + "'";
        for (String[] pair : new String[][] {
            {"}", "no file names the token that ends a text"}, {", eos: '</s>'}", "the tokenizer has no token '</s>'"}
        }) {
            List<String> config = List.of(data + pair[0], "loss: {type: causal-lm}", "steps: 1");
            CommandLine line = train(GPT2, "run", config);
            assertTrue(line.code() != ExitCode.OK && line.err().contains(pair[1]), line.err());
        }
    }

    @Test
    void a_tokenizer_that_is_not_there_is_named() throws IOException {
        Files.writeString(folder.resolve("t.jsonl"), "{\"text\": \"the cat\"}\n".repeat(8));
        List<String> config = List.of("data: {train: t.jsonl}", "loss: {type: causal-lm}", "steps: 1");
        CommandLine line = train(GPT2, "run", config);
        assertRefused(line, ExitCode.USAGE, "texts need the model's tokenizer, and there is no ");
        assertTrue(line.err().contains("add data: {tokenizer: tokenizer.json}"), line.err());
    }

    /** Images for the tiny ViT, one number of them and one label as given. */
    private List<String> images(float pixel, long label) throws IOException {
        float[] pixels = new float[8 * 3 * 16 * 16];
        Arrays.fill(pixels, 0.5f);
        pixels[5 * 3 * 16 * 16 + 7] = pixel;
        long[] labels = new long[8];
        labels[3] = label;
        try (Arena arena = Arena.ofConfined();
                NpzWriter writer = NpzWriter.stored(folder.resolve("images.npz"))) {
            writer.add(Tensor.ofFloats(arena, "pixel_values", Shape.of(8, 3, 16, 16), pixels));
            writer.add(Tensor.ofLongs(arena, "labels", Shape.of(8), labels));
            writer.commit();
        }
        return List.of(
                "data: {train: images.npz, shuffle: false}",
                "loss: {type: cross-entropy}",
                "batch_size: 2",
                "steps: 4");
    }

    @Test
    void numbers_that_are_none_and_labels_that_are_no_class_are_named_where_they_stand() throws IOException {
        String vit = MODELS.resolve("vit_eager_script17.onnx").toString();
        CommandLine good = train(vit, "good", images(1, 1));
        assertEquals(ExitCode.OK, good.code(), good.err());
        assertRefused(
                train(vit, "nan", images(Float.NaN, 1)),
                ExitCode.INPUT,
                "sample 5 of array 'pixel_values' has the value NaN at element 7");
        assertRefused(train(vit, "label", images(1, 99)), ExitCode.INPUT, "label [1] is 99, classes are 0 to 4");
        assertRefused(train(vit, "negative", images(1, -1)), ExitCode.INPUT, "label [1] is -1");
        // one that is ignored does no harm
        assertEquals(ExitCode.OK, train(vit, "ignored", images(1, -100)).code());
    }

    private static String taughtBy(Path teacher, String keys) {
        return "loss: {type: causal-lm, distillation: {teacher: '" + teacher + "'" + keys + "}}";
    }

    @Test
    void a_run_with_teacher_and_labels_shows_both() throws IOException {
        Path teacher = MODELS.resolve("llama_eager_script17.onnx");
        List<String> config = tokens(taughtBy(teacher, ", weight: 0.5, temperature: 2"), "steps: 5");
        CommandLine line = train(GPT2, "run", config, "--progress", "plain");
        assertEquals(ExitCode.OK, line.code(), line.err());
        assertTrue(line.err().contains("at temperature 2.0, which weighs 0.5"), line.err());
        JsonNode step = metrics("run").getFirst();
        double sum =
                step.get("task_loss").asDouble() + step.get("distillation_loss").asDouble();
        assertEquals(sum / 2, step.get("loss").asDouble(), 1e-6);
    }

    @Test
    void a_hugging_face_folder_teaches() throws IOException {
        Path teacher = TESTDATA.resolve("models/tiny-hf/gpt2");
        CommandLine line = train(GPT2, "run", tokens(taughtBy(teacher, ""), "steps: 1"));
        assertEquals(ExitCode.OK, line.code(), line.err());
        // the student is an export of its teacher, and knows all already
        assertEquals(0, metrics("run").getFirst().get("loss").asDouble(), 1e-9);
    }

    @Test
    void a_teacher_that_does_not_fit_or_is_not_there_is_named_before_any_step() throws IOException {
        Path vit = MODELS.resolve("vit_eager_script17.onnx");
        assertRefused(
                train(GPT2, "vit", tokens(taughtBy(vit, ""), "steps: 1")),
                ExitCode.INPUT,
                "the teacher needs inputs [pixel_values]");
        Path none = folder.resolve("none.onnx");
        assertRefused(train(GPT2, "none", tokens(taughtBy(none, ""), "steps: 1")), ExitCode.IO, "none.onnx");
        Path tensors = TESTDATA.resolve("models/op-grad/add_both.safetensors");
        assertRefused(
                train(GPT2, "tensors", tokens(taughtBy(tensors, ""), "steps: 1")),
                ExitCode.INPUT,
                "tensors but no graph");
        assertTrue(Files.notExists(folder.resolve("vit/metrics.jsonl")));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "precision: {mode: O1, master_weights: true} | choose mode: O2",
                "precision: {mode: bf16, recipe: delayed}    | choose mode: fp8",
                "precision: {loss_scale: {type: torch}}      | choose mode: fp16",
                "optimizer: {type: sgd, nesterov: true}      | add momentum",
            })
    void a_configuration_that_contradicts_itself_exits_2_and_says_what_would_work(String key, String told)
            throws IOException {
        assertRefused(train(GPT2, "run", tokens("loss: {type: causal-lm}", "steps: 1", key)), ExitCode.USAGE, told);
    }
}
