package dev.octet.trainer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.hook.Interruption;
import dev.octet.trainer.hook.RunControl;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.hook.TrainingHook;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class InterruptedRunTest {
    private static final String LOCK = ".octet-lock";

    @TempDir
    Path folder;

    private RunEnd run(RunOptions options, TrainingHook... hooks) throws IOException {
        try (Device device = CpuDevice.of(1);
                Trainer trainer = Trainer.of(SmallRun.parts(SmallRun.CONFIG), device)) {
            return trainer.run(folder, options.withHooks(List.of(hooks)));
        }
    }

    private List<Long> checkpoints() throws IOException {
        return new CheckpointFolder(folder).steps();
    }

    @Test
    void a_run_that_is_asked_to_end_before_it_begins_does_no_step_and_can_be_started_again() throws IOException {
        Interruption interruption = new Interruption();
        assertFalse(interruption.ask(), "there is nothing to wait for");
        RunEnd end = run(RunOptions.defaults(), interruption);
        assertEquals(RunEnd.Reason.INTERRUPTED, end.reason());
        assertEquals(0, end.step());
        assertEquals(List.of(), checkpoints());
        assertTrue(Files.notExists(folder.resolve(LOCK)));
        assertEquals(2, run(RunOptions.defaults().withMaxSteps(2)).step());
    }

    @Test
    void a_resumed_run_that_is_asked_to_end_before_it_begins_stays_where_it_was() throws IOException {
        run(RunOptions.defaults().withMaxSteps(2));
        Interruption interruption = new Interruption();
        List<Boolean> running = new ArrayList<>();
        RunEnd end = run(
                RunOptions.defaults().resuming(),
                new TrainingHook() {
                    @Override
                    public void runStarted(RunStart start, RunControl control) {
                        running.add(interruption.ask());
                    }
                },
                interruption);
        assertEquals(List.of(false), running);
        assertEquals(2, end.step());
        assertEquals(0, end.totals().steps());
        assertEquals(List.of(2L), checkpoints());
        assertEquals(40, run(RunOptions.defaults().resuming()).step());
    }

    @Test
    void a_run_that_is_asked_to_end_in_a_step_ends_after_it_with_a_checkpoint() throws IOException {
        Interruption interruption = new Interruption();
        List<Boolean> running = new ArrayList<>();
        RunEnd end = run(RunOptions.defaults(), interruption, new TrainingHook() {
            @Override
            public void beforeStep(long step) {
                if (step == 3) {
                    running.add(interruption.ask());
                }
            }
        });
        assertEquals(List.of(true), running);
        assertEquals(RunEnd.Reason.INTERRUPTED, end.reason());
        assertEquals(3, end.step());
        assertEquals(List.of(3L), checkpoints());
    }
}
