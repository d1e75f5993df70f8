package dev.octet.trainer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Processes with limits of memory and disk: 72 MB of weights have as many of gradients, and four times as many of moments and averages. */
@Tag("sweep")
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class OffloadMemoryTest {
    /** KiB of private memory: less than the run takes with its states, more than without. Mapped files do not count. */
    private static final int TOO_LITTLE = 950_000;

    private static final String AVERAGES = "averaging: {ema: {decay: 0.9}, swa: {start: 0, every: 1}}";

    @TempDir
    Path folder;

    private Path disk;

    @BeforeEach
    void a_disk() throws IOException {
        assumeTrue(System.getProperty("os.name").startsWith("Linux"), "limits of private memory are Linux's");
        assumeTrue(Files.isExecutable(Path.of("/bin/bash")), "there is no bash to set a limit");
        disk = Files.createDirectory(folder.resolve("disk"));
    }

    private String onDisk() {
        return "offload: {states: disk, path: " + disk + "}";
    }

    private Process start(String limit, int steps, boolean resume, String... lines) throws IOException {
        List<String> words = new ArrayList<>(List.of(
                "/bin/bash",
                "-c",
                limit + " exec \"$@\"",
                "limited",
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Xmx400m",
                "-Xms400m",
                "-XX:+UseSerialGC",
                "-XX:-UsePerfData",
                "--enable-native-access=ALL-UNNAMED",
                "--add-modules",
                "jdk.incubator.vector",
                "-cp",
                System.getProperty("java.class.path"),
                OffloadChild.class.getName(),
                folder.resolve("run").toString(),
                String.valueOf(steps),
                String.valueOf(resume),
                "steps: 1000"));
        words.addAll(List.of(lines));
        return new ProcessBuilder(words)
                .redirectErrorStream(true)
                .redirectOutput(folder.resolve("printed").toFile())
                .start();
    }

    private String ended(int code, Process process) throws Exception {
        assertTrue(process.waitFor(2, TimeUnit.MINUTES));
        String printed = Files.readString(folder.resolve("printed"));
        assertEquals(code, process.exitValue(), printed);
        return printed;
    }

    private void assertDiskEmpty() throws IOException {
        try (Stream<Path> left = Files.list(disk)) {
            assertEquals(List.of(), left.toList());
        }
    }

    @Test
    void states_larger_than_the_memory_that_is_left_train_from_the_disk_and_resume() throws Exception {
        String limit = "ulimit -d " + TOO_LITTLE + ";";
        String without = ended(5, start(limit, 2, false, AVERAGES));
        assertTrue(without.contains("no memory for"), without);
        assertTrue(ended(0, start(limit, 2, false, AVERAGES, onDisk())).contains("INTERRUPTED"));
        assertTrue(ended(0, start(limit, 1, true, AVERAGES, onDisk())).contains("INTERRUPTED"));
        assertTrue(Files.isDirectory(folder.resolve("run/checkpoints/step-3")));
        assertDiskEmpty();
    }

    @Test
    void a_killed_run_leaves_no_file() throws Exception {
        Process process = start("", 1000, false, AVERAGES, onDisk(), "checkpoint: {every: 1}");
        try {
            while (!Files.isDirectory(folder.resolve("run/checkpoints/step-1"))) {
                assertTrue(!process.waitFor(50, TimeUnit.MILLISECONDS), "ended before it was killed");
            }
        } finally {
            process.destroyForcibly().waitFor();
        }
        assertDiskEmpty();
    }

    @Test
    void a_disk_without_room_is_named_before_the_first_step() throws Exception {
        String printed = ended(5, start("ulimit -f 100000;", 2, false, AVERAGES, onDisk()));
        assertTrue(printed.contains("the disk for offloaded values has too little room: they take 27"), printed);
        assertTrue(Files.notExists(folder.resolve("run/metrics.jsonl")), "a step was done");
        assertDiskEmpty();
    }
}
