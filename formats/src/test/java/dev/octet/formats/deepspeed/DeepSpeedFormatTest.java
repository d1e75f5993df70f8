package dev.octet.formats.deepspeed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.TestData;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.CopiedFolder;
import dev.octet.formats.checkpoint.SameTensors;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Set;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Checkpoints of ZeRO (testdata/make/deepspeed_checkpoints.py), beside the weights that were shared out. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class DeepSpeedFormatTest {
    private static final Path FOLDER = TestData.path("checkpoints/deepspeed");
    private static final Path EXPECTED = FOLDER.resolve("weights.safetensors");

    @TempDir
    Path folder;

    @ParameterizedTest
    @ValueSource(strings = {"zero2", "zero2/global_step4", "zero3"})
    void shares_of_ranks_are_the_weights_that_were_shared_out(String name) throws IOException {
        SameTensors.assertSame(EXPECTED, FOLDER.resolve(name));
    }

    @ParameterizedTest
    @ValueSource(strings = {"zero1", "universal", "universal3"})
    void what_is_not_frozen_is_whole_again(String name) throws IOException {
        try (Checkpoint expected = Checkpoint.open(EXPECTED);
                Checkpoint found = Checkpoint.open(FOLDER.resolve(name))) {
            Set<String> names = new HashSet<>(expected.tensors().keySet());
            names.remove("frozen.weight");
            SameTensors.assertSame(expected, found, names);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2})
    void the_missing_rank_is_named(int rank) throws IOException {
        String file = "bf16_zero_pp_rank_" + rank + "_mp_rank_00_optim_states.pt";
        CopiedFolder.of(FOLDER.resolve("zero3/global_step4"), folder, file);
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> Checkpoint.open(folder));
        assertEquals("the optimizer states of rank " + rank + " are missing, of 3 ranks", e.what());
    }

    @Test
    void the_missing_rank_of_frozen_weights_is_named() throws IOException {
        CopiedFolder.of(FOLDER.resolve("zero3/global_step4"), folder, "zero_pp_rank_2_mp_rank_00_model_states.pt");
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> Checkpoint.open(folder));
        assertEquals("the model states of rank 2 are missing, of 3 ranks", e.what());
    }

    @Test
    void a_share_of_another_run_is_refused() throws IOException {
        CopiedFolder.of(FOLDER.resolve("zero2/global_step4"), folder, "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt");
        Files.copy(
                FOLDER.resolve("zero1/global_step4/zero_pp_rank_1_mp_rank_00_optim_states.pt"),
                folder.resolve("bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"));
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> Checkpoint.open(folder));
        assertTrue(e.what().startsWith("the file is of no stage of ZeRO, or of another than the first"), e.what());
    }

    @Test
    void tensor_parallel_ranks_are_sent_to_the_universal_form() throws IOException {
        CopiedFolder.of(FOLDER.resolve("zero1/global_step4"), folder);
        Files.copy(folder.resolve("mp_rank_00_model_states.pt"), folder.resolve("mp_rank_01_model_states.pt"));
        UnsupportedModelException e = assertThrows(UnsupportedModelException.class, () -> Checkpoint.open(folder));
        assertTrue(e.fix().contains("ds_to_universal.py"), e.fix());
    }

    @Test
    void a_parameter_without_weights_is_named() throws IOException {
        CopiedFolder.of(FOLDER.resolve("universal/global_step4_universal"), folder);
        try (var files = Files.list(folder.resolve("zero/layers.0.fc.weight"))) {
            for (Path file : files.toList()) {
                Files.delete(file);
            }
        }
        Files.delete(folder.resolve("zero/layers.0.fc.weight"));
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> Checkpoint.open(folder));
        assertEquals("there is no fp32.pt of parameter 'layers.0.fc.weight'", e.what());
    }
}
