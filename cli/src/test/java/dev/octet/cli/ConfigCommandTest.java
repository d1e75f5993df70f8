package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.trainer.yaml.HjsonFile;
import dev.octet.trainer.yaml.Section;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** {@code octet config} and {@code octet train --deepspeed}, through the real command line. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ConfigCommandTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final String GPT2 = TESTDATA.resolve("models/tiny-lm/gpt2").toString();
    private static final ObjectMapper JSON = new ObjectMapper();

    @TempDir
    Path folder;

    private static String config(String name) {
        return TESTDATA.resolve("configs/deepspeed").resolve(name).toString();
    }

    private Path write(String name, String text) throws IOException {
        return Files.writeString(folder.resolve(name), text);
    }

    private static JsonNode json(CommandLine run) throws IOException {
        return JSON.readTree(run.out());
    }

    private static JsonNode key(JsonNode answer, String key) {
        for (JsonNode each : answer.get("keys")) {
            if (each.get("key").asText().equals(key)) {
                return each;
            }
        }
        throw new AssertionError(key + " is not in " + answer.toPrettyString());
    }

    private Path ownConfig(int steps) throws IOException {
        return write(
                "own.yaml",
                "data: {train: " + TESTDATA.resolve("text/train.jsonl")
                        + ", max_length: 32}\nloss: {type: causal-lm}\nsteps: " + steps + "\nseed: 3\n");
    }

    @Test
    void the_page_says_of_every_key_what_it_does_and_ends_with_the_configuration_it_becomes() throws IOException {
        CommandLine run =
                CommandLine.run(TextStyle.terminal(80), "config", config("zero3-offload.json"), "--device", "cuda");
        assertEquals(ExitCode.OK, run.code(), run.err());
        for (String text : List.of(
                "a configuration of DeepSpeed",
                "gradient_accumulation: 4",
                "DeepSpeed's Adam is AdamW unless adam_w_mode is false.",
                "offload.states: host",
                "octet train --config:",
                "  type: WarmupLR             # scheduler.type",
                "# add data, loss, steps: DeepSpeed has no keys for them")) {
            assertTrue(
                    run.out().replaceAll("\\s+", " ").contains(text.replaceAll("\\s+", " ")), text + "\n" + run.out());
        }
    }

    @Test
    void every_key_of_the_file_is_in_the_answer_once_or_among_the_problems() throws IOException {
        try (Stream<Path> files = Files.list(TESTDATA.resolve("configs/deepspeed"))) {
            for (Path file : files.toList()) {
                JsonNode answer = json(CommandLine.run("config", file.toString(), "--json"));
                assertEquals("DeepSpeed", answer.get("library").asText(), file.toString());
                List<String> keys = new ArrayList<>();
                answer.get("keys").forEach(k -> keys.add(k.get("key").asText()));
                assertEquals(keys.size(), keys.stream().distinct().count(), file.toString());
                List<String> mistaken = new ArrayList<>();
                answer.get("problems").forEach(p -> mistaken.add(p.get("where").asText()));
                for (Section.Written written : HjsonFile.read(file).written()) {
                    boolean holds = written.kind() == Section.Kind.MAPPING;
                    boolean there = keys.contains(written.key())
                            || mistaken.stream().anyMatch(m -> m.endsWith("key " + written.key()));
                    assertTrue(holds || there, file + ": " + written.key());
                }
            }
        }
    }

    @Test
    void what_is_refused_ends_with_exit_1_and_is_not_written() throws IOException {
        Path out = folder.resolve("train.yaml");
        CommandLine run = CommandLine.run("config", config("features.json"), "-o", out.toString(), "--json");
        assertEquals(ExitCode.CHECK_FAILED, run.code(), run.err());
        assertFalse(Files.exists(out));
        JsonNode answer = json(run);
        assertFalse(answer.get("honoured").asBoolean());
        for (String refused : List.of("optimizer.type", "curriculum_learning.enabled", "sparse_attention.mode")) {
            assertEquals("refused", key(answer, refused).get("fate").asText());
            assertFalse(key(answer, refused).get("reason").asText().isEmpty());
        }
        for (String idle : List.of(
                "compression_training.weight_quantization.shared_parameters.enabled",
                "wandb.enabled",
                "elasticity.enabled",
                "prescale_gradients")) {
            assertEquals("no effect", key(answer, idle).get("fate").asText());
        }
    }

    @Test
    void all_mistakes_are_listed_with_their_lines() throws IOException {
        CommandLine run = CommandLine.run("config", config("mistakes.json"), "--json");
        assertEquals(ExitCode.CHECK_FAILED, run.code(), run.err());
        List<String> problems = new ArrayList<>();
        json(run)
                .get("problems")
                .forEach(p -> problems.add(p.get("what").asText() + " | "
                        + p.get("where").asText() + " | " + p.get("fix").asText()));
        for (String text : List.of(
                "DeepSpeed knows no key 'gradient_acumulation_steps' | ",
                "line 4, key gradient_acumulation_steps | did you mean gradient_accumulation_steps?",
                "train_batch_size 10 is not train_micro_batch_size_per_gpu 4 x gradient_accumulation_steps 2 x 1"
                        + " process | ",
                "fp16 and bf16 are all enabled",
                "\"auto\" of optimizer.params.lr has no value: transformers fills it from learning_rate | ",
                "DeepSpeed refuses max_grad_norm as a parameter of the optimizer",
                "ZeRO has no stage 4",
                "line 8, key zero_optimization.overlap_com | did you mean overlap_comm?",
                "cpu_offload and zero_optimization.offload_optimizer.device are both given",
                "WarmupDecayLR needs total_num_steps",
                "WarmupDecayLR has no cycle_min_lr",
                "'gradient_clipping' is 'much', not a number")) {
            assertTrue(problems.stream().anyMatch(p -> p.contains(text)), text + "\n" + String.join("\n", problems));
        }
    }

    @Test
    void the_arguments_of_transformers_fill_auto_and_what_contradicts_them_is_listed() throws IOException {
        Path args = write(
                "args.json",
                "{\"per_device_train_batch_size\": 4, \"gradient_accumulation_steps\": 2, \"learning_rate\": 3e-5,"
                        + " \"bf16\": true, \"max_steps\": 100, \"warmup_ratio\": 0.05}");
        Path out = folder.resolve("train.yaml");
        CommandLine run = CommandLine.run(
                "config", config("finetune-zero2.json"), "--hf-args", args.toString(), "-o", out.toString());
        assertEquals(ExitCode.OK, run.code(), run.out() + run.err());
        String yaml = Files.readString(out);
        for (String text : List.of(
                "batch_size: 4",
                "gradient_accumulation: 2",
                "lr: 3e-5",
                "warmup_num_steps: 5",
                "mode: bf16",
                "clip_grad_norm: 1.0")) {
            assertTrue(yaml.contains(text), text + "\n" + yaml);
        }
        Path other = write("other.json", Files.readString(Path.of(config("zero3-offload.json"))));
        CommandLine wrong = CommandLine.run("config", other.toString(), "--hf-args", args.toString(), "--json");
        assertEquals(ExitCode.CHECK_FAILED, wrong.code());
        List<String> problems = new ArrayList<>();
        json(wrong).get("problems").forEach(p -> problems.add(p.get("what").asText()));
        assertTrue(
                problems.stream().anyMatch(p -> p.contains("gradient_accumulation_steps is 4, but")),
                problems.toString());
        assertTrue(
                problems.stream().anyMatch(p -> p.contains("optimizer.params.lr is 2e-5, but learning_rate")),
                problems.toString());
        assertTrue(
                problems.stream().anyMatch(p -> p.contains("optimizer.params.betas is [0.9, 0.95], but")),
                problems.toString());
    }

    @Test
    void octets_own_configuration_is_known_and_other_files_are_refused() throws IOException {
        JsonNode own = json(CommandLine.run("config", ownConfig(2).toString(), "--json"));
        assertEquals("Octet", own.get("library").asText());
        CommandLine none = CommandLine.run(
                "config", write("some.json", "{\"a\": 1, \"b\": 2}").toString());
        assertEquals(ExitCode.USAGE, none.code());
        assertTrue(
                none.err().contains("neither DeepSpeed, Accelerate, transformers nor Octet has these keys: a, b"),
                none.err());
        assertEquals(
                ExitCode.IO,
                CommandLine.run("config", folder.resolve("gone.json").toString())
                        .code());
    }

    @Test
    void the_default_of_gradient_clipping_depends_on_the_version_of_deepspeed() throws IOException {
        String file = write("ds.json", "{\"train_batch_size\": 2}").toString();
        assertTrue(CommandLine.run("config", file).out().contains("clip_grad_norm: 1.0"));
        CommandLine older = CommandLine.run("config", file, "--deepspeed-version", "0.17.5");
        assertFalse(older.out().contains("clip_grad_norm"), older.out());
        assertTrue(older.out().contains("DeepSpeed 0.17.5 does not clip."), older.out());
    }

    @Test
    void a_run_follows_a_deepspeed_file_and_keeps_it() throws IOException {
        Path ds = write("ds.json", """
            {
              // comments stay in the copy
              "train_batch_size": 4, "gradient_accumulation_steps": 2,
              "optimizer": {"type": "Adam", "params": {"lr": 2e-3}},
              "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 2, "warmup_type": "linear"}},
              "zero_optimization": {"stage": 1, "overlap_comm": true}
            }
            """);
        Path run = folder.resolve("run");
        CommandLine trained = CommandLine.run(
                "train",
                GPT2,
                "--deepspeed",
                ds.toString(),
                "--config",
                ownConfig(4).toString(),
                "-o",
                run.toString());
        assertEquals(ExitCode.OK, trained.code(), trained.err());
        assertTrue(trained.err().contains("without effect: zero_optimization.overlap_comm"), trained.err());
        assertTrue(trained.err().contains("gradient_clipping is left out: clip_grad_norm: 1.0"), trained.err());
        assertEquals(Files.readString(ds), Files.readString(run.resolve("deepspeed.json")));
        List<Double> rates = new ArrayList<>();
        for (String line : Files.readAllLines(run.resolve("metrics.jsonl"))) {
            if (JSON.readTree(line).has("lr")) {
                rates.add(JSON.readTree(line).get("lr").asDouble());
            }
        }
        assertEquals(List.of(0.0, 0.0, 1e-3, 2e-3), rates);
        Path mapped = folder.resolve("mapped.yaml");
        assertEquals(
                ExitCode.OK,
                CommandLine.run("config", ds.toString(), "-o", mapped.toString())
                        .code());
        Path joined = write("joined.yaml", Files.readString(ownConfig(4)) + Files.readString(mapped));
        Path second = folder.resolve("second");
        CommandLine same = CommandLine.run("train", GPT2, "--config", joined.toString(), "-o", second.toString());
        assertEquals(ExitCode.OK, same.code(), same.err());
        assertEquals(losses(run), losses(second), "the written configuration trains the same");
        CommandLine resumed = CommandLine.run(
                "train", "--resume", run.toString(), "--set", "schedule.stretch=true", "--set", "steps=5");
        assertEquals(ExitCode.OK, resumed.code(), resumed.err());
    }

    private static List<Double> losses(Path run) throws IOException {
        List<Double> losses = new ArrayList<>();
        for (String line : Files.readAllLines(run.resolve("metrics.jsonl"))) {
            if (JSON.readTree(line).has("loss")) {
                losses.add(JSON.readTree(line).get("loss").asDouble());
            }
        }
        return losses;
    }

    @Test
    void a_run_does_not_start_with_what_it_cannot_do_or_with_two_answers() throws IOException {
        String own = ownConfig(2).toString();
        String out = folder.resolve("run").toString();
        CommandLine refused = CommandLine.run(
                "train", GPT2, "--deepspeed", config("features.json"), "--config", own, "-o", out, "--dry-run");
        assertEquals(ExitCode.USAGE, refused.code());
        assertTrue(refused.err().contains("optimizer.type: OneBitAdam is refused: It compresses"), refused.err());
        String ds = write(
                        "ds.json",
                        "{\"train_batch_size\": 2, \"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": 0.1}}}")
                .toString();
        String lr = write("lr.yaml", Files.readString(Path.of(own)) + "optimizer: {lr: 0.2}\n")
                .toString();
        CommandLine two = CommandLine.run("train", GPT2, "--deepspeed", ds, "--config", lr, "-o", out, "--dry-run");
        assertEquals(ExitCode.USAGE, two.code());
        assertTrue(two.err().contains("optimizer.lr is 0.2, but optimizer.params.lr asks for 0.1"), two.err());
        CommandLine decided = CommandLine.run(
                "train", GPT2, "--deepspeed", ds, "--config", lr, "-o", out, "--dry-run", "--set", "optimizer.lr=0.3");
        assertEquals(ExitCode.OK, decided.code(), decided.err());
        assertTrue(decided.out().contains("sgd, lr 0.3"), decided.out());
        CommandLine alone = CommandLine.run(
                "train",
                GPT2,
                "--deepspeed",
                ds,
                "-o",
                out,
                "--dry-run",
                "--set",
                "data.train=" + TESTDATA.resolve("text/train.jsonl"),
                "--set",
                "loss.type=causal-lm",
                "--set",
                "steps=2");
        assertEquals(ExitCode.OK, alone.code(), alone.err());
    }
}
