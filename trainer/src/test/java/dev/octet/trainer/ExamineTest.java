package dev.octet.trainer;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.replay.Diagnosis;
import dev.octet.trainer.replay.ExaminationOptions;
import dev.octet.trainer.replay.Verdict;
import java.io.IOException;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** Examinations of small runs. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ExamineTest {
    private static Diagnosis examined(String... lines) throws IOException {
        try (Device device = CpuDevice.of(2);
                Trainer trainer = Trainer.of(SmallRun.parts(SmallRun.with(lines)), device)) {
            return trainer.examine(null, ExaminationOptions.defaults());
        }
    }

    @Test
    void a_run_without_fp8_has_nothing_to_examine() throws IOException {
        assertEquals(Verdict.NO_FP8, examined("precision: {mode: bf16}").verdict());
    }
}
