package dev.octet.cli;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsFile;
import dev.octet.quant.statistics.TensorStatistics;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** {@code octet calibrate} on a Hugging Face folder. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
final class CalibrateFolderTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));

    @TempDir
    Path folder;

    private Path model;
    private Path texts;

    @BeforeEach
    void a_model_with_a_tokenizer() throws IOException {
        model = Files.createDirectory(folder.resolve("llama"));
        for (String file : List.of("config.json", "model.safetensors")) {
            Files.copy(TESTDATA.resolve("models/tiny-hf/llama").resolve(file), model.resolve(file));
        }
        Files.copy(TESTDATA.resolve("tokenizer/words.json"), model.resolve("tokenizer.json"));
        texts = folder.resolve("texts.jsonl");
        Files.writeString(
                texts,
                "{\"text\": \"the cat sat on the mat\"}\n{\"text\": \"dog\"}\n{\"text\": \"a dog ran far\"}\n"
                        .repeat(5));
    }

    private String at(String name) {
        return folder.resolve(name).toString();
    }

    private CommandLine calibrate(String... more) {
        String[] words = {"calibrate", model.toString(), "--data", texts.toString()};
        String[] all = Arrays.copyOf(words, words.length + more.length);
        System.arraycopy(more, 0, all, words.length, more.length);
        return CommandLine.run(all);
    }

    private static String refusal(CommandLine run) {
        assertEquals(ExitCode.INPUT, run.code(), run.err());
        return run.err();
    }

    @Test
    void the_tokenizer_is_found_in_the_folder_and_pieces_give_the_bytes_of_the_whole() throws IOException {
        CommandLine whole = calibrate("-o", at("whole"), "--json", "--quiet");
        assertEquals(ExitCode.OK, whole.code(), whole.err());
        JsonNode answer = new ObjectMapper().readTree(whole.out());
        assertEquals(15, answer.path("samples").asInt());
        assertEquals(21, answer.path("tensors").asInt());
        assertTrue(answer.path("non_finite").isEmpty());
        CommandLine pieces = calibrate("-o", at("pieces"), "--memory", "0", "--progress", "plain");
        assertTrue(pieces.err().contains("piece 2 of "), pieces.err());
        assertEquals(-1, Files.mismatch(folder.resolve("whole"), folder.resolve("pieces")));
        try (Stream<Path> left = Files.list(folder)) {
            assertEquals(4, left.count(), "model, texts and two statistics");
        }
    }

    @Test
    void experts_are_counted_by_the_tokens_that_reached_them_and_padding_reaches_none() throws IOException {
        for (String file : List.of("config.json", "model.safetensors")) {
            Files.copy(
                    TESTDATA.resolve("models/tiny-hf/mixtral").resolve(file),
                    model.resolve(file),
                    StandardCopyOption.REPLACE_EXISTING);
        }
        CommandLine run = calibrate("-o", at("s"), "--json", "--quiet");
        assertEquals(ExitCode.OK, run.code(), run.err());
        JsonNode layers = new ObjectMapper().readTree(run.out()).path("experts");
        assertEquals(2, layers.size());
        Statistics statistics = StatisticsFile.read(folder.resolve("s"));
        TensorStatistics queries = requireNonNull(statistics.tensors().get("model.layers.0.self_attn.q_proj"));
        long tokens = queries.count() / 16; // elements of a token
        for (JsonNode layer : layers) {
            long sum = 0;
            for (JsonNode one : layer.path("tokens")) {
                sum += one.asLong();
            }
            assertEquals(2 * tokens, sum, "each token has two experts: " + layer);
        }
        String text = calibrate("-o", at("t")).out();
        assertTrue(text.contains("tokens of experts"), text);
        assertTrue(text.contains("model.layers.1.block_sparse_moe.experts        5      0"), text);
        assertTrue(text.contains("an expert that no token reached"), text);
        CommandLine pieces = calibrate("-o", at("pieces"), "--memory", "0");
        assertEquals(ExitCode.OK, pieces.code(), pieces.err());
        assertEquals(-1, Files.mismatch(folder.resolve("s"), folder.resolve("pieces")));
    }

    @Test
    void statistics_of_two_parts_are_merged() throws IOException {
        calibrate("-o", at("a"), "--samples", "7");
        calibrate("-o", at("b"), "--samples", "7:8");
        assertEquals(
                ExitCode.OK,
                CommandLine.run("calibrate", "--merge", at("a"), at("b"), "-o", at("both"))
                        .code());
        Statistics both = StatisticsFile.read(folder.resolve("both"));
        assertEquals(15, both.samplesDone());
        assertTrue(both.tensors().containsKey("model.layers.1.self_attn.k"));
    }

    @Test
    void a_tokenizer_with_more_tokens_than_the_model_is_told_with_both_numbers() throws IOException {
        Path tokenizer = model.resolve("tokenizer.json");
        String json = Files.readString(tokenizer);
        JsonNode vocabulary = new ObjectMapper().readTree(json).path("model").path("vocab");
        String cat = "\"cat\": " + vocabulary.path("cat").asInt();
        assertTrue(json.contains(cat), json);
        Files.writeString(tokenizer, json.replace(cat, "\"cat\": 4711"));
        String told = refusal(calibrate("-o", at("s")));
        assertTrue(told.contains("4711") && told.contains("101"), told);
        assertFalse(Files.exists(folder.resolve("s")));
    }

    @Test
    void a_text_that_is_longer_than_the_model_is_told_with_the_option_that_cuts_it() throws IOException {
        Files.writeString(texts, "{\"text\": \"" + "the cat ".repeat(40) + "\"}\n");
        String told = refusal(calibrate("-o", at("s")));
        assertTrue(told.contains("64 positions") && told.contains("--max-length 64"), told);
        assertEquals(ExitCode.OK, calibrate("-o", at("s"), "--max-length", "64").code());
    }

    @Test
    void a_folder_without_a_tokenizer_says_where_it_was_looked_for() throws IOException {
        Files.delete(model.resolve("tokenizer.json"));
        CommandLine run = calibrate("-o", at("s"));
        assertEquals(ExitCode.USAGE, run.code());
        assertTrue(run.err().contains(model.resolve("tokenizer.json").toString()), run.err());
    }

    @Test
    void data_without_a_text_is_refused() throws IOException {
        Files.writeString(texts, "\n\n");
        refusal(calibrate("-o", at("s")));
    }

    @Test
    void the_data_are_named_once_and_the_memory_is_a_size() {
        assertEquals(
                ExitCode.USAGE,
                calibrate("-o", at("s"), "--calibration", texts.toString()).code());
        assertEquals(
                ExitCode.USAGE, calibrate("-o", at("s"), "--memory", "much").code());
    }

    @Test
    void a_killed_run_goes_on_and_ends_with_the_same_bytes() throws Exception {
        calibrate("-o", at("whole"));
        Path output = folder.resolve("killed");
        Path state = folder.resolve("killed.pieces");
        List<String> words = List.of(
                "calibrate", model.toString(), "--data", texts.toString(), "-o", output.toString(), "--memory", "0");
        Process process = Child.start(Child.octet(words), folder.resolve("printed"));
        try {
            while (process.isAlive() && !hasStatistics(state)) {
                Thread.onSpinWait();
            }
        } finally {
            process.destroyForcibly().waitFor();
        }
        assumeTrue(Files.exists(state), "the run was over before it could be killed");
        CommandLine second = CommandLine.run(words.toArray(String[]::new));
        assertEquals(ExitCode.OK, second.code(), second.err());
        assertEquals(-1, Files.mismatch(folder.resolve("whole"), output));
        assertFalse(Files.exists(state));
    }

    /** Whether a piece is done. */
    private static boolean hasStatistics(Path state) throws IOException {
        if (!Files.isDirectory(state)) {
            return false;
        }
        try (Stream<Path> files = Files.list(state)) {
            return files.anyMatch(f -> f.toString().endsWith(".statistics"));
        } catch (UncheckedIOException | NotDirectoryException e) { // removed meanwhile
            return false;
        }
    }
}
