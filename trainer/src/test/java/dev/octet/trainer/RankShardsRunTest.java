package dev.octet.trainer;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.checkpoint.CheckpointFile;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankThreads;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.hook.RunEnd;
import java.io.IOException;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Runs of ranks that share out states and gradients, beside the run in which one process plays all ranks and keeps all. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RankShardsRunTest {
    private static final int STEPS = 7;
    private static final Duration DEADLINE = Duration.ofSeconds(30);

    @TempDir
    Path folder;

    private static TrainingParts parts(int ranks, int accumulation, String zero, String precision, String... lines) {
        List<String> all = new ArrayList<>(List.of(
                "steps: " + STEPS,
                "gradient_accumulation: " + accumulation,
                "distributed: {" + zero + "}",
                "precision: {" + precision + ", ranks: " + ranks + "}"));
        all.addAll(List.of(lines));
        return SmallRun.parts(SmallRun.with(all.toArray(String[]::new)));
    }

    private static RunEnd run(TrainingParts parts, Path run, Collectives world, RunOptions options) throws IOException {
        try (Device device = CpuDevice.of(1);
                Trainer trainer = Trainer.of(parts, device, world)) {
            return trainer.run(run, options);
        }
    }

    private static List<RunEnd> threads(int ranks, TrainingParts parts, Path run, RunOptions options) {
        return RankThreads.run(ranks, DEADLINE, world -> run(parts, run, world, options));
    }

    /** Everything of a checkpoint that computing goes on from: tensors by name, and numbers. */
    private static Map<String, byte[]> contents(Path run, long step) throws IOException {
        Map<String, byte[]> all = new TreeMap<>();
        try (CheckpointFile file = new CheckpointFolder(run).open(step)) {
            file.state().parameters().forEach((name, t) -> all.put("parameter " + name, bytes(t)));
            file.state().state().forEach((name, t) -> all.put("state " + name, bytes(t)));
            all.put("numbers", file.state().numbers().toString().getBytes(java.nio.charset.StandardCharsets.UTF_8));
        }
        return all;
    }

    private static byte[] bytes(Tensor tensor) {
        return tensor.bytes().toArray(ValueLayout.JAVA_BYTE);
    }

    private static void assertSame(Path expected, Path got, long step) throws IOException {
        Map<String, byte[]> first = contents(expected, step);
        Map<String, byte[]> second = contents(got, step);
        assertEquals(first.keySet(), second.keySet());
        first.forEach((name, bytes) -> assertArrayEquals(bytes, requireNonNull(second.get(name)), name));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "2 | 2 | zero: 1 | mode: fp32 |",
                "3 | 6 | zero: 1 | mode: bf16 |",
                "2 | 2 | zero: 2 | mode: fp32 |",
                "3 | 3 | zero: 2 | mode: bf16 |",
                "4 | 4 | zero: 2 | mode: fp32 |",
                "2 | 4 | zero: 2 | mode: fp32 |",
                "4 | 12 | zero: 2 | mode: bf16 |",
                "2 | 2 | zero: 2, bucket_size: 1 | mode: fp32 |",
                "2 | 2 | zero: 2, bucket_size: 100 | mode: fp32 |",
                "2 | 2 | zero: 1, bucket_size: 100 | mode: fp32 |",
                "2 | 2 | zero: 2 | mode: fp16, loss_scale: {type: torch, init_scale: 1.0e7, growth_interval: 3} |",
                "2 | 4 | zero: 2 | mode: O2 |",
                "3 | 3 | zero: 2 | mode: fp32 | optimizer: {type: sgd, lr: 0.1}",
                "3 | 3 | zero: 2 | mode: fp32 | optimizer: {type: sgd, lr: 0.1, momentum: 0.9, nesterov: true}",
                "2 | 2 | zero: 2 | mode: fp32 | optimizer: {type: adafactor, lr: 0.01}",
                "2 | 2 | zero: 2 | mode: fp32 | optimizer: {type: muon, lr: 0.01}",
                "2 | 2 | zero: 2 | mode: fp32 | optimizer: {type: lamb, lr: 0.01}",
                "2 | 2 | zero: 2 | mode: fp32 | optimizer: {type: lion, lr: 0.001}",
                "2 | 2 | zero: 2 | mode: fp32 | optimizer: {type: adagrad, lr: 0.01}",
                "2 | 2 | zero: 2 | mode: fp32 | optimizer: {type: stableadamw, lr: 0.01}",
                "2 | 2 | zero: 2 | mode: fp32 | averaging: {ema: {decay: 0.9}}",
                "2 | 2 | zero: 2 | mode: fp32 | schedule: {type: OneCycleLR, max_lr: 0.01}",
                "3 | 3 | zero: 1 | mode: bf16 | optimizer: {type: adamw, lr: 0.01, states: {engine: torchao}}",
                "3 | 3 | zero: 2 | mode: bf16 | optimizer: {type: adamw, lr: 0.01, states: {engine: torchao, format: fp8}}",
                "2 | 2 | zero: 2 | mode: bf16 | optimizer: {type: adamw, lr: 0.01, states: {engine: bf16}}",
                "2 | 4 | zero: 2 | mode: bf16 | optimizer: {type: adamw, lr: 0.01, states: {engine: bf16, masters: bf16}}",
                "2 | 2 | zero: 2 | mode: bf16 | optimizer: {type: adamw, lr: 0.01, states: {engine: te, store_param_remainders: true}}",
                "2 | 2 | zero: 2 | mode: fp32 | gradient_checkpointing: {match: act}",
                "2 | 2 | zero: 2 | mode: fp32 | train_only: [w2]",
                "2 | 2 | zero: 2 | mode: fp32 | data: {train: made, eval: more, shuffle: true} ; eval_every: 2 ; schedule: {type: reduce_lr_on_plateau, patience: 1}",
                "2 | 4 | zero: 2 | mode: fp32 | adapter: {r: 2, lora_alpha: 4, target_modules: [first, second], lora_dropout: 0.2}"
            })
    void a_checkpoint_of_shares_has_the_bytes_of_the_run_that_keeps_all(
            int ranks, int accumulation, String zero, String precision, String line) throws IOException {
        String[] lines = line == null ? new String[0] : line.split(" ; ", -1);
        String all = precision + ", gradient_reduction: f32";
        Path whole = folder.resolve("whole");
        run(parts(ranks, accumulation, "zero: 0", all, lines), whole, Collectives.alone(), RunOptions.defaults());
        Path shared = folder.resolve("shared");
        threads(ranks, parts(ranks, accumulation, zero, all, lines), shared, RunOptions.defaults());
        assertSame(whole, shared, STEPS);
    }
}
