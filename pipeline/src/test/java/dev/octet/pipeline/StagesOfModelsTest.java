package dev.octet.pipeline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankThreads;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.step.StepResult;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Tiny GPT-2, Llama and ViT trained by the stages of a pipeline, beside one process that has the whole model. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class StagesOfModelsTest {
    private static final Path MODELS =
            Path.of(System.getProperty("octet.testdata")).resolve("models/tiny-onnx");
    private static final int STEPS = 20;

    @TempDir
    Path folder;

    private String data(String model) throws IOException {
        SplittableRandom random = new SplittableRandom(3);
        if (model.equals("vit")) {
            float[] pixels = new float[32 * 3 * 16 * 16];
            long[] labels = new long[32];
            for (int i = 0; i < pixels.length; i++) {
                pixels[i] = (float) random.nextDouble();
            }
            for (int i = 0; i < labels.length; i++) {
                labels[i] = random.nextInt(5);
            }
            try (Arena arena = Arena.ofConfined();
                    NpzWriter writer = NpzWriter.stored(folder.resolve("images.npz"))) {
                writer.add(Tensor.ofFloats(arena, "pixel_values", Shape.of(32, 3, 16, 16), pixels));
                writer.add(Tensor.ofLongs(arena, "labels", Shape.of(32), labels));
                writer.commit();
            }
            return "data: {train: images.npz}\nloss: {type: cross-entropy}\n";
        }
        byte[] tokens = new byte[2 * 600];
        for (int i = 0; i < tokens.length; i += 2) {
            tokens[i] = (byte) random.nextInt(100);
        }
        Files.write(folder.resolve("tokens.bin"), tokens);
        return "data: {train: tokens.bin, sequence: 6}\nloss: {type: causal-lm}\n";
    }

    private List<StepResult> steps(String model, String text, Collectives world) throws IOException {
        List<StepResult> results = new ArrayList<>();
        TrainingConfig config = TrainingConfig.of(YamlFile.parse(text, "c.yaml"), folder, world.size());
        try (TrainingJob job = TrainingJob.open(
                MODELS.resolve(model + "_eager_dynamo18.onnx"),
                config,
                DeviceName.CPU,
                Job.defaults().withThreads(1),
                world)) {
            for (long step = 1; step <= STEPS; step++) {
                results.add(job.trainer().step(step));
            }
        }
        return results;
    }

    @ParameterizedTest
    @CsvSource({
        "gpt2, 1, 2, 1, 4, fp32", "gpt2, 1, 4, 1, 4, fp32", "llama, 1, 3, 1, 4, fp32", "llama, 1, 2, 2, 4, bf16",
        "llama, 1, 4, 1, 2, fp8", "vit, 1, 4, 1, 3, fp32", "vit, 1, 2, 2, 2, fp8", "gpt2, 1, 3, 1, 4, fp8",
        "gpt2, 2, 2, 1, 4, bf16", "gpt2, -2, 2, 1, 4, fp32", "llama, -2, 2, 2, 4, fp32", "llama, 2, 2, 1, 4, fp8", "vit, 2, 2, 2, 4, fp32"
    })
    void losses_of_twenty_steps_are_those_of_one_process(
            String model, int data, int stages, int chunks, int microBatches, String mode) throws IOException {
        String text = data(model) + "batch_size: 2\nsteps: " + STEPS + "\ngradient_accumulation: " + microBatches
                + "\noptimizer: {type: adamw, lr: 1.0e-3}\nclip_grad_norm: 1.0\nprecision: {mode: " + mode + "}\n";
        int tensor = data < 0 ? -data : 1;
        data = Math.max(1, data);
        String played = data == 1 ? text : text.replace("mode:", "ranks: " + data + ", gradient_reduction: f32, mode:");
        List<StepResult> one = steps(model, played, Collectives.alone());
        String staged = text + "distributed: {tensor: " + tensor + ", pipeline: " + stages + ", chunks: " + chunks + "}\n";
        List<List<StepResult>> all =
                RankThreads.run(tensor * data * stages, Duration.ofSeconds(20), world -> steps(model, staged, world));
        for (List<StepResult> rank : all) {
            assertEquals(all.getFirst(), rank, "what ranks know of a step is the same on all");
        }
        System.err.println(model + " equal " + one.equals(all.getFirst()) + " " + one.get(19).loss() + " " + all.getFirst().get(19).loss());
        for (int i = 0; i < STEPS; i++) {
            assertEquals(one.get(i).loss(), all.getFirst().get(i).loss(), 1e-6, "step " + (i + 1));
            assertEquals(
                    one.get(i).gradNorm(),
                    all.getFirst().get(i).gradNorm(),
                    1e-5 * one.get(i).gradNorm(),
                    "step " + (i + 1));
        }
        assertTrue(one.size() == STEPS);
    }
}
