package dev.octet.trainer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.hook.RunEnd;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ExampleHookTest {
    private static final Path ROOT =
            Path.of(System.getProperty("octet.testdata", "../testdata")).resolveSibling("");

    @Test
    void the_example_of_the_documentation_ends_a_run(@TempDir Path folder) throws IOException {
        String yaml = SmallRun.with("data: {train: made, eval: more}", "eval_every: 5", "steps: 200");
        try (Device device = CpuDevice.of(1);
                Trainer trainer = Trainer.of(SmallRun.parts(yaml), device)) {
            RunEnd end = trainer.run(folder, RunOptions.defaults().withHooks(List.of(new GoodEnough(0.5))));
            assertEquals(RunEnd.Reason.INTERRUPTED, end.reason());
            assertTrue(end.message().startsWith("good enough at step "), end.message());
            assertTrue(end.step() % 5 == 0 && end.step() < 200, "step " + end.step());
        }
    }

    @Test
    void and_is_compiled_as_it_stands_there() throws IOException {
        Path source = ROOT.resolve("trainer/src/test/java/dev/octet/trainer/GoodEnough.java");
        String text = Files.readString(source);
        String example = text.substring(text.indexOf("/** Ends a run"));
        assertTrue(Files.readString(ROOT.resolve("docs/training.md")).contains(example), example);
    }
}
