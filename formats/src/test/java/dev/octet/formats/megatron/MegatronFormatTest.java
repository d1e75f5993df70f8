package dev.octet.formats.megatron;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.TestData;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.CopiedFolder;
import dev.octet.formats.checkpoint.SameTensors;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.pickle.Pickler;
import dev.octet.formats.torch.ArchivesFile;
import dev.octet.formats.torch.TorchArchive;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Checkpoints of Megatron (testdata/make/megatron_checkpoints.py), beside the checkpoints of transformers whose weights they hold. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class MegatronFormatTest {
    private static final Path FOLDER = TestData.path("checkpoints/megatron");

    @TempDir
    Path folder;

    @ParameterizedTest
    @CsvSource({"llama,.", "llama,iter_0000010", "gpt2,."})
    void layers_heads_and_gates_are_those_of_transformers(String model, String opened) throws IOException {
        CopiedFolder.of(FOLDER.resolve(model), folder);
        Path original = TestData.path("checkpoints/" + model);
        Files.copy(original.resolve("config.json"), folder.resolve("config.json"));
        SameTensors.assertSame(original, folder.resolve(opened).normalize());
    }

    @Test
    void without_config_json_Megatron_s_arguments_say_as_much_but_for_the_padding() throws IOException {
        try (Checkpoint found = Checkpoint.open(FOLDER.resolve("llama"));
                Checkpoint expected = Checkpoint.open(TestData.path("checkpoints/llama"));
                Arena arena = Arena.ofConfined()) {
            assertEquals(
                    expected.tensors().keySet(), new HashSet<>(found.tensors().keySet()));
            String name = "model.layers.1.self_attn.k_proj.weight";
            StoredTensor k = Objects.requireNonNull(found.tensor(name));
            StoredTensor original = Objects.requireNonNull(expected.tensor(name));
            assertEquals(-1, found.read(k, arena).mismatch(expected.read(original, arena)));
            assertEquals(
                    128,
                    Objects.requireNonNull(found.tensor("lm_head.weight"))
                            .shape()
                            .dim(0));
            assertTrue(found.notes().getLast().startsWith("rows of the embedding that pad"), found.notes()::toString);
        }
    }

    @Test
    void rows_that_pad_the_vocabulary_are_cut_off_where_the_arguments_tell_its_size() throws IOException {
        CopiedFolder.of(FOLDER.resolve("llama"), folder);
        Pickler common = new Pickler();
        common.dict().mark().text("args");
        common.global("argparse", "Namespace").emptyTuple().object().dict().mark();
        common.text("num_attention_heads").number(4);
        common.text("group_query_attention").bool(true);
        common.text("num_query_groups").number(2);
        common.text("position_embedding_type").text("rope");
        common.text("vocab_size").number(100);
        common.items().build().items();
        ArchivesFile.write(folder.resolve("iter_0000010/common.pt"), TorchArchive.ofObject(common), (spec, sink) -> {});
        try (Checkpoint found = Checkpoint.open(folder)) {
            for (String name : List.of("lm_head.weight", "model.embed_tokens.weight")) {
                assertEquals(
                        100, Objects.requireNonNull(found.tensor(name)).shape().dim(0), name);
            }
            assertFalse(found.notes().getLast().startsWith("rows of the embedding"), found.notes()::toString);
        }
    }

    @Test
    void an_optimizer_is_counted_and_left_out() throws IOException {
        try (Checkpoint found = Checkpoint.open(FOLDER.resolve("llama"))) {
            assertEquals(
                    "1 tensor under 'optimizer' is left out: no weight",
                    found.notes().getFirst());
        }
    }

    @Test
    void heads_that_do_not_divide_the_rows_are_refused() throws IOException {
        CopiedFolder.of(FOLDER.resolve("llama"), folder);
        Files.writeString(
                folder.resolve("config.json"),
                "{\"model_type\": \"llama\", \"num_attention_heads\": 6, \"num_key_value_heads\": 3}");
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> Checkpoint.open(folder));
        assertTrue(e.what().endsWith("has 64 rows, which 6 heads and 3 of keys and values do not divide"), e.what());
    }

    @Test
    void another_family_is_refused_by_name() throws IOException {
        CopiedFolder.of(FOLDER.resolve("llama"), folder);
        Files.writeString(folder.resolve("config.json"), "{\"model_type\": \"mamba\"}");
        UnsupportedModelException e = assertThrows(UnsupportedModelException.class, () -> Checkpoint.open(folder));
        assertTrue(e.what().contains("'mamba'"), e.what());
    }

    @Test
    void without_any_word_on_heads_config_json_is_asked_for() throws IOException {
        CopiedFolder.of(FOLDER.resolve("gpt2"), folder, "common.pt");
        UnsupportedModelException e = assertThrows(UnsupportedModelException.class, () -> Checkpoint.open(folder));
        assertTrue(e.fix().contains("config.json"), e.fix());
    }
}
