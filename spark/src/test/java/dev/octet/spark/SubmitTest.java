package dev.octet.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.pipeline.Calibrate;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.Quantize;
import dev.octet.pipeline.SampleSource;
import dev.octet.pipeline.Target;
import dev.octet.quant.recipe.Recipes;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.ResourceLock;

/** What spark-submit starts. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@ResourceLock(SparkContexts.LOCK)
class SubmitTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));

    @TempDir
    private static Path shared;

    private static Path model;

    @BeforeAll
    static void as_spark_submit_sets_the_configuration() throws IOException {
        for (var setting : SparkContexts.conf("local[2]").getAll()) {
            System.setProperty(setting._1(), setting._2());
        }
        model = ShardedModel.make(shared.resolve("model"));
    }

    @AfterAll
    static void as_it_was() {
        System.getProperties().stringPropertyNames().stream()
                .filter(n -> n.startsWith("spark."))
                .forEach(System::clearProperty);
    }

    private record Run(int code, String out, String err) {
        static Run of(String... arguments) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            int code = Submit.run(
                    List.of(arguments),
                    new PrintStream(out, true, StandardCharsets.UTF_8),
                    new PrintStream(err, true, StandardCharsets.UTF_8));
            return new Run(code, out.toString(StandardCharsets.UTF_8), err.toString(StandardCharsets.UTF_8));
        }
    }

    @Test
    void quantize_with_options_writes_what_the_command_line_writes(@TempDir Path folder) throws IOException {
        Run run = Run.of(
                "quantize",
                model.toString(),
                "-o",
                folder + "/together",
                "--recipe",
                "fp8-dynamic",
                "--keep",
                "layers\\.0\\.mlp");
        assertEquals(0, run.code(), run.err());
        assertTrue(run.out().startsWith("wrote file:" + folder + "/together: "), run.out());
        Quantize.CheckpointRequest request =
                Quantize.CheckpointRequest.of(model, folder.resolve("alone"), Recipes.FP8_DYNAMIC);
        Quantize.run(
                request.withSelection(new dev.octet.converter.checkpoint.Selection(
                        List.of(java.util.regex.Pattern.compile("layers\\.0\\.mlp")),
                        List.of(),
                        List.of(),
                        java.util.Map.of())),
                Job.defaults());
        ShardedModel.assertSame(folder.resolve("alone"), folder.resolve("together"));
    }

    @Test
    void statistics_travel_to_executors(@TempDir Path folder) throws IOException {
        Path llama = Files.createDirectory(folder.resolve("llama"));
        for (String file : List.of("config.json", "model.safetensors")) {
            Files.copy(TESTDATA.resolve("models/tiny-hf/llama").resolve(file), llama.resolve(file));
        }
        Files.copy(TESTDATA.resolve("tokenizer/words.json"), llama.resolve("tokenizer.json"));
        Path texts = Files.writeString(folder.resolve("texts.jsonl"), "{\"text\": \"the cat sat\"}\n".repeat(3));
        Run calibrate = Run.of("calibrate", llama.toString(), "--data", texts.toString(), "-o", folder + "/a.stats");
        assertEquals(0, calibrate.code(), calibrate.err());
        assertTrue(calibrate.out().contains("over 3 samples"), calibrate.out());
        Path alone = folder.resolve("alone.stats");
        Calibrate.run(
                Calibrate.Request.of(llama, alone, SampleSource.of(texts)),
                Job.defaults().withThreads(1));
        Run quantize = Run.of(
                "quantize",
                llama.toString(),
                "-o",
                folder + "/fp8",
                "--recipe",
                "fp8",
                "--statistics",
                folder + "/a.stats");
        assertEquals(0, quantize.code(), quantize.err());
        Quantize.CheckpointRequest request =
                Quantize.CheckpointRequest.of(llama, folder.resolve("expected"), ShardedModel.recipe("fp8"));
        Quantize.run(request.withStatistics(alone), Job.defaults());
        assertEquals(
                -1,
                Files.mismatch(folder.resolve("expected/model.safetensors"), folder.resolve("fp8/model.safetensors")));
    }

    @Test
    void dequantize_convert_and_diff_run(@TempDir Path folder) {
        assertEquals(
                0,
                Run.of("quantize", model.toString(), "-o", folder + "/fp8", "--recipe", "fp8-block")
                        .code());
        Run dequantize = Run.of("dequantize", folder + "/fp8", "-o", folder + "/f32", "--dtype", "fp32");
        assertEquals(0, dequantize.code(), dequantize.err());
        Run convert = Run.of("convert", folder + "/fp8", "-o", folder + "/ct", "--target", "compressed-tensors");
        assertEquals(0, convert.code(), convert.err());
        Run diff = Run.of("diff", folder + "/ct", folder + "/f32");
        assertEquals(0, diff.code(), diff.err());
        assertTrue(diff.out().contains(" 0 differ;"), diff.out());
    }

    @Test
    void verify_ends_with_1_where_a_rule_is_broken(@TempDir Path folder) throws IOException {
        assertEquals(
                0, Run.of("quantize", model.toString(), "-o", folder + "/fp8").code());
        Run sound = Run.of("verify", folder + "/fp8", "--deep", "--against", model.toString(), "--tp", "1,2");
        assertEquals(0, sound.code(), sound.out());
        assertTrue(sound.out().contains("\n0 errors, ") || sound.out().startsWith("0 errors, "), sound.out());
        Files.delete(folder.resolve("fp8").resolve(ShardedModel.name(2)));
        Run broken = Run.of("verify", folder + "/fp8", "--for", "vllm");
        assertEquals(1, broken.code(), broken.err());
        assertTrue(broken.out().contains("error  shard-missing"), broken.out());
        assertTrue(broken.out().contains(ShardedModel.name(2)), broken.out());
        Run unknown = Run.of("verify", folder + "/fp8", "--for", "vlm");
        assertEquals(2, unknown.code());
        assertTrue(unknown.err().contains("did you mean vllm?"), unknown.err());
    }

    @Test
    void evaluate_ends_with_1_where_a_gate_fails(@TempDir Path folder) throws IOException {
        Path bert = TESTDATA.resolve("models/tiny-hf/bert");
        Path texts = Files.writeString(folder.resolve("texts.jsonl"), "{\"text\": \"the cat sat\"}\n".repeat(3));
        String[] line = {
            "evaluate",
            bert.toString(),
            bert.toString(),
            "--data",
            texts.toString(),
            "--tokenizer",
            TESTDATA.resolve("tokenizer/words.json").toString(),
            "--gate",
            "cosine=0.99"
        };
        Run same = Run.of(line);
        assertEquals(0, same.code(), same.err());
        assertTrue(same.out().startsWith("3 samples of "), same.out());
        assertTrue(same.out().contains("gate cosine: 1.00000, wanted at least 0.99: passed"), same.out());
        line[line.length - 1] = "cosine=1.5";
        Run failed = Run.of(line);
        assertEquals(1, failed.code(), failed.err());
        line[line.length - 1] = "cosin=1";
        Run unknown = Run.of(line);
        assertEquals(2, unknown.code());
        assertTrue(unknown.err().contains("did you mean cosine,"), unknown.err());
    }

    @Test
    void a_dry_run_writes_nothing(@TempDir Path folder) {
        Run run = Run.of("quantize", model.toString(), "-o", folder + "/out", "--dry-run");
        assertEquals(0, run.code(), run.err());
        assertTrue(run.out().startsWith("would write "), run.out());
        assertTrue(Files.notExists(folder.resolve("out")));
    }

    @Test
    void faults_are_told_in_three_lines_with_the_exit_codes_of_the_command_line(@TempDir Path folder) {
        Run verb = Run.of("quantise", model.toString());
        assertEquals(2, verb.code());
        assertTrue(verb.err().contains("did you mean quantize?"), verb.err());
        Run option = Run.of("quantize", model.toString(), "-o", folder + "/out", "--recip", "fp8");
        assertEquals(2, option.code());
        assertTrue(option.err().contains("did you mean --recipe"), option.err());
        Run recipe = Run.of("quantize", model.toString(), "-o", folder + "/out", "--recipe", "fp9-dynamic");
        assertEquals(2, recipe.code());
        assertTrue(recipe.err().contains("did you mean fp8-dynamic"), recipe.err());
        Run missing = Run.of("quantize", folder + "/none", "-o", folder + "/out");
        assertEquals(4, missing.code());
        assertTrue(missing.err().contains(folder + "/none"), missing.err());
        Run other = Run.of("merge", model.toString());
        assertEquals(2, other.code());
        assertTrue(other.err().startsWith("error  'merge' is not a verb that runs on Spark"), other.err());
    }

    @Test
    void every_target_of_checkpoints_is_known() {
        assertTrue(Target.CHECKPOINTS.size() > 2);
        Target.CHECKPOINTS.forEach(t -> {
            Run run = Run.of("convert", model.toString(), "-o", shared + "/never", "--target", t.label());
            assertEquals(3, run.code(), t.label() + ": " + run.err()); // the model is not quantised
        });
    }
}
