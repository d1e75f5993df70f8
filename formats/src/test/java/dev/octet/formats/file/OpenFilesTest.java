package dev.octet.formats.file;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class OpenFilesTest {
    private static final int COUNT = 100;

    @TempDir
    Path folder;

    private final List<Path> paths = new ArrayList<>();

    @BeforeEach
    void make() throws IOException {
        for (int i = 0; i < COUNT; i++) {
            paths.add(Files.write(folder.resolve("file" + i), new byte[] {0, (byte) i}));
        }
    }

    private byte second(OpenFiles files, int i) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment one = arena.allocate(1);
            files.read(paths.get(i), 1, one);
            return one.get(ValueLayout.JAVA_BYTE, 0);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Test
    void many_files_are_read_with_few_open() throws IOException {
        try (OpenFiles files = new OpenFiles()) {
            for (int i = 0; i < COUNT; i++) {
                assertEquals(i, second(files, i));
                assertTrue(files.count() <= OpenFiles.MAX_IDLE, files.count() + " open");
            }
            assertEquals(0, second(files, 0));
        }
    }

    @Test
    void threads_read_what_another_one_would_close() throws IOException {
        try (OpenFiles files = new OpenFiles()) {
            long wrong = IntStream.range(0, 20 * COUNT)
                    .parallel()
                    .filter(i -> second(files, i % COUNT) != i % COUNT)
                    .count();
            assertEquals(0, wrong);
            second(files, 1);
            second(files, 2 + OpenFiles.MAX_IDLE);
            assertTrue(
                    files.count() <= OpenFiles.MAX_IDLE + Runtime.getRuntime().availableProcessors() + 1);
        }
    }

    @Test
    void a_file_that_ends_early_is_named() throws IOException {
        try (OpenFiles files = new OpenFiles();
                Arena arena = Arena.ofConfined()) {
            MemorySegment three = arena.allocate(3);
            EOFException e = assertThrows(EOFException.class, () -> files.read(paths.get(7), 0, three));
            assertTrue(String.valueOf(e.getMessage()).contains("file7"), e.getMessage());
        }
    }
}
