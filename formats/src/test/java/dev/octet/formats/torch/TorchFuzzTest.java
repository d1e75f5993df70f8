package dev.octet.formats.torch;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.code_intelligence.jazzer.junit.FuzzTest;
import dev.octet.formats.TestData;
import dev.octet.formats.dcp.DcpFormat;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.file.OpenFiles;
import dev.octet.formats.file.PieceReader;
import dev.octet.formats.model.ExtraState;
import dev.octet.formats.model.ShardHeader;
import dev.octet.formats.model.ShardSet;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;

/** Arbitrary bytes as what torch saves: tensors that can be read, or the reason why not. How to fuzz: docs/fuzzing.md. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("fuzz")
class TorchFuzzTest {
    private static final long MOST_BYTES = 1 << 20;

    @TempDir
    static Path folder;

    @FuzzTest(maxDuration = "30m")
    void an_arbitrary_file_is_a_state_dict_or_is_refused(byte[] bytes) throws IOException {
        Path file = Files.write(folder.resolve("fuzz.pt"), bytes);
        readable(() -> new TorchFormat().shards(file, problem -> {
            throw problem;
        }));
    }

    /** Most arbitrary bytes are no zip archive; here they are the pickle in one, with 64 bytes of a storage. */
    @FuzzTest(maxDuration = "30m")
    void an_arbitrary_pickle_is_a_state_dict_or_is_refused(byte[] pickle) throws IOException {
        byte[] zip = StoredZipBytes.of(Map.of("a/data.pkl", pickle, "a/data/0", new byte[64]));
        Path file = Files.write(folder.resolve("fuzz.zip"), zip);
        readable(() -> new TorchFormat().shards(file, problem -> {
            throw problem;
        }));
    }

    /** A description of a distributed checkpoint, next to a file of chunks. */
    @FuzzTest(maxDuration = "30m")
    void an_arbitrary_description_is_a_checkpoint_or_is_refused(byte[] metadata) throws IOException {
        Path dcp = Files.createDirectories(folder.resolve("dcp"));
        Files.write(dcp.resolve(".metadata"), metadata);
        Files.copy(
                TestData.path("checkpoints/torch/dcp-flat/__0_0.distcp"),
                dcp.resolve("__0_0.distcp"),
                StandardCopyOption.REPLACE_EXISTING);
        readable(() -> new DcpFormat().shards(dcp, problem -> {
            throw problem;
        }));
    }

    /** The bytes that Transformer Engine would have saved of a module. */
    @FuzzTest(maxDuration = "30m")
    void an_arbitrary_state_of_fp8_training_is_decoded_or_is_refused(byte[] state) throws IOException {
        try {
            Fp8TrainingState.of(new ExtraState("m", state, "fuzz.bin"));
        } catch (OctetException e) {
            return; // says why
        }
    }

    private interface Opening {
        ShardSet open() throws IOException;
    }

    private static void readable(Opening opening) throws IOException {
        ShardSet set;
        try {
            set = opening.open();
        } catch (OctetException e) {
            return;
        }
        try (OpenFiles files = new OpenFiles();
                Arena arena = Arena.ofConfined()) {
            for (var shard : set.shards()) {
                for (ShardHeader.Entry entry : shard.header().entries()) {
                    long bytes = entry.spec().byteSize();
                    if (bytes <= MOST_BYTES) {
                        assertEquals(
                                bytes,
                                PieceReader.read(files, entry.pieces().orElseThrow(), bytes, arena)
                                        .byteSize());
                    }
                }
            }
        }
    }
}
