package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** docs/data.md against the program. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class DataPageTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path PAGE = TESTDATA.resolveSibling("docs/data.md");
    private static final Path MODEL = TESTDATA.resolve("models/tiny-lm/gpt2");
    private static final String TEMPLATE =
            "data.chat_template='" + TESTDATA.resolve("chat/templates/chatml.jinja") + "'";

    @TempDir
    Path folder;

    private static List<String> blocks(String language) throws IOException {
        return Pattern.compile("```" + language + "\n(.*?)```", Pattern.DOTALL)
                .matcher(Files.readString(PAGE))
                .results()
                .map((MatchResult r) -> r.group(1))
                .toList();
    }

    @Test
    void configurations_and_rows_of_the_page_are_runs() throws IOException {
        List<String> yaml = blocks("yaml");
        List<String> json = blocks("json");
        assertEquals(2, yaml.size());
        for (int i = 0; i < yaml.size(); i++) {
            String file = i == 0 ? "chats.jsonl" : "pairs.jsonl";
            Files.writeString(folder.resolve(file), json.get(i));
            Path config =
                    Files.writeString(folder.resolve("train" + i + ".yaml"), yaml.get(i) + "batch_size: 1\nsteps: 1\n");
            CommandLine trained = CommandLine.run(
                    "train",
                    MODEL.toString(),
                    "--config",
                    config.toString(),
                    "-o",
                    folder.resolve("run" + i).toString(),
                    "--set",
                    TEMPLATE);
            assertEquals(ExitCode.OK, trained.code(), trained.err());
            String metrics = Files.readString(folder.resolve("run" + i + "/metrics.jsonl"));
            for (String name : List.of("chosen", "rejected", "margins", "accuracies")) {
                assertEquals(i == 1, metrics.contains("\"rewards/" + name + "\":"), metrics);
                assertTrue(Files.readString(PAGE).contains("rewards/" + name));
            }
        }
    }

    private CommandLine train(Path data, String keys, String... more) throws IOException {
        Path config = Files.writeString(
                folder.resolve("train.yaml"),
                "data: {train: '" + data + "', " + keys + "}\nloss: {type: causal-lm}\nbatch_size: 2\nsteps: 4\n");
        String[] words = new String[8 + more.length];
        List<String> first = List.of(
                "train",
                MODEL.toString(),
                "--config",
                config.toString(),
                "-o",
                folder.resolve("run").toString(),
                "--set",
                TEMPLATE);
        for (int i = 0; i < words.length; i++) {
            words[i] = i < 8 ? first.get(i) : more[i - 8];
        }
        return CommandLine.run(words);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {"train_on: assistant", "pack: 'documents', sequence: 256"})
    void a_run_on_shards_of_parquet_that_is_interrupted_goes_on_to_the_same_weights(String keys) throws IOException {
        Path data = TESTDATA.resolve("chat/parquet/chats/train");
        assertEquals(ExitCode.OK, train(data, keys).code());
        byte[] whole = Files.readAllBytes(folder.resolve("run/checkpoints/step-4/parameters.safetensors"));
        Files.move(folder.resolve("run"), folder.resolve("whole"));
        assertEquals(ExitCode.OK, train(data, keys, "--steps", "2").code());
        CommandLine resumed =
                CommandLine.run("train", "--resume", folder.resolve("run").toString());
        assertEquals(ExitCode.OK, resumed.code(), resumed.err());
        assertTrue(Arrays.equals(
                whole, Files.readAllBytes(folder.resolve("run/checkpoints/step-4/parameters.safetensors"))));
    }

    @Test
    void a_run_on_other_rows_does_not_go_on() throws IOException {
        Path data = Files.createDirectory(folder.resolve("data"));
        Files.copy(TESTDATA.resolve("chat/chat.jsonl"), data.resolve("a.jsonl"));
        assertEquals(ExitCode.OK, train(data, "shuffle: true", "--steps", "2").code());
        Files.copy(TESTDATA.resolve("chat/chat.jsonl"), data.resolve("b.jsonl"));
        CommandLine resumed =
                CommandLine.run("train", "--resume", folder.resolve("run").toString());
        assertTrue(resumed.code() != ExitCode.OK, resumed.err());
        assertTrue(resumed.err().contains("data"), resumed.err());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "train_on_inputs: true         | write data: {train_on: all}",
                "assistant_only_loss: true     | write data: {train_on: assistant}",
                "sample_packing: true          | write data: {pack: documents}",
                "packing: false                | write data: {pack: false}",
                "dataset_text_field: content   | texts are read from the column \"text\"",
                "chat_template: t.jinja        | write data: {chat_template: t.jinja}",
                "loss_type: sigmoid            | write loss: {type: dpo}",
            })
    void names_of_trl_and_axolotl_are_refused_with_what_to_write(String key, String instead) throws IOException {
        Path config = Files.writeString(
                folder.resolve("train.yaml"), key + "\ndata: {train: a.jsonl}\nloss: {type: causal-lm}\nsteps: 1\n");
        CommandLine refused = CommandLine.run(
                "train",
                MODEL.toString(),
                "--config",
                config.toString(),
                "-o",
                folder.resolve("r").toString());
        assertEquals(ExitCode.USAGE, refused.code(), refused.err());
        assertTrue(refused.err().replaceAll("\\s+", " ").contains(instead), refused.err());
    }
}
