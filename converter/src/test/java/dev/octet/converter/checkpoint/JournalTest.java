package dev.octet.converter.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.error.InvalidOptionException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class JournalTest {
    @TempDir
    Path folder;

    private Path file;

    @BeforeEach
    void name() {
        assumeTrue(
                Files.isReadable(Path.of("/proc/sys/kernel/random/boot_id")),
                "finished files are trusted only where the system tells its boots apart");
        file = folder.resolve(Journal.FILE_NAME);
    }

    private static ObjectNode fingerprint(String recipe) {
        return new ObjectMapper().createObjectNode().put("recipe", recipe).put("target", "t");
    }

    private Journal open() throws IOException {
        return Journal.open(folder, fingerprint("a"), false);
    }

    private void finish(Journal journal, String name) throws IOException {
        Files.writeString(folder.resolve(name), name);
        journal.add(folder, name);
    }

    @Test
    void finished_files_are_known_to_the_next_run() throws IOException {
        finish(open(), "one");
        finish(open(), "two");
        Journal next = open();
        assertTrue(next.has(folder, "one") && next.has(folder, "two"));
        assertFalse(next.has(folder, "three"));
    }

    @Test
    void a_file_that_is_not_as_it_was_left_is_not_trusted() throws IOException {
        for (String name : List.of("longer", "later", "gone")) {
            finish(open(), name);
        }
        Files.writeString(folder.resolve("longer"), "more");
        Files.setLastModifiedTime(folder.resolve("later"), FileTime.fromMillis(1));
        Files.delete(folder.resolve("gone"));
        Journal next = open();
        for (String name : List.of("longer", "later", "gone")) {
            assertFalse(next.has(folder, name), name);
        }
    }

    @Test
    void a_journal_cut_off_at_any_byte_loses_only_what_was_cut() throws IOException {
        finish(open(), "one");
        String untilOne = Files.readString(file);
        finish(open(), "two");
        String whole = Files.readString(file);
        int firstLine = whole.indexOf('\n') + 1;
        for (int length = firstLine; length <= whole.length(); length++) {
            Files.writeString(file, whole.substring(0, length));
            Journal next = open();
            assertEquals(length >= untilOne.length(), next.has(folder, "one"), "one after " + length + " bytes");
            assertEquals(length == whole.length(), next.has(folder, "two"), "two after " + length + " bytes");
            finish(next, "three");
            assertTrue(open().has(folder, "three"), "what follows a cut of " + length + " bytes");
            assertEquals(length >= untilOne.length(), open().has(folder, "one"));
        }
    }

    @Test
    void a_journal_of_another_run_is_refused_saying_what_differs_and_stays() throws IOException {
        finish(open(), "one");
        String before = Files.readString(file);
        InvalidOptionException refusal =
                assertThrows(InvalidOptionException.class, () -> Journal.open(folder, fingerprint("b"), false));
        assertTrue(refusal.what().contains("recipe differs"), refusal.what());
        assertEquals(before, Files.readString(file));
        assertFalse(Journal.open(folder, fingerprint("b"), true).has(folder, "one"));
    }

    @Test
    void a_journal_that_is_no_journal_is_refused() throws IOException {
        for (String text : List.of("{\n", "[]\n", "\0\0\n", "{}\nnonsense\n")) {
            Files.writeString(file, text);
            assertThrows(InvalidOptionException.class, this::open, text);
        }
    }
}
