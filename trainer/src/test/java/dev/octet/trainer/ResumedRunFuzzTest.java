package dev.octet.trainer;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.code_intelligence.jazzer.junit.FuzzTest;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.file.Sha256;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.hook.RunPlan;
import dev.octet.trainer.hook.TrainingHook;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;

/** Arbitrary bytes as files of a run that continues: either it continues, or it is refused. How to fuzz: docs/fuzzing.md. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("fuzz")
class ResumedRunFuzzTest {
    private static final String CONFIG = SmallRun.CONFIG
            + "precision: {mode: fp8, recipe: delayed, amax_history_len: 2, base: fp16, loss_scale: {type:"
            + " deepspeed}}\n";
    private static final List<String> FILES = List.of("checkpoint.json", "parameters.safetensors", "state.safetensors");

    @TempDir
    static Path run;

    private static Device device;
    private static Trainer trainer;

    @BeforeAll
    static void train() throws IOException {
        device = CpuDevice.of(1);
        trainer = Trainer.of(SmallRun.parts(CONFIG), device);
        trainer.run(run, RunOptions.defaults().withMaxSteps(2));
    }

    @AfterAll
    static void close() {
        trainer.close();
        device.close();
    }

    @FuzzTest(maxDuration = "30m")
    void a_checkpoint_with_an_arbitrary_description_is_taken_up_or_refused(byte[] bytes) throws IOException {
        resumes("checkpoint.json", bytes);
    }

    @FuzzTest(maxDuration = "30m")
    void a_checkpoint_with_an_arbitrary_state_is_taken_up_or_refused(byte[] bytes) throws IOException {
        resumes("state.safetensors", bytes);
    }

    /** The digests are right: what is tried lies behind them. */
    private static void resumes(String name, byte[] bytes) throws IOException {
        Path folder = run.resolve("checkpoints/step-2");
        byte[] original = Files.readAllBytes(folder.resolve(name));
        try {
            Files.write(folder.resolve(name), bytes);
            StringBuilder sums = new StringBuilder();
            for (String file : FILES) {
                sums.append(Sha256.of(folder.resolve(file)))
                        .append("  ")
                        .append(file)
                        .append('\n');
            }
            Files.writeString(folder.resolve("SHA256SUMS"), sums);
            new TrainingRun(trainer, run, RunOptions.defaults().resuming()).start();
        } catch (OctetException e) {
            assertFalse(e.fix().isEmpty());
        } finally {
            Files.write(folder.resolve(name), original);
        }
    }

    @FuzzTest(maxDuration = "30m")
    void arbitrary_digests_are_refused(byte[] bytes) throws IOException {
        Files.write(run.resolve("checkpoints/step-2/SHA256SUMS"), bytes);
        try {
            new TrainingRun(trainer, run, RunOptions.defaults().resuming()).start();
        } catch (OctetException e) {
            assertFalse(e.fix().isEmpty());
        }
    }

    @FuzzTest(maxDuration = "30m")
    void an_arbitrary_manifest_gets_one_more_session_or_is_written_anew(byte[] bytes) throws IOException {
        Path manifest = run.resolve("run.json");
        Files.write(manifest, bytes);
        RunPlan plan = new RunPlan("cpu", "plain", "fp32", 0, List.of(), List.of("w"), 4, 0, 16, 16, List.of());
        RunManifest.write(
                run,
                Map.of("steps", "3"),
                RunOptions.defaults().resuming(),
                new TrainingHook.RunStart(run, 3, 3, plan));
        assertTrue(
                new ObjectMapper().readTree(manifest.toFile()).path("sessions").size() >= 1);
    }
}
