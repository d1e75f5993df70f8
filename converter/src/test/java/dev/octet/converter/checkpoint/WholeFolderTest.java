package dev.octet.converter.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class WholeFolderTest {
    @TempDir
    Path folder;

    private Path output() {
        return folder.resolve("out");
    }

    /** All files below the folder, with what is in them. */
    private Map<String, String> files() throws IOException {
        Map<String, String> texts = new TreeMap<>();
        try (Stream<Path> all = Files.walk(folder)) {
            for (Path file : all.filter(Files::isRegularFile).toList()) {
                texts.put(folder.relativize(file).toString(), Files.readString(file));
            }
        }
        return texts;
    }

    private static void write(Path folder, String model) throws IOException {
        Files.writeString(folder.resolve("model.safetensors"), model);
        Files.writeString(folder.resolve("config.json"), model);
    }

    @Test
    void a_new_folder_takes_its_name_when_it_is_complete() throws IOException {
        WholeFolder.write(output(), made -> {
            write(made, "new");
            assertEquals(false, Files.exists(output()));
        });
        assertEquals(Map.of("out/model.safetensors", "new", "out/config.json", "new"), files());
    }

    @Test
    void an_earlier_model_gives_way_and_other_files_stay() throws IOException {
        write(Files.createDirectory(output()), "old");
        Files.writeString(output().resolve("model-00002-of-00002.safetensors"), "old shard");
        Files.writeString(output().resolve("README.md"), "mine");
        WholeFolder.write(output(), made -> write(made, "new"));
        assertEquals(
                Map.of("out/model.safetensors", "new", "out/config.json", "new", "out/README.md", "mine"), files());
    }

    @Test
    void a_failure_half_way_leaves_the_old_folder() throws IOException {
        write(Files.createDirectory(output()), "old");
        Map<String, String> before = files();
        assertThrows(
                IOException.class,
                () -> WholeFolder.write(output(), made -> {
                    write(made, "new");
                    throw new IOException("no space left on device");
                }));
        assertEquals(before, files());
    }

    @Test
    void a_failure_half_way_leaves_no_folder_where_there_was_none() throws IOException {
        assertThrows(
                IllegalStateException.class,
                () -> WholeFolder.write(output(), made -> {
                    write(made, "new");
                    throw new IllegalStateException("a tensor's memory is gone");
                }));
        try (Stream<Path> left = Files.list(folder)) {
            assertEquals(0, left.count());
        }
    }
}
