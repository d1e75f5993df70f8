package dev.octet.formats.torch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.ModelFile;
import dev.octet.formats.TestData;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.SameTensors;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnsupportedModelException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What torch saved (testdata/make/torch_checkpoints.py), beside the same tensors as safetensors wrote them. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TorchFormatTest {
    private static final Path FOLDER = TestData.path("checkpoints/torch");
    private static final Path SAFETENSORS = FOLDER.resolve("states.safetensors");

    @TempDir
    Path folder;

    @ParameterizedTest
    @ValueSource(strings = {"states.bin", "states-old.pt"})
    void views_strides_and_every_type_have_the_bytes_that_torch_makes_contiguous(String file) throws IOException {
        SameTensors.assertSame(SAFETENSORS, FOLDER.resolve(file));
    }

    @Test
    void a_newer_protocol_says_the_same() throws IOException {
        try (Checkpoint expected = Checkpoint.open(SAFETENSORS);
                Checkpoint found = Checkpoint.open(FOLDER.resolve("states-3.pt"))) {
            SameTensors.assertSame(expected, found, Set.of("plain", "transposed", "float8_e4m3fn"));
        }
    }

    @Test
    void a_mapped_model_has_the_same_tensors() throws IOException {
        try (ModelFile expected = ModelFile.open(SAFETENSORS);
                ModelFile found = ModelFile.open(FOLDER.resolve("states.bin"))) {
            assertEquals("torch", found.format().name());
            assertEquals(
                    expected.model().tensors().keySet(), found.model().tensors().keySet());
            expected.model()
                    .tensors()
                    .forEach((name, t) -> assertEquals(
                            -1, t.bytes().mismatch(found.model().tensor(name).bytes()), name));
        }
    }

    @Test
    void files_of_an_index_are_one_checkpoint() throws IOException {
        try (Checkpoint checkpoint = Checkpoint.open(FOLDER.resolve("shards"))) {
            assertEquals(
                    Set.of("a.weight", "a.bias", "b.weight"),
                    checkpoint.tensors().keySet());
            assertEquals("model.safetensors", checkpoint.shards().getFirst().name());
        }
    }

    @Test
    void a_missing_file_of_an_index_is_named() throws IOException {
        for (String name : List.of("pytorch_model.bin.index.json", "pytorch_model-00001-of-00002.bin")) {
            Files.copy(FOLDER.resolve("shards").resolve(name), folder.resolve(name));
        }
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> Checkpoint.open(folder));
        assertTrue(e.what().contains("pytorch_model-00002-of-00002.bin"), e.what());
    }

    @Test
    void a_training_program_s_file_is_its_weights() throws IOException {
        try (Checkpoint checkpoint = Checkpoint.open(FOLDER.resolve("trainer.pt"))) {
            assertEquals(Set.of("weight", "bias"), checkpoint.tensors().keySet());
            assertTrue(
                    checkpoint.notes().stream().anyMatch(n -> n.contains("'optimizer_state_dict'")),
                    checkpoint.notes().toString());
        }
    }

    @Test
    void a_whole_module_is_refused_by_its_class() {
        UnsupportedModelException e =
                assertThrows(UnsupportedModelException.class, () -> Checkpoint.open(FOLDER.resolve("module.pt")));
        assertTrue(e.what().contains("torch.nn.modules.linear.Linear"), e.what());
        assertTrue(e.fix().contains("state_dict()"), e.fix());
    }

    @Test
    void a_zip_archive_of_something_else_is_no_model_of_torch() throws IOException {
        Path npz;
        try (var files = Files.list(TestData.path("golden/npy"))) {
            npz = files.filter(f -> f.toString().endsWith(".npz")).findFirst().orElseThrow();
        }
        assertFalse(new TorchFormat().recognises(npz));
    }

    /** Every cut of the files is refused as damaged; none ends in another exception. */
    @ParameterizedTest
    @ValueSource(strings = {"states.bin", "states-old.pt"})
    void a_file_that_was_cut_short_is_refused(String name) throws IOException {
        byte[] whole = Files.readAllBytes(FOLDER.resolve(name));
        Path cut = folder.resolve("cut.pt");
        for (int length = 20; length < whole.length; length += 97) {
            Files.write(cut, Arrays.copyOf(whole, length));
            assertThrows(
                    OctetException.class,
                    () -> new TorchFormat().shards(cut, p -> {
                        throw p;
                    }));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"size", "offset", "key"})
    void a_tensor_that_lies_about_its_storage_is_refused(String lie) throws IOException {
        byte[] pickle = lyingPickle(lie);
        Path file = folder.resolve("lie.pt");
        Files.write(file, zip(pickle, new byte[16]));
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> Checkpoint.open(file));
        assertTrue(
                e.what().startsWith("tensor 'w' has a storage of 1000 elements")
                        || e.what().startsWith("tensor 'w' of shape [4] reaches byte")
                        || e.what().startsWith("the archive has no member"),
                e.what());
    }

    /** {'w': tensor} of four floats, in protocol 0 with marks, as no library needs to write it. */
    private static byte[] lyingPickle(String lie) {
        String key = lie.equals("key") ? "7" : "0";
        String count = lie.equals("size") ? "1000" : "4";
        String offset = lie.equals("offset") ? "1" : "0";
        String text = "(dVw\nctorch._utils\n_rebuild_tensor_v2\n((Vstorage\nctorch\nFloatStorage\nV" + key + "\nVcpu\nI"
                + count + "\ntQI" + offset + "\n(I4\nt(I1\ntI00\nccollections\nOrderedDict\n)RtRs.";
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }

    static byte[] zip(byte[] pickle, byte[] storage) throws IOException {
        return StoredZipBytes.of(Map.of("a/data.pkl", pickle, "a/data/0", storage));
    }

    @Test
    void the_same_pickle_without_a_lie_is_read() throws IOException {
        Path file = folder.resolve("true.pt");
        Files.write(file, zip(lyingPickle(""), new byte[16]));
        try (Checkpoint checkpoint = Checkpoint.open(file)) {
            assertEquals(
                    "w F32 [4]",
                    checkpoint.tensors().firstEntry().getValue().spec().toString());
        }
    }
}
