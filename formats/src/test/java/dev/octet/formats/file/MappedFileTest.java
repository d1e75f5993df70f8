package dev.octet.formats.file;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class MappedFileTest {
    @TempDir
    Path folder;

    private Path file(String name) throws IOException {
        return Files.write(folder.resolve(name), new byte[100]);
    }

    private static void shorten(Path file) throws IOException {
        try (RandomAccessFile open = new RandomAccessFile(file.toFile(), "rw")) {
            open.setLength(7);
        }
    }

    @Test
    void a_file_that_is_shortened_is_named_with_what_it_had_and_has() throws IOException {
        long before = MappedFile.count();
        Path kept = file("kept");
        Path cut = file("cut");
        try (Arena arena = Arena.ofConfined()) {
            MappedFile.map(kept, arena);
            MappedFile.map(cut, arena);
            assertTrue(MappedFile.shortened(before).isEmpty());
            shorten(cut);
        }
        ShortenedFileException e = MappedFile.shortened(before).orElseThrow();
        assertEquals(cut.toString(), e.getFile());
        assertEquals("the file became shorter while it was read: it had 100 bytes, now it has 7", e.getReason());
        assertTrue(MappedFile.shortened(MappedFile.count()).isEmpty(), "it was mapped before");
    }

    @Test
    void a_file_that_is_replaced_or_removed_is_still_whole_where_it_is_mapped() throws IOException {
        long before = MappedFile.count();
        Path replaced = file("replaced");
        Path removed = file("removed");
        Path other = Files.write(folder.resolve("other"), new byte[7]);
        try (Arena arena = Arena.ofConfined()) {
            MappedFile.map(replaced, arena);
            MappedFile.map(removed, arena);
            Files.move(other, replaced, StandardCopyOption.REPLACE_EXISTING, StandardCopyOption.ATOMIC_MOVE);
            Files.delete(removed);
        }
        assertTrue(MappedFile.shortened(before).isEmpty());
    }
}
