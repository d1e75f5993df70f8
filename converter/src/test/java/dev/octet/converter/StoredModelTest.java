package dev.octet.converter;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.OctetException;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.tensor.CodedTensor;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Models opened to be trained in the bytes they are stored in. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class StoredModelTest {
    private static final Path FOREIGN =
            Path.of(System.getProperty("octet.testdata")).resolve("checkpoints/foreign");

    @TempDir
    Path folder;

    static List<Path> quantised() throws IOException {
        try (Stream<Path> files = Files.list(FOREIGN)) {
            // torchao writes no scales for these
            return files.filter(Files::isDirectory)
                    .filter(f -> !f.endsWith("torchao-mxfp8") && !f.endsWith("torchao-nvfp4"))
                    .sorted()
                    .toList();
        }
    }

    private static Graph graph(ModelSource source) {
        return source.model().graph().orElseThrow().graph();
    }

    /** Checkpoints that other programs wrote, in every layout and scheme that is read. */
    @ParameterizedTest
    @MethodSource("quantised")
    void every_quantised_matrix_stays_in_its_bytes_and_decodes_to_the_bits_of_its_dequantised_copy(Path checkpoint)
            throws IOException {
        try (ModelSource plain = ModelSource.open(checkpoint);
                ModelSource stored = ModelSource.openAsStored(checkpoint);
                Arena arena = Arena.ofConfined()) {
            Map<String, Initializer> dense = graph(plain).initializers();
            assertEquals(dense.keySet(), graph(stored).initializers().keySet());
            int coded = 0;
            for (Initializer constant : graph(stored).initializers().values()) {
                Tensor expected = Objects.requireNonNull(dense.get(constant.name()))
                        .tensor()
                        .orElseThrow();
                if (constant.data() instanceof Initializer.Coded(CodedTensor tensor)) {
                    coded++;
                    assertEquals(expected.spec(), tensor.spec());
                    assertTrue(tensor.byteSize() < expected.bytes().byteSize() / 2, constant.name());
                    MemorySegment floats = arena.allocate(expected.bytes().byteSize(), 64);
                    long rows = expected.shape().dim(0);
                    long half = rows / 2 + 1; // in two parts, the second from the middle of a block on
                    long row = floats.byteSize() / rows;
                    tensor.read(0, half, floats.asSlice(0, half * row));
                    tensor.read(half, rows, floats.asSlice(half * row));
                    assertEquals(-1, floats.mismatch(expected.bytes()), constant.name());
                } else {
                    assertEquals(
                            -1, constant.tensor().orElseThrow().bytes().mismatch(expected.bytes()), constant.name());
                }
            }
            assertTrue(coded >= 7, coded + " coded");
        }
    }

    /** A checkpoint with other bytes of one tensor, or without it. */
    private Path changed(String checkpoint, String tensor, boolean removed) throws IOException {
        Path to = folder.resolve("changed");
        Files.createDirectories(to);
        try (Stream<Path> files = Files.list(FOREIGN.resolve(checkpoint))) {
            for (Path file : files.toList()) {
                Files.copy(file, to.resolve(file.getFileName()));
            }
        }
        Path weights = to.resolve("model.safetensors");
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(weights)).order(ByteOrder.LITTLE_ENDIAN);
        int headerBytes = Math.toIntExact(bytes.getLong(0));
        String header = new String(bytes.array(), 8, headerBytes, StandardCharsets.UTF_8);
        if (removed) { // under a name of the same length, which nothing asks for
            String other = header.replace("\"" + tensor + "\"", "\"" + tensor.replace("scale", "other") + "\"");
            assertFalse(other.equals(header));
            System.arraycopy(other.getBytes(StandardCharsets.UTF_8), 0, bytes.array(), 8, headerBytes);
        } else {
            String entry = header.substring(header.indexOf("\"" + tensor + "\""));
            String offset = entry.replaceFirst("(?s)^.*?\"data_offsets\":\\s*\\[(\\d+).*$", "$1");
            bytes.putInt(8 + headerBytes + Integer.parseInt(offset), 0xFFFFFFFF); // NaN in F32, BF16 and E8M0
        }
        Files.write(weights, bytes.array());
        return to;
    }

    @Test
    void a_scale_that_is_not_a_number_is_refused_at_the_start_with_its_name() throws IOException {
        String scale = "model.layers.0.mlp.up_proj.weight_scale_inv";
        Path model = changed("hf-fp8-block", scale, false);
        OctetException e = assertThrows(OctetException.class, () -> ModelSource.openAsStored(model));
        assertTrue(e.where().contains(scale), e.toString());
        assertTrue(e.what().contains("scale 0 is NaN"), e.toString());
    }

    @Test
    void codes_without_scales_are_refused_at_the_start_with_their_name() throws IOException {
        Path model = changed("hf-fp8-block", "model.layers.0.mlp.up_proj.weight_scale_inv", true);
        OctetException e = assertThrows(OctetException.class, () -> ModelSource.openAsStored(model));
        assertTrue(e.toString().contains("model.layers.0.mlp.up_proj.weight"), e.toString());
    }

    @Test
    void a_plain_model_has_the_same_constants_either_way() throws IOException {
        Path plain = FOREIGN.resolveSibling("llama");
        try (ModelSource a = ModelSource.open(plain);
                ModelSource b = ModelSource.openAsStored(plain)) {
            Map<String, String> kinds = new TreeMap<>();
            graph(b).initializers()
                    .values()
                    .forEach(i -> kinds.put(i.name(), i.data().getClass().getSimpleName()));
            assertFalse(kinds.containsValue("Coded"));
            assertEquals(graph(a).initializers().keySet(), kinds.keySet());
        }
    }
}
