package dev.octet.formats.dcp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.TestData;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.CopiedFolder;
import dev.octet.formats.checkpoint.SameTensors;
import dev.octet.formats.error.MalformedModelException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What torch's distributed checkpoints hold (testdata/make/torch_checkpoints.py), beside the same tensors as safetensors wrote them. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class DcpFormatTest {
    private static final Path FOLDER = TestData.path("checkpoints/torch");
    private static final Path EXPECTED = FOLDER.resolve("dcp.safetensors");

    @TempDir
    Path folder;

    @ParameterizedTest
    @ValueSource(strings = {"dcp", "dcp-flat"})
    void tensors_cut_in_any_way_are_whole_again(String name) throws IOException {
        SameTensors.assertSame(EXPECTED, FOLDER.resolve(name));
    }

    @Test
    void shards_in_safetensors_are_whole_again() throws IOException {
        try (Checkpoint expected = Checkpoint.open(EXPECTED);
                Checkpoint found = Checkpoint.open(FOLDER.resolve("dcp-hf"))) {
            Set<String> names = new HashSet<>(expected.tensors().keySet());
            names.remove("layers.0.counter"); // it has no axis to cut, and the writer was not given it
            SameTensors.assertSame(expected, found, names);
        }
    }

    @Test
    void an_optimizer_is_counted_and_left_out() throws IOException {
        try (Checkpoint checkpoint = Checkpoint.open(FOLDER.resolve("dcp"))) {
            assertEquals(List.of("14 tensors under 'optimizer' are left out: no weights"), checkpoint.notes());
        }
    }

    @Test
    void a_missing_rank_is_named() throws IOException {
        CopiedFolder.of(FOLDER.resolve("dcp"), folder, "__2_0.distcp");
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> Checkpoint.open(folder));
        assertTrue(e.what().startsWith("there is no file __2_0.distcp"), e.what());
    }

    @Test
    void a_missing_rank_of_safetensors_is_named() throws IOException {
        CopiedFolder.of(FOLDER.resolve("dcp-hf"), folder, "shard-00001-model-00001-of-00001.safetensors");
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> Checkpoint.open(folder));
        assertEquals("there is no file of shard 1, though there is one of shard 2", e.what());
    }

    @Test
    void a_file_that_was_cut_short_is_refused() throws IOException {
        CopiedFolder.of(FOLDER.resolve("dcp"), folder, "none");
        Path file = folder.resolve("__3_0.distcp");
        Files.write(file, Arrays.copyOf(Files.readAllBytes(file), 2000));
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> Checkpoint.open(folder));
        assertTrue(e.what().endsWith("the file has 2000"), e.what());
    }
}
