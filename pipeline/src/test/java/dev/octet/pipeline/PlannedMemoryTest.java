package dev.octet.pipeline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.MemoryLimitException;
import dev.octet.pipeline.run.RunFolder;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.DryDevice;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.dialect.DialectFiles;
import dev.octet.trainer.hook.RunPlan;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.OptionalInt;
import java.util.Random;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What a run is planned to take, what it takes, and what is refused. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PlannedMemoryTest {
    private static final Path MODEL = Path.of(System.getProperty("octet.testdata"), "models/tiny-lm/gpt2");
    private static final Job JOB = Job.defaults().withThreads(1);

    @TempDir
    Path folder;

    private Path yaml;

    @BeforeEach
    void files() throws IOException {
        byte[] tokens = new byte[2 * 4096];
        Random random = new Random(1);
        for (int i = 0; i < tokens.length; i += 2) {
            tokens[i] = (byte) random.nextInt(256);
            tokens[i + 1] = (byte) random.nextInt(4);
        }
        Files.write(folder.resolve("tokens.bin"), tokens);
        yaml = Files.write(
                folder.resolve("train.yaml"),
                List.of(
                        "data: {train: tokens.bin, sequence: 32}",
                        "loss: {type: causal-lm}",
                        "batch_size: 8",
                        "steps: 2"));
    }

    private TrainingConfig config(String settings) throws IOException {
        List<String> all = settings.isEmpty()
                ? List.of()
                : List.of(settings.replace("FOLDER", folder.toString()).split("; "));
        return TrainingConfig.of(
                RunFolder.merged(yaml, all, OptionalInt.empty(), DialectFiles.NONE)
                        .section(),
                folder);
    }

    private TrainingJob open(String settings, TrainingJob.DeviceOpening device) throws IOException {
        return TrainingJob.openOn(device, MODEL, config(settings), JOB, Collectives.alone());
    }

    private RunPlan plan(String settings, TrainingJob.DeviceOpening device) throws IOException {
        try (TrainingJob job = open(settings, device)) {
            return job.trainer().plan();
        }
    }

    private static Device cpu(long limit) {
        return CpuDevice.of(1).limitedTo(limit);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "precision.mode=bf16",
                "precision={mode: fp8, recipe: delayed}",
                "precision={mode: msamp, opt_level: O3}",
                "optimizer.states={engine: torchao, format: fp8}",
                "gradient_checkpointing={layers: all}",
                "adapter={peft_type: LORA, r: 4, target_modules: all-linear}",
                "offload={states: disk, path: FOLDER}"
            })
    void a_dry_device_plans_what_the_processor_takes(String settings) throws IOException {
        RunPlan dry = plan(settings, threads -> new DryDevice(CpuDevice.of(threads)));
        RunPlan real = plan(settings, _ -> cpu(Long.MAX_VALUE));
        assertEquals(real, dry);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "precision.mode=bf16",
                "adapter={peft_type: LORA, r: 4, target_modules: all-linear}",
                "offload={states: disk, path: FOLDER}"
            })
    void a_run_that_fits_to_the_byte_is_started_and_one_byte_less_is_refused(String settings) throws IOException {
        MemoryLimitException e = assertThrows(MemoryLimitException.class, () -> plan(settings, _ -> cpu(1)));
        long needed = e.neededBytes();
        assertThrows(MemoryLimitException.class, () -> plan(settings, _ -> cpu(needed - 1)));
        try (TrainingJob job = open(settings, _ -> cpu(needed))) {
            assertTrue(Double.isFinite(job.trainer().step(1).loss()));
        }
    }

    @Test
    void what_is_refused_leaves_no_folder() throws IOException {
        Path run = folder.resolve("run");
        Train.Request request = Train.Request.of(MODEL, yaml, run).withSettings(List.of("batch_size=8"));
        String advice = SmallerRun.advice(request, JOB, Long.MAX_VALUE);
        assertTrue(advice.startsWith("--set gradient_checkpointing.layers=all fits"), advice);
        assertFalse(Files.exists(run));
    }

    @Test
    void the_change_that_is_named_fits_and_smaller_ones_do_not() throws IOException {
        Train.Request request = Train.Request.of(MODEL, yaml, folder.resolve("run"));
        long again = bytes("gradient_checkpointing={layers: all}");
        long half = bytes("batch_size=4; gradient_accumulation=2");
        long quarter = bytes("batch_size=2; gradient_accumulation=4");
        assertTrue(quarter < Math.min(again, half), quarter + ", " + half + ", " + again);
        assertTrue(SmallerRun.advice(request, JOB, again).startsWith("--set gradient_checkpointing.layers=all fits"));
        String advice = SmallerRun.advice(request, JOB, quarter);
        assertTrue(advice.startsWith("--set batch_size=2 --set gradient_accumulation=4 fits"), advice);
    }

    @Test
    void where_nothing_fits_the_least_is_named() throws IOException {
        Train.Request request = Train.Request.of(MODEL, yaml, folder.resolve("run"));
        String advice = SmallerRun.advice(request, JOB, 1000);
        assertTrue(advice.contains("the least is"), advice);
    }

    private long bytes(String settings) throws IOException {
        RunPlan plan = plan(settings, threads -> new DryDevice(CpuDevice.of(threads)));
        return plan.lastingBytes() + plan.temporaryBytes();
    }
}
