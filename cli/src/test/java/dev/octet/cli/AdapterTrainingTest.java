package dev.octet.cli;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.peft.PeftAdapter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Runs that train adapters: checkpoints, resuming, export. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class AdapterTrainingTest {
    private static final Path DATA = Path.of(System.getProperty("octet.testdata", "../testdata"));
    private static final Path MODEL = DATA.resolve("models/tiny-hf/gpt2");
    private static final String LORA = "{r: 2, target_modules: all-linear}";
    private static final Map<String, String> METHODS = Map.of(
            "lora", LORA,
            "lora-pissa", "{r: 2, target_modules: [c_attn], init_lora_weights: pissa}",
            "prompt", "{peft_type: PROMPT_TUNING, num_virtual_tokens: 3, prompt_tuning_init: SAMPLE_VOCAB}",
            "p-tuning", "{peft_type: P_TUNING, num_virtual_tokens: 2, encoder_hidden_size: 8}",
            "lstm",
                    "{peft_type: P_TUNING, num_virtual_tokens: 2, encoder_hidden_size: 4,"
                            + " encoder_reparameterization_type: LSTM}",
            "prefix", "{peft_type: PREFIX_TUNING, num_virtual_tokens: 3}",
            "projection",
                    "{peft_type: PREFIX_TUNING, num_virtual_tokens: 3, prefix_projection: true,"
                            + " encoder_hidden_size: 8}");
    private static final List<String> FILES = List.of(
            "SHA256SUMS", "adapter_config.json", "adapter_model.safetensors", "checkpoint.json", "state.safetensors");

    @TempDir
    Path folder;

    static Set<String> methods() {
        return METHODS.keySet();
    }

    @BeforeEach
    void make() throws IOException {
        byte[] tokens = new byte[2 * 400];
        SplittableRandom random = new SplittableRandom(3);
        for (int i = 0; i < tokens.length; i += 2) {
            tokens[i] = (byte) random.nextInt(100);
        }
        Files.write(folder.resolve("tokens.bin"), tokens);
    }

    private void config(String name, String adapter, String... lines) throws IOException {
        Files.writeString(folder.resolve(name), """
            data: {train: tokens.bin, eval: tokens.bin, sequence: 8}
            loss: {type: causal-lm}
            batch_size: 2
            steps: 6
            optimizer: {type: adamw, lr: 1.0e-2}
            checkpoint: {every: 1, keep: 9}
            """ + "adapter: " + adapter + "\n" + String.join("\n", lines) + "\n");
    }

    private List<String> words(String config, String run, String... more) {
        List<String> words = new ArrayList<>(List.of(
                "train",
                MODEL.toString(),
                "--config",
                folder.resolve(config).toString(),
                "-o",
                folder.resolve(run).toString(),
                "--threads",
                "2"));
        words.addAll(Arrays.asList(more));
        return words;
    }

    private CommandLine train(String config, String run, String... more) {
        return CommandLine.run(words(config, run, more).toArray(String[]::new));
    }

    private Path checkpoint(String run, int step) {
        return folder.resolve(run + "/checkpoints/step-" + step);
    }

    private static void done(CommandLine line) {
        assertEquals(ExitCode.OK, line.code(), line.err());
    }

    private void assertSame(String a, String b) throws IOException {
        for (String file : FILES) {
            assertArrayEquals(
                    Files.readAllBytes(checkpoint(a, 6).resolve(file)),
                    Files.readAllBytes(checkpoint(b, 6).resolve(file)),
                    file);
        }
    }

    @ParameterizedTest
    @MethodSource("methods")
    void checkpoints_are_PEFT_folders_and_a_resumed_run_ends_with_the_same_bytes(String method) throws IOException {
        config("c.yaml", requireNonNull(METHODS.get(method)));
        done(train("c.yaml", "whole"));
        try (Stream<Path> files = Files.list(checkpoint("whole", 6))) {
            assertEquals(
                    FILES, files.map(f -> f.getFileName().toString()).sorted().toList());
        }
        try (PeftAdapter adapter = PeftAdapter.open(checkpoint("whole", 6))) {
            assertEquals(
                    MODEL.toAbsolutePath().normalize().toString(),
                    adapter.config().baseModel().orElseThrow());
            assertEquals("CAUSAL_LM", adapter.config().taskType().orElseThrow());
            assertTrue(adapter.config().json().path("inference_mode").asBoolean());
            assertEquals(!method.startsWith("lora"), adapter.prompt().isPresent());
        }
        done(train("c.yaml", "parts", "--steps", "2"));
        done(CommandLine.run("train", "--resume", folder.resolve("parts").toString(), "--steps", "1"));
        done(CommandLine.run("train", "--resume", folder.resolve("parts").toString()));
        assertSame("whole", "parts");
    }

    @ParameterizedTest
    @MethodSource("methods")
    void an_adapter_is_exported_to_a_PEFT_folder_and_proved_there(String method) throws IOException {
        config("c.yaml", requireNonNull(METHODS.get(method)));
        CommandLine trained = train("c.yaml", "run");
        done(trained);
        assertTrue(trained.out().contains("--target peft"), trained.out());
        assertEquals(method.startsWith("lora"), trained.out().contains("octet merge"), trained.out());
        Path out = folder.resolve("adapter");
        CommandLine export = CommandLine.run(
                "export", folder.resolve("run").toString(), "-o", out.toString(), "--samples", "4", "--gate", "1e-5");
        done(export);
        assertTrue(export.out().contains("target   peft"), export.out());
        for (String file : List.of("adapter_config.json", "adapter_model.safetensors")) {
            assertArrayEquals(
                    Files.readAllBytes(checkpoint("run", 6).resolve(file)),
                    Files.readAllBytes(out.resolve(file)),
                    file);
        }
        CommandLine inspected = CommandLine.run("inspect", out.toString());
        done(inspected);
        assertTrue(inspected.out().contains(MODEL.getFileName().toString()), inspected.out());
    }

    @Test
    void an_exported_adapter_that_is_not_the_trained_one_fails_its_proof() throws IOException {
        config("c.yaml", requireNonNull(METHODS.get("prompt")));
        done(train("c.yaml", "run"));
        Path other = checkpoint("run", 1);
        CommandLine proof = CommandLine.run(
                "export",
                folder.resolve("run").toString(),
                "-o",
                other.toString(),
                "--samples",
                "4",
                "--gate",
                "1e-5",
                "--prove-only");
        assertEquals(ExitCode.CHECK_FAILED, proof.code(), proof.out() + proof.err());
    }

    @Test
    void other_targets_name_the_command_that_merges() throws IOException {
        config("c.yaml", LORA);
        done(train("c.yaml", "run", "--steps", "1"));
        CommandLine export = CommandLine.run(
                "export",
                folder.resolve("run").toString(),
                "-o",
                folder.resolve("m").toString(),
                "--target",
                "huggingface",
                "--no-proof");
        assertEquals(ExitCode.USAGE, export.code(), export.err());
        assertTrue(export.err().replaceAll("\\s+", " ").contains("octet merge " + MODEL), export.err());
        assertFalse(Files.exists(folder.resolve("m")));
    }

    @Test
    void a_run_of_a_model_has_no_adapter_to_export() throws IOException {
        config("c.yaml", LORA);
        Files.writeString(
                folder.resolve("c.yaml"),
                Files.readString(folder.resolve("c.yaml")).replaceAll("(?m)^adapter.*$", ""));
        done(train("c.yaml", "run", "--steps", "1"));
        CommandLine export = CommandLine.run(
                "export",
                folder.resolve("run").toString(),
                "-o",
                folder.resolve("m").toString(),
                "--target",
                "peft",
                "--no-proof");
        assertEquals(ExitCode.USAGE, export.code(), export.err());
        assertTrue(export.err().contains("no adapter"), export.err());
    }

    @Test
    void a_damaged_file_is_named() throws IOException {
        config("c.yaml", LORA);
        done(train("c.yaml", "run", "--steps", "2"));
        for (String file : List.of("adapter_config.json", "adapter_model.safetensors", "state.safetensors")) {
            Path damaged = checkpoint("run", 2).resolve(file);
            byte[] good = Files.readAllBytes(damaged);
            Files.write(damaged, new byte[] {1}, StandardOpenOption.APPEND);
            CommandLine resumed =
                    CommandLine.run("train", "--resume", folder.resolve("run").toString());
            assertEquals(ExitCode.INPUT, resumed.code(), resumed.err());
            assertTrue(resumed.err().contains(file), resumed.err());
            Files.delete(damaged);
            CommandLine missing =
                    CommandLine.run("train", "--resume", folder.resolve("run").toString());
            assertEquals(ExitCode.INPUT, missing.code(), missing.err());
            assertTrue(missing.err().contains(file), missing.err());
            Files.write(damaged, good);
        }
    }

    @Test
    void a_run_does_not_go_on_with_another_adapter() throws IOException {
        config("c.yaml", LORA);
        done(train("c.yaml", "run", "--steps", "2"));
        config("other.yaml", "{r: 4, target_modules: all-linear}");
        CommandLine resumed = train("other.yaml", "run", "--resume");
        assertEquals(ExitCode.USAGE, resumed.code(), resumed.err());
        assertTrue(resumed.err().contains("adapter"), resumed.err());
    }

    @Test
    void an_adapter_is_trained_on_with_the_configuration_of_its_folder() throws IOException {
        config("c.yaml", LORA);
        done(train("c.yaml", "first"));
        Path from = checkpoint("first", 6);
        config("on.yaml", "{from: '" + from + "'}");
        done(train("on.yaml", "on", "--steps", "1"));
        assertEquals(
                Files.readString(from.resolve("adapter_config.json")),
                Files.readString(checkpoint("on", 1).resolve("adapter_config.json")));
        double first = firstLoss("first");
        assertTrue(firstLoss("on") < first, firstLoss("on") + " after " + first);
        JsonNode run = new ObjectMapper().readTree(folder.resolve("on/run.json").toFile());
        assertEquals(64, run.path("settings").path("sha256.adapter").asText().length());
        config("wrong.yaml", "{from: '" + from + "', r: 3}");
        CommandLine refused = train("wrong.yaml", "wrong");
        assertEquals(ExitCode.USAGE, refused.code(), refused.err());
        assertTrue(refused.err().contains("r 2, not 3"), refused.err());
        config("same.yaml", "{from: '" + from + "', r: 2}");
        done(train("same.yaml", "same", "--steps", "1"));
    }

    private double firstLoss(String run) throws IOException {
        return new ObjectMapper()
                .readTree(Files.readAllLines(folder.resolve(run + "/metrics.jsonl"))
                        .getFirst())
                .path("loss")
                .asDouble();
    }

    @Test
    void averages_of_an_encoder_are_exported_as_their_virtual_tokens() throws IOException {
        config("c.yaml", requireNonNull(METHODS.get("p-tuning")), "averaging: {ema: {decay: 0.5}}");
        done(train("c.yaml", "run"));
        Path out = folder.resolve("averaged");
        done(CommandLine.run(
                "export",
                folder.resolve("run").toString(),
                "-o",
                out.toString(),
                "--weights",
                "ema",
                "--samples",
                "4",
                "--gate",
                "1e-5"));
        try (PeftAdapter averaged = PeftAdapter.open(out);
                PeftAdapter trained = PeftAdapter.open(checkpoint("run", 6))) {
            assertFalse(Arrays.equals(
                    averaged.prompt().orElseThrow().toFloats(),
                    trained.prompt().orElseThrow().toFloats()));
        }
    }

    @Test
    void a_guarded_run_keeps_only_the_adapter_and_resumes_with_the_same_bytes() throws IOException {
        config("c.yaml", LORA, "guard: {spike: {snapshot_every: 2}}");
        done(train("c.yaml", "whole"));
        done(train("c.yaml", "parts", "--steps", "3"));
        done(CommandLine.run("train", "--resume", folder.resolve("parts").toString()));
        assertSame("whole", "parts");
    }

    @Test
    void the_doctor_reads_a_run_that_trains_an_adapter() throws IOException {
        config("c.yaml", LORA, "precision: {mode: fp8, recipe: current}");
        done(train("c.yaml", "run", "--set", "steps=12"));
        CommandLine doctor =
                CommandLine.run("doctor", folder.resolve("run").toString(), "--budget", "2", "--threads", "2");
        assertTrue(doctor.code() == ExitCode.OK || doctor.code() == ExitCode.CHECK_FAILED, doctor.err());
    }

    @Test
    void the_plan_says_what_an_adapter_takes() throws IOException {
        config("c.yaml", LORA);
        CommandLine plan = train("c.yaml", "run", "--dry-run");
        done(plan);
        Map<String, String> rows = new TreeMap<>(plan.out()
                .lines()
                .filter(l -> l.contains("  "))
                .collect(Collectors.toMap(l -> l, l -> l, (a, _) -> a)));
        assertTrue(rows.keySet().stream().anyMatch(l -> l.contains("weights") && l.contains("adapter")), plan.out());
        assertTrue(rows.keySet().stream().anyMatch(l -> l.contains("full training")), plan.out());
    }

    @Tag("sweep")
    @ParameterizedTest
    @MethodSource("methods")
    void a_killed_run_ends_with_the_same_bytes(String method) throws Exception {
        config("c.yaml", requireNonNull(METHODS.get(method)));
        done(train("c.yaml", "whole"));
        Process process = Child.start(Child.octet(words("c.yaml", "killed")), folder.resolve("child.txt"));
        while (!process.waitFor(1, TimeUnit.MILLISECONDS) && !Files.isDirectory(checkpoint("killed", 2))) {
            Thread.onSpinWait();
        }
        process.destroyForcibly().waitFor();
        if (!Files.isDirectory(checkpoint("killed", 6))) {
            done(CommandLine.run("train", "--resume", folder.resolve("killed").toString()));
        }
        assertSame("whole", "killed");
    }
}
