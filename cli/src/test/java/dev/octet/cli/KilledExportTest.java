package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

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
            "1",
            "--force"
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
        boolean left = false;
        for (int attempt = 0; attempt < 5 && !left; attempt++) {
            left = killInTheMiddle("first");
        }
        assertTrue(left, "never killed in time: " + Files.readString(folder.resolve("child.txt")));
        CommandLine line = CommandLine.run(export("second"));
        assertEquals(ExitCode.OK, line.code(), line.err());
        assertEquals(List.of(), hidden());
        CommandLine again = CommandLine.run(export("first"));
        assertEquals(ExitCode.OK, again.code(), again.err());
        assertEquals(List.of(), hidden());
    }
}
