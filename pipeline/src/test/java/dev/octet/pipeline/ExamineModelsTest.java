package dev.octet.pipeline;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.RunOptions;
import dev.octet.trainer.checkpoint.CheckpointFile;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.checkpoint.TrainingState;
import dev.octet.trainer.replay.Diagnosis;
import dev.octet.trainer.replay.ExaminationOptions;
import dev.octet.trainer.replay.Verdict;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Examinations of language models from Hugging Face folders: tied embeddings, attention, several Linears that read one value. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ExamineModelsTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));

    @TempDir
    Path folder;

    private TrainingJob job(String model, String precision) throws IOException {
        return job(model, precision, "");
    }

    private TrainingJob job(String model, String precision, String loss) throws IOException {
        Path texts = TESTDATA.resolve("text/eval.jsonl").toAbsolutePath();
        Path config = Files.write(
                folder.resolve("lm.yaml"),
                List.of(
                        "data: {train: '" + texts + "', pack: true, sequence: 16}",
                        "loss: {type: causal-lm" + loss + "}",
                        "batch_size: 4",
                        "gradient_accumulation: 2",
                        "optimizer: {lr: 1.0e-3}",
                        "precision: {mode: fp8, " + precision + "}",
                        "steps: 100"));
        return TrainingJob.open(TESTDATA.resolve("models/tiny-lm").resolve(model), config);
    }

    @Tag("sweep")
    @Test
    void of_a_healthy_gpt2_nothing_is_said() throws IOException {
        try (TrainingJob job = job("gpt2", "recipe: delayed")) {
            Diagnosis d =
                    job.trainer().examine(null, ExaminationOptions.defaults().withSteps(2));
            assertEquals(Verdict.HEALTHY, d.verdict(), d.sentence());
        }
    }

    /** Its loss is nearly 0, and its gradients are differences of roundings. */
    @Test
    void of_a_model_that_is_distilled_from_itself_no_product_is_accused() throws IOException {
        Path teacher = TESTDATA.resolve("models/tiny-lm/gpt2").toAbsolutePath();
        String distilled = ", distillation: {teacher: '" + teacher + "'}";
        try (TrainingJob job = job("gpt2", "recipe: current, base: fp32", distilled)) {
            Diagnosis d =
                    job.trainer().examine(null, ExaminationOptions.defaults().withSteps(1));
            assertEquals(Verdict.HEALTHY, d.verdict(), d.sentence());
        }
    }

    @Test
    void a_spike_that_a_checkpoint_remembers_is_found_in_a_llama() throws IOException {
        try (TrainingJob job = job("llama", "recipe: delayed, high_precision: [dgrad]")) {
            Path run = folder.resolve("run");
            job.trainer().run(run, RunOptions.defaults().withMaxSteps(5));
            String scale = "fp8./model/layers.1/mlp/up_proj.grad_output.quant_scale";
            String history = scale.replace("quant_scale", "amax_history");
            try (CheckpointFile file = new CheckpointFolder(run).openNewest()) {
                TrainingState good = file.state();
                Map<String, Tensor> state = new TreeMap<>(good.state());
                state.put(scale, with(state.get(scale), 0, 57344 / 1e9f));
                state.put(history, with(state.get(history), 1000, 1e9f));
                Diagnosis d = job.trainer()
                        .examine(
                                new TrainingState(
                                        good.step(),
                                        good.microBatches(),
                                        good.settings(),
                                        good.numbers(),
                                        good.parameters(),
                                        state),
                                ExaminationOptions.defaults().withSteps(2));
                assertEquals(
                        "The grad output of model.layers.1.mlp.up_proj in wgrad is at fault: scales of earlier steps"
                                + " do not fit; current scaling cures.",
                        d.sentence());
                assertTrue(d.toFind() <= 2 * Math.log(d.layers()) / Math.log(2) + 9, d.toFind() + " replays");
                assertFalse(d.proof().orElseThrow().deviation().isSick());
            }
        }
    }

    private static Tensor with(@Nullable Tensor tensor, int element, float x) {
        Tensor before = requireNonNull(tensor);
        float[] elements = before.toFloats();
        elements[element] = x;
        return Tensor.ofFloats(Arena.ofAuto(), before.name(), before.shape(), elements);
    }
}
