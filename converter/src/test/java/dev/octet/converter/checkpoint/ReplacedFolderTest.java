package dev.octet.converter.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.CheckpointConverter.Request;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A model that takes the place of another one. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ReplacedFolderTest {
    private static final ConversionRequest OLD = MadeCheckpoint.goal(Recipes.MXFP8, "compressed-tensors");
    private static final ConversionRequest NEW = MadeCheckpoint.goal(Recipes.FP8_DYNAMIC, "compressed-tensors");
    private static final String HIDDEN = WholeFolder.NEW + "/";

    @TempDir
    Path folder;

    private Path source;
    private Path out;
    private Map<String, String> wanted;

    @BeforeEach
    void make() throws IOException {
        source = MadeCheckpoint.small(folder.resolve("source")).write();
        Files.writeString(source.resolve("tokenizer.json"), "{}");
        out = folder.resolve("out");
        MadeCheckpoint.run(source, NEW, folder.resolve("new"));
        wanted = MadeCheckpoint.sums(folder.resolve("new"));
        MadeCheckpoint.run(source, OLD, out);
    }

    private CheckpointResult forced(Path output, ByteProgress progress) throws IOException {
        return MadeCheckpoint.run(source, NEW, Request.all(), output, new StreamOptions(1, true, progress));
    }

    /** Ends as a kill does, with one of two files finished: nobody cleans up. */
    private void killed(ConversionRequest goal) {
        assertThrows(
                IllegalStateException.class,
                () -> MadeCheckpoint.run(source, goal, Request.all(), out, new StreamOptions(1, true, (done, total) -> {
                    if (done > 0.8 * total) {
                        throw new IllegalStateException("killed");
                    }
                })));
    }

    /** All that is not hidden. */
    private Map<String, String> visible() throws IOException {
        Map<String, String> sums = new TreeMap<>(MadeCheckpoint.sums(out));
        sums.keySet().removeIf(n -> n.startsWith(HIDDEN));
        return sums;
    }

    @Test
    void a_killed_replacement_leaves_the_old_model_and_the_same_command_goes_on() throws IOException {
        Map<String, String> before = MadeCheckpoint.sums(out);
        killed(NEW);
        assertEquals(before, visible());
        assertFalse(before.equals(MadeCheckpoint.sums(out)), "nothing was begun");
        assertEquals(1, forced(out, ByteProgress.silent()).resumedFiles());
        assertEquals(wanted, MadeCheckpoint.sums(out));
        assertFalse(Files.exists(out.resolve(WholeFolder.NEW)));
    }

    @Test
    void what_another_command_did_not_finish_is_made_anew() throws IOException {
        killed(MadeCheckpoint.goal(Recipes.FP8_BLOCK, "fp8"));
        assertEquals(0, forced(out, ByteProgress.silent()).resumedFiles());
        assertEquals(wanted, MadeCheckpoint.sums(out));
    }

    @Test
    void a_run_killed_while_it_put_the_new_model_in_place_ends_with_the_same_bytes() throws IOException {
        killed(NEW);
        Files.delete(out.resolve("config.json"));
        String shard = "model-00001-of-00002.safetensors";
        Files.move(out.resolve(HIDDEN + shard), out.resolve(shard), StandardCopyOption.REPLACE_EXISTING);
        forced(out, ByteProgress.silent());
        assertEquals(wanted, MadeCheckpoint.sums(out));
    }

    @Test
    void what_is_in_the_way_of_the_new_model_is_told_before_the_old_one_goes() throws IOException {
        Files.delete(out.resolve("tokenizer.json"));
        Files.writeString(Files.createDirectory(out.resolve("tokenizer.json")).resolve("mine"), "mine");
        Map<String, String> before = MadeCheckpoint.sums(out);
        assertThrows(IOException.class, () -> forced(out, ByteProgress.silent()));
        assertEquals(before, visible());
    }

    @Test
    void a_link_to_a_folder_stays_one() throws IOException {
        Path link = Files.createSymbolicLink(folder.resolve("link"), out);
        forced(link, ByteProgress.silent());
        assertTrue(Files.isSymbolicLink(link));
        assertEquals(wanted, MadeCheckpoint.sums(out));
    }
}
