package dev.octet.formats.file;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What dead processes left goes; what belongs to living ones stays. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class LeftBehindTest {
    @TempDir
    Path folder;

    /** Of a process that is no more. */
    private long dead;

    @BeforeEach
    void end() throws IOException, InterruptedException {
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(), "--help")
                .redirectErrorStream(true)
                .redirectOutput(folder.resolve("help.txt").toFile())
                .start();
        process.waitFor();
        dead = process.pid();
        Files.delete(folder.resolve("help.txt"));
    }

    private List<String> names() throws IOException {
        try (Stream<Path> entries = Files.list(folder)) {
            return entries.map(p -> p.getFileName().toString()).sorted().toList();
        }
    }

    @Test
    void the_next_file_removes_the_unfinished_ones_of_dead_processes() throws IOException {
        long alive = ProcessHandle.current().pid();
        Files.writeString(folder.resolve(".m.onnx." + dead + "-1.tmp"), "half");
        Files.writeString(folder.resolve(".m.onnx." + alive + "-999999.tmp"), "of this process");
        Files.writeString(folder.resolve(".other.onnx." + dead + "-1.tmp"), "of another file");
        try (AtomicFile file = AtomicFile.create(folder.resolve("m.onnx"))) {
            assertEquals(4 - 1, names().size());
            file.commit();
        }
        assertEquals(List.of(".m.onnx." + alive + "-999999.tmp", ".other.onnx." + dead + "-1.tmp", "m.onnx"), names());
    }

    @Test
    void a_temporary_folder_goes_with_what_is_in_it() throws IOException {
        try (TemporaryFolder made = TemporaryFolder.create("test", folder)) {
            Files.writeString(Files.createDirectory(made.path().resolve("deep")).resolve("file"), "");
        }
        assertEquals(List.of(), names());
    }

    @Test
    void the_next_temporary_folder_removes_those_of_dead_processes() throws IOException {
        Path left = Files.createDirectory(folder.resolve("octet-tapped-" + dead + "-17"));
        Files.createFile(left.resolve(".octet-lock"));
        Files.writeString(left.resolve("tapped.onnx"), "");
        Path old = Files.createDirectory(folder.resolve("octet-proof-" + dead + "-18"));
        Files.setLastModifiedTime(old, FileTime.from(Instant.now().minus(Duration.ofHours(1))));
        Path beginning = Files.createDirectory(folder.resolve("octet-proof-" + dead + "-19"));
        Path mine = Files.createDirectory(folder.resolve("octet-mine"));
        try (TemporaryFolder other = TemporaryFolder.create("other", folder);
                TemporaryFolder made = TemporaryFolder.create("test", folder)) {
            assertTrue(Files.exists(made.path()) && Files.exists(other.path()));
            assertFalse(Files.exists(left));
            assertFalse(Files.exists(old));
            assertTrue(Files.exists(beginning) && Files.exists(mine));
        }
    }

    @Test
    void a_folder_whose_lock_is_held_is_of_a_living_process_of_another_container() throws IOException {
        Path left = Files.createDirectory(folder.resolve("octet-tapped-" + dead + "-17"));
        try (FileChannel channel = FileChannel.open(
                        left.resolve(".octet-lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
                FileLock lock = channel.lock();
                TemporaryFolder made = TemporaryFolder.create("test", folder)) {
            assertTrue(lock.isValid() && Files.exists(made.path()));
            assertTrue(Files.exists(left));
        }
    }
}
