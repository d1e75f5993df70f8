package dev.octet.formats.file;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RunPathsTest {
    @TempDir
    Path folder;

    private Path model;
    private Path file;

    @BeforeEach
    void make() throws IOException {
        model = Files.createDirectory(folder.resolve("model"));
        Files.createDirectory(model.resolve("deep"));
        file = Files.writeString(model.resolve("deep/weights"), "weights");
    }

    private static void refused(RunPaths paths) {
        InvalidOptionException e = assertThrows(InvalidOptionException.class, paths::requireApart);
        assertTrue(e.what().contains("--output"), e.what());
    }

    private static void allowed(RunPaths paths) {
        assertDoesNotThrow(paths::requireApart);
    }

    private static RunPaths file(Path input, Path output) {
        return RunPaths.none().reading("MODEL", input).writing("--output", output);
    }

    @Test
    void a_file_is_the_same_by_any_of_its_names() throws IOException {
        Path link = Files.createSymbolicLink(folder.resolve("link"), file);
        Path folderLink = Files.createSymbolicLink(folder.resolve("folder-link"), model.resolve("deep"));
        Path hard = Files.createLink(folder.resolve("hard"), file);
        for (Path name : List.of(
                file,
                link,
                hard,
                folderLink.resolve("weights"),
                folderLink.resolve("../deep/weights"),
                model.resolve("../model/deep/weights"),
                Path.of("").toAbsolutePath().relativize(file.toRealPath()))) {
            refused(file(file, name));
            refused(file(name, file));
            refused(file(model, name));
        }
    }

    @Test
    void a_new_file_in_a_folder_that_is_read_is_allowed_and_one_that_is_there_is_not_replaced() throws IOException {
        allowed(file(model, model.resolve("new.html")));
        Files.writeString(model.resolve("new.html"), "a page");
        refused(file(model, model.resolve("new.html")));
        allowed(file(file, model.resolve("new.html")));
    }

    @Test
    void a_folder_is_written_neither_into_nor_around_what_is_read() {
        for (Path output : List.of(model, model.resolve("new"), model.resolve("deep"), folder)) {
            refused(RunPaths.none().reading("MODEL", model).writingFolder("--output", output));
        }
        refused(file(file, model));
        allowed(RunPaths.none().reading("MODEL", model).writingFolder("--output", folder.resolve("model-fp8")));
    }

    @Test
    void a_folder_that_is_reached_through_the_one_that_is_read_is_part_of_it() throws IOException {
        Path cache = Files.createDirectory(folder.resolve("cache"));
        Path blob = Files.writeString(cache.resolve("blob"), "weights");
        Files.createSymbolicLink(model.resolve("shard"), blob);
        Files.createSymbolicLink(model.resolve("more"), cache);
        Files.createSymbolicLink(model.resolve("circle"), model);
        refused(file(model, blob));
        refused(file(model, cache));
        refused(file(model, model.resolve("shard")));
    }

    @Test
    void what_is_added_to_a_folder_may_lie_beside_what_is_read() throws IOException {
        Path run = Files.createDirectory(folder.resolve("run"));
        Path data = Files.writeString(run.resolve("data.npz"), "data");
        RunPaths paths = RunPaths.none().reading("--data", data);
        allowed(paths.adding("--output", run, List.of("run.json", "checkpoints")));
        refused(paths.adding("--output", run, List.of("run.json", "data.npz")));
        refused(RunPaths.none().reading("MODEL", run).adding("--output", run, List.of("run.json")));
    }

    @Test
    void two_outputs_are_two_files() {
        RunPaths one = RunPaths.none().writing("--report", folder.resolve("a"));
        refused(one.writing("--output", folder.resolve("model/../a")));
        allowed(one.writing("--output", folder.resolve("b")));
    }

    @Test
    void an_input_with_the_name_of_unfinished_work_is_not_taken_for_that() {
        Path out = folder.resolve("out");
        for (String name : List.of(".out.part", ".out.lock", ".out.17-2.tmp", ".octet-export-out")) {
            refused(file(folder.resolve(name), out));
        }
        allowed(file(folder.resolve(".out.parts"), out));
    }

    @Test
    void it_is_known_whether_anything_could_be_replaced() throws IOException {
        Path out = folder.resolve("out");
        assertEquals(false, file(file, out).replaces());
        Files.createSymbolicLink(out, folder.resolve("nowhere"));
        assertEquals(true, file(file, out).replaces());
    }
}
