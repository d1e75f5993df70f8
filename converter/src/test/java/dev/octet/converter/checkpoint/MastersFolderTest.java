package dev.octet.converter.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class MastersFolderTest {
    @TempDir
    Path folder;

    private List<String> names() throws IOException {
        try (Stream<Path> entries = Files.list(folder)) {
            return entries.map(p -> p.getFileName().toString()).sorted().toList();
        }
    }

    @Test
    void it_goes_with_all_that_is_in_it() throws IOException {
        try (MastersFolder masters = MastersFolder.beside(folder.resolve("out"))) {
            Files.writeString(masters.path().resolve("model.safetensors"), "masters");
            assertEquals(folder, masters.path().getParent());
        }
        assertEquals(List.of(), names());
    }

    /** A folder without a lock, one with the lock file of a dead process, a lock file alone: a process can be killed at any time. */
    @Test
    void what_killed_processes_left_is_removed_and_nothing_else() throws IOException {
        for (String left : List.of(".octet-export-a", ".octet-export-123456", "octet-export-mine")) {
            Files.writeString(Files.createDirectory(folder.resolve(left)).resolve("model.safetensors"), "half");
        }
        Files.createFile(folder.resolve(".octet-export-a.lock"));
        Files.createFile(folder.resolve(".octet-export-b.lock"));
        MastersFolder.beside(folder.resolve("out")).close();
        assertEquals(List.of("octet-export-mine"), names());
    }

    @Test
    void an_export_that_goes_on_is_left_alone_and_its_output_is_refused() throws IOException {
        try (MastersFolder first = MastersFolder.beside(folder.resolve("first"))) {
            Path file = Files.writeString(first.path().resolve("model.safetensors"), "masters");
            MastersFolder.beside(folder.resolve("second")).close();
            assertTrue(Files.exists(file));
            assertThrows(FileSystemException.class, () -> MastersFolder.beside(folder.resolve("first")));
            assertTrue(Files.exists(file));
        }
        assertEquals(List.of(), names());
    }

    @Test
    void a_link_of_its_name_is_not_followed() throws IOException {
        Path mine = Files.createDirectory(folder.resolve("mine"));
        Files.writeString(mine.resolve("file"), "mine");
        Files.createSymbolicLink(folder.resolve(".octet-export-out"), mine);
        MastersFolder.beside(folder.resolve("out")).close();
        assertEquals("mine", Files.readString(mine.resolve("file")));
        assertEquals(List.of("mine"), names());
    }
}
