package dev.octet.formats.file;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class SetAsideTest {
    private static final List<String> NAMES = List.of("model", "run", "report");

    @TempDir
    Path folder;

    private Map<String, String> old;

    @BeforeEach
    void make() throws IOException {
        write("old");
        Files.writeString(folder.resolve("mine"), "mine");
        old = files();
    }

    private void write(String text) throws IOException {
        Files.writeString(folder.resolve("model"), text);
        Files.writeString(Files.createDirectories(folder.resolve("run")).resolve(text), text);
    }

    private Map<String, String> files() throws IOException {
        Map<String, String> texts = new TreeMap<>();
        try (Stream<Path> all = Files.walk(folder)) {
            for (Path file : all.filter(Files::isRegularFile).toList()) {
                texts.put(folder.relativize(file).toString(), Files.readString(file));
            }
        }
        return texts;
    }

    @Test
    void what_was_set_aside_goes_when_it_is_replaced() throws IOException {
        try (SetAside earlier = SetAside.of(folder, NAMES)) {
            assertEquals(false, Files.exists(folder.resolve("run")));
            write("new");
            earlier.replaced();
        }
        assertEquals(Map.of("model", "new", "run/new", "new", "mine", "mine"), files());
    }

    @Test
    void it_comes_back_when_the_run_fails() throws IOException {
        assertThrows(IllegalStateException.class, () -> {
            try (SetAside _ = SetAside.of(folder, NAMES)) {
                write("new");
                throw new IllegalStateException("a failure");
            }
        });
        assertEquals(old, files());
    }

    @Test
    void it_comes_back_with_the_run_after_one_that_was_killed() throws IOException {
        SetAside killed = SetAside.of(folder, NAMES);
        write("half");
        SetAside.of(folder, NAMES).close();
        assertEquals(old, files());
        killed.replaced(); // the object outlived its process
    }

    @Test
    void nothing_is_touched_where_nothing_is_replaced() throws IOException {
        SetAside.of(folder, List.of()).close();
        assertEquals(old, files());
    }
}
