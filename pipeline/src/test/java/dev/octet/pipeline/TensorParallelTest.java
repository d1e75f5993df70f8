package dev.octet.pipeline;

import static org.junit.jupiter.api.Assertions.assertEquals;

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

/** Tiny GPT-2, Llama and ViT whose layers ranks share, beside one process that has all. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TensorParallelTest {
    private static final Path MODELS =
            Path.of(System.getProperty("octet.testdata")).resolve("models");
    private static final int STEPS = 20;
    private static final Duration DEADLINE = Duration.ofSeconds(60);

    @TempDir
    Path folder;

    private String data(String model) throws IOException {
        SplittableRandom random = new SplittableRandom(3);
        if (model.contains("vit")) {
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
            tokens[i] = (byte) random.nextInt(37);
        }
        Files.write(folder.resolve("tokens.bin"), tokens);
        return "data: {train: tokens.bin, sequence: 6}\nloss: {type: causal-lm}\n";
    }

    private String text(String model, String... lines) throws IOException {
        return data(model) + "batch_size: 2\nsteps: " + STEPS + "\noptimizer: {type: adamw, lr: 1.0e-3}\n"
                + "clip_grad_norm: 1.0\n" + String.join("\n", lines) + "\n";
    }

    private TrainingConfig config(String text, int ranks) {
        return TrainingConfig.of(YamlFile.parse(text, "c.yaml"), folder, ranks);
    }

    private TrainingJob open(String model, String text, Collectives world) throws IOException {
        return TrainingJob.open(
                MODELS.resolve(model),
                config(text, world.size()),
                DeviceName.CPU,
                Job.defaults().withThreads(1),
                world);
    }

    private List<StepResult> steps(String model, String text, Collectives world) throws IOException {
        List<StepResult> results = new ArrayList<>();
        try (TrainingJob job = open(model, text, world)) {
            for (long step = 1; step <= STEPS; step++) {
                results.add(job.trainer().step(step));
            }
        }
        return results;
    }

    private List<List<StepResult>> ranks(int count, String model, String text) {
        return RankThreads.run(count, DEADLINE, world -> steps(model, text, world));
    }

    @ParameterizedTest
    @CsvSource({
        "tiny-onnx/gpt2_eager_dynamo18.onnx, 2",
        "tiny-onnx/gpt2_eager_dynamo18.onnx, 4",
        "tiny-onnx/llama_eager_dynamo18.onnx, 2",
        "tiny-onnx/vit_eager_dynamo18.onnx, 4",
        "tiny-hf/gpt2, 2",
        "tiny-hf/llama, 2",
        "tiny-hf/qwen3, 2",
        "tiny-hf/vit, 2",
    })
    void losses_of_twenty_steps_in_F32_are_those_of_one_process(String model, int tensor) throws IOException {
        requireSameLosses(model, tensor, "");
    }

    @ParameterizedTest
    @CsvSource({
        "tiny-onnx/gpt2_eager_dynamo18.onnx, 2",
        "tiny-onnx/llama_eager_dynamo18.onnx, 2",
        "tiny-hf/gpt2, 4",
        "tiny-hf/qwen3, 2",
        "tiny-hf/vit, 2",
    })
    void sequence_parallel_ranks_have_the_losses_of_one_process(String model, int tensor) throws IOException {
        requireSameLosses(model, tensor, ", sequence_parallel: true");
    }

    private void requireSameLosses(String model, int tensor, String more) throws IOException {
        List<StepResult> one = steps(model, text(model), Collectives.alone());
        List<List<StepResult>> all = ranks(tensor, model, text(model, "distributed: {tensor: " + tensor + more + "}"));
        for (List<StepResult> rank : all) {
            assertEquals(all.getFirst(), rank, "what ranks know of a step is the same on all");
        }
        for (int i = 0; i < STEPS; i++) {
            String where = "step " + (i + 1);
            // products are added up in another order
            assertEquals(one.get(i).loss(), all.getFirst().get(i).loss(), 1e-6, where);
            assertEquals(
                    one.get(i).gradNorm(), all.getFirst().get(i).gradNorm(), 1e-5 * one.get(i).gradNorm(), where);
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "tiny-onnx/gpt2_eager_dynamo18.onnx | 2 | mode: bf16                                  | 0.01",
                "tiny-hf/llama                      | 2 | mode: bf16                                  | 0.01",
                "tiny-onnx/vit_eager_dynamo18.onnx  | 2 | mode: fp16, loss_scale: {type: torch}       | 0.01",
                "tiny-onnx/gpt2_eager_dynamo18.onnx | 2 | mode: fp8, recipe: delayed                  | 0.01",
                "tiny-hf/llama                      | 2 | mode: fp8, recipe: current                  | 0.01",
                "tiny-hf/gpt2                       | 2 | mode: fp8, recipe: mxfp8                    | 0.01",
            })
    void losses_of_narrow_types_are_near_those_of_one_process(
            String model, int tensor, String precision, double tolerance) throws IOException {
        String mode = "precision: {" + precision + "}";
        List<StepResult> one = steps(model, text(model, mode), Collectives.alone());
        List<List<StepResult>> all =
                ranks(tensor, model, text(model, mode, "distributed: {tensor: " + tensor + "}"));
        double worst = 0;
        for (int i = 0; i < STEPS; i++) {
            assertEquals(all.getFirst().get(i), all.getLast().get(i), "what ranks know of a step is the same on all");
            worst = Math.max(worst, Math.abs(one.get(i).loss() - all.getFirst().get(i).loss()));
            System.out.println(precision + " " + i + " " + one.get(i).loss() + " " + all.getFirst().get(i).loss()+" "+one.get(i).gradNorm()+" "+all.getFirst().get(i).gradNorm()); // XXX
        }
        assertEquals(0, worst, tolerance);
    }

    @ParameterizedTest
    @CsvSource({"gpt2, fp32", "llama, bf16"})
    void what_data_parallel_ranks_share_out_changes_no_bit(String name, String mode) throws IOException {
        String model = "tiny-hf/" + name;
        String lines = "gradient_accumulation: 2\nprecision: {mode: " + mode + "}\n";
        List<StepResult> one = steps(model, text(model, lines), Collectives.alone());
        List<StepResult> whole = ranks(4, model, text(model, lines, "distributed: {tensor: 2}")).getFirst();
        for (int i = 0; i < STEPS; i++) {
            assertEquals(one.get(i).loss(), whole.get(i).loss(), mode.equals("fp32") ? 1e-6 : 0.01, "step " + (i + 1));
        }
        for (int zero = 1; zero <= 3; zero++) {
            String shares = "distributed: {tensor: 2, zero: " + zero + "}";
            for (List<StepResult> rank : ranks(4, model, text(model, lines, shares))) {
                assertEquals(whole, rank, shares);
            }
        }
    }
}
