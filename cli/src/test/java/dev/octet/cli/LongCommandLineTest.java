package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class LongCommandLineTest {
    @TempDir
    Path folder;

    @Test
    void onnx_runtime_starts_in_a_process_with_a_long_command_line() throws IOException, InterruptedException {
        Path samples = TinyBert.samples(folder.resolve("samples.npz"), 2, 1);
        List<String> words = Child.java("-Doctet.padding=" + "x".repeat(100_000));
        words.add(Start.class.getName());
        words.addAll(List.of(
                "calibrate",
                TinyBert.MODEL.toString(),
                "--calibration",
                samples.toString(),
                "-o",
                folder.resolve("out.stats").toString()));
        Path printed = folder.resolve("printed.txt");
        ProcessBuilder builder =
                new ProcessBuilder(words).redirectErrorStream(true).redirectOutput(printed.toFile());
        builder.environment().remove("ORT_DISABLE_TELEMETRY");
        assertEquals(0, builder.start().waitFor(), () -> read(printed));
    }

    private static String read(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException e) {
            return e.toString();
        }
    }
}
