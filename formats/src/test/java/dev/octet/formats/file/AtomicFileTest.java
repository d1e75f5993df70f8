package dev.octet.formats.file;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class AtomicFileTest {
    @TempDir
    Path folder;

    private static MemorySegment text(String text) {
        return MemorySegment.ofArray(text.getBytes(StandardCharsets.UTF_8));
    }

    private List<String> files() throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            return files.map(f -> f.getFileName().toString()).sorted().toList();
        }
    }

    @Test
    void a_committed_file_replaces_the_old_one() throws IOException {
        Path target = Files.writeString(folder.resolve("m"), "old and longer");
        try (AtomicFile file = AtomicFile.create(target)) {
            file.write(text("n"));
            file.write(text("ew"));
            assertEquals(3, file.position());
            assertEquals("old and longer", Files.readString(target));
            file.commit();
        }
        assertEquals("new", Files.readString(target));
        assertEquals(List.of("m"), files());
    }

    @Test
    void a_write_that_fails_half_way_leaves_the_old_file_and_nothing_else() throws IOException {
        Path target = Files.writeString(folder.resolve("m"), "old");
        IOException e = assertThrows(IOException.class, () -> {
            try (AtomicFile file = AtomicFile.create(target)) {
                file.write(text("half"));
                throw new IOException("no space left");
            }
        });
        assertEquals("no space left", e.getMessage());
        assertEquals("old", Files.readString(target));
        assertEquals(List.of("m"), files());
    }

    @Test
    void two_writers_of_one_file_do_not_mix() throws IOException {
        Path target = folder.resolve("m");
        try (AtomicFile first = AtomicFile.create(target);
                AtomicFile second = AtomicFile.create(target)) {
            first.write(text("first"));
            second.write(text("second"));
            second.commit();
            first.commit();
        }
        assertEquals("first", Files.readString(target));
        assertEquals(List.of("m"), files());
    }

    @Test
    void a_folder_is_not_replaced_and_a_missing_one_not_made() {
        assertThrows(FileAlreadyExistsException.class, () -> AtomicFile.create(folder));
        assertThrows(NoSuchFileException.class, () -> AtomicFile.create(folder.resolve("no/m")));
    }

    @Test
    void segments_on_and_off_the_heap_are_written_whole() throws IOException {
        byte[] bytes = new byte[3_000_001]; // more than two chunks of a heap segment
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) ((i * 31) >> 3);
        }
        Path target = folder.resolve("m");
        try (Arena arena = Arena.ofShared();
                AtomicFile file = AtomicFile.create(target)) {
            file.write(MemorySegment.ofArray(bytes));
            file.write(arena.allocateFrom(ValueLayout.JAVA_BYTE, bytes));
            file.write(MemorySegment.NULL);
            file.commit();
        }
        byte[] written = Files.readAllBytes(target);
        assertEquals(2 * bytes.length, written.length);
        assertArrayEquals(bytes, Arrays.copyOf(written, bytes.length));
        assertArrayEquals(bytes, Arrays.copyOfRange(written, bytes.length, written.length));
    }

    @Test
    void a_process_killed_while_writing_leaves_the_old_file() throws Exception {
        Path target = Files.writeString(folder.resolve("m"), "old");
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-cp",
                        System.getProperty("java.class.path"),
                        WriterThatHangs.class.getName(),
                        target.toString())
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        try (BufferedReader out =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            assertEquals("written", out.readLine());
            assertEquals(2, files().size(), "the old file and the unfinished one");
        } finally {
            process.destroyForcibly().waitFor();
        }
        assertEquals("old", Files.readString(target));
    }

    /** Writes a part, says so, and waits for its end. */
    static final class WriterThatHangs {
        private WriterThatHangs() {}

        public static void main(String[] args) throws IOException {
            try (AtomicFile file = AtomicFile.create(Path.of(args[0]))) {
                file.write(text("half of the new"));
                System.out.println("written");
                System.out.flush();
                int end = System.in.read(); // the parent never writes
                throw new IllegalStateException("came back with " + end);
            }
        }
    }

    @Test
    void a_mapped_file_is_read_only_and_whole() throws IOException {
        Path path = Files.writeString(folder.resolve("m"), "abc");
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment mapped = MappedFile.map(path, arena);
            assertArrayEquals(new byte[] {'a', 'b', 'c'}, mapped.toArray(ValueLayout.JAVA_BYTE));
            assertTrue(mapped.isReadOnly());
            assertEquals(
                    0,
                    MappedFile.map(Files.createFile(folder.resolve("empty")), arena)
                            .byteSize());
            assertThrows(IOException.class, () -> MappedFile.map(folder, arena));
            assertThrows(NoSuchFileException.class, () -> MappedFile.map(folder.resolve("no"), arena));
        }
        assertArrayEquals(new byte[] {'a', 'b'}, MappedFile.head(path, 2));
        assertArrayEquals(new byte[] {'a', 'b', 'c'}, MappedFile.head(path, 4));
    }

    @Test
    void a_segment_read_as_a_stream_gives_its_bytes() throws IOException {
        MemorySegment segment = text("hello");
        assertArrayEquals("hello".getBytes(StandardCharsets.UTF_8), new SegmentInputStream(segment).readAllBytes());
        SegmentInputStream in = new SegmentInputStream(segment);
        assertEquals('h', in.read());
        assertEquals(4, in.available());
        assertEquals(0, in.read(new byte[0]));
        assertEquals(4, in.read(new byte[9], 2, 7));
        assertEquals(-1, in.read());
        assertEquals(-1, in.read(new byte[1]));
    }
}
