package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** {@code octet export} as a process that is killed. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class KilledExportTest {
    private static final String HIDDEN = ".octet-export-";

    @TempDir
    Path folder;

    @BeforeEach
    void train() throws IOException {
        TinyBert.samples(folder.resolve("train.npz"), 8, 1);
        Files.writeString(folder.resolve("c.yaml"), """
            data: {train: train.npz}
            loss: {type: mse, output: logits, distillation: {teacher: '%s'}}
            batch_size: 8
            steps: 1
            """.formatted(TinyBert.MODEL));
        CommandLine line = CommandLine.run(
                "train",
                TinyBert.MODEL.toString(),
                "--config",
                folder.resolve("c.yaml").toString(),
                "-o",
                folder.resolve("run").toString());
        assertEquals(ExitCode.OK, line.code(), line.err());
        Files.createDirectory(folder.resolve("exports"));
    }

    private String[] export(String name) {
        return new String[] {
            "export",
            folder.resolve("run").toString(),
            "-o",
            folder.resolve("exports").resolve(name).toString(),
            "--target",
            "compressed-tensors",
            "--threads",
            "1"
        };
    }

    private List<String> hidden() throws IOException {
        try (Stream<Path> entries = Files.list(folder.resolve("exports"))) {
            return entries.map(p -> p.getFileName().toString())
                    .filter(n -> n.startsWith(HIDDEN))
                    .sorted()
                    .toList();
        }
    }

    /** Kills an export as soon as it has made its folder; whether that was in time. */
    private boolean killInTheMiddle(String name) throws Exception {
        Process process = Child.start(Child.octet(List.of(export(name))), folder.resolve("child.txt"));
        try {
            while (!process.waitFor(1, TimeUnit.MILLISECONDS)) {
                if (hidden().contains(HIDDEN + name)) {
                    break;
                }
            }
        } finally {
            process.destroyForcibly().waitFor();
        }
        return hidden().contains(HIDDEN + name);
    }

    @Test
    void the_next_export_removes_what_a_killed_one_left_also_of_another_name() throws Exception {
        String first = killed();
        CommandLine line = CommandLine.run(export("second"));
        assertEquals(ExitCode.OK, line.code(), line.err());
        assertEquals(List.of(), hidden());
        CommandLine again = CommandLine.run(export(first));
        assertEquals(ExitCode.OK, again.code(), again.err());
        assertEquals(List.of(), hidden());
    }

    @Test
    void the_same_command_exports_the_same_bytes_after_a_kill() throws Exception {
        String name = killed();
        Path output = folder.resolve("exports").resolve(name);
        assertFalse(Files.exists(output), "half an export has its final name");
        CommandLine again = CommandLine.run(export(name));
        assertEquals(ExitCode.OK, again.code(), again.err());
        assertEquals(List.of(), hidden());
        CommandLine whole = CommandLine.run(export("whole"));
        assertEquals(ExitCode.OK, whole.code(), whole.err());
        for (String file : List.of("model.safetensors", "config.json")) {
            assertEquals(
                    -1,
                    Files.mismatch(
                            output.resolve(file), output.resolveSibling("whole").resolve(file)));
        }
    }

    /** The name of an export that was killed in the middle. */
    private String killed() throws Exception {
        for (int attempt = 0; attempt < 5; attempt++) {
            if (killInTheMiddle("first-" + attempt)) {
                return "first-" + attempt;
            }
        }
        throw new AssertionError("never killed in time: " + Files.readString(folder.resolve("child.txt")));
    }
}
