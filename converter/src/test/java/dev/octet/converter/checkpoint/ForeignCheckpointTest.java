package dev.octet.converter.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.tensor.DType;
import dev.octet.quant.layout.Headers;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.layout.StoredWeight;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Checkpoints that compressed-tensors, transformers and torchao quantised and saved (testdata/make/foreign_checkpoints.py): Octet makes of
 * each weight what the tool that wrote it makes of it, bit by bit in BF16.
 */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ForeignCheckpointTest {
    private static final Path FOLDER = Path.of(System.getProperty("octet.testdata"), "checkpoints", "foreign");

    /** Their scales lie in the order of matrix units. */
    private static final Set<String> SWIZZLED = Set.of("torchao-mxfp8", "torchao-nvfp4");

    /** One checkpoint and the sum of each of its weights. */
    record Foreign(String name, JsonNode sums) {
        @Override
        public String toString() {
            return name;
        }
    }

    private static Stream<Foreign> foreign() throws IOException {
        return new ObjectMapper()
                .readTree(FOLDER.resolve("dequantised.json").toFile()).properties().stream()
                        .map(e -> new Foreign(e.getKey(), e.getValue()));
    }

    private static Stream<Foreign> readable() throws IOException {
        return foreign().filter(f -> !SWIZZLED.contains(f.name()));
    }

    private static Stream<Foreign> swizzled() throws IOException {
        return foreign().filter(f -> SWIZZLED.contains(f.name()));
    }

    private static StoredCheckpoint recognise(Checkpoint checkpoint) throws IOException {
        return Layouts.recognise(Headers.of(checkpoint, null));
    }

    @ParameterizedTest
    @MethodSource("readable")
    void every_weight_has_the_values_that_its_own_tool_sees(Foreign foreign)
            throws IOException, NoSuchAlgorithmException {
        try (Checkpoint checkpoint = Checkpoint.open(FOLDER.resolve(foreign.name()))) {
            StoredCheckpoint stored = recognise(checkpoint);
            WeightReader reader = WeightReader.of(checkpoint, stored);
            Map<String, String> expected = new LinkedHashMap<>();
            Map<String, String> actual = new LinkedHashMap<>();
            for (Map.Entry<String, JsonNode> sum : foreign.sums().properties()) {
                expected.put(sum.getKey(), sum.getValue().asText());
                actual.put(sum.getKey(), sumOf(reader, stored, sum.getKey()));
            }
            assertEquals(expected, actual);
        }
    }

    @ParameterizedTest
    @MethodSource("swizzled")
    void swizzled_scales_are_refused(Foreign foreign) throws IOException {
        try (Checkpoint checkpoint = Checkpoint.open(FOLDER.resolve(foreign.name()))) {
            StoredCheckpoint stored = recognise(checkpoint);
            for (Map.Entry<String, JsonNode> sum : foreign.sums().properties()) {
                assertThrows(
                        MalformedModelException.class,
                        () -> sumOf(WeightReader.of(checkpoint, stored), stored, sum.getKey()));
            }
        }
    }

    private static String sumOf(WeightReader reader, StoredCheckpoint stored, String name)
            throws IOException, NoSuchAlgorithmException {
        StoredWeight weight = stored.weights().get(name);
        assertNotNull(weight, name + " is not recognised");
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment values = arena.allocate(weight.shape().elementCount() * DType.BF16.bits() / 8);
            reader.readQuantized(
                    weight, 0, weight.blocks().rows(), DType.BF16, values, (_, bytes) -> arena.allocate(bytes, 64));
            MessageDigest sum = MessageDigest.getInstance("SHA-256");
            sum.update(values.asByteBuffer());
            return HexFormat.of().formatHex(sum.digest());
        }
    }

    @ParameterizedTest
    @MethodSource("readable")
    void no_tensor_is_left_over(Foreign foreign) throws IOException {
        try (Checkpoint checkpoint = Checkpoint.open(FOLDER.resolve(foreign.name()))) {
            StoredCheckpoint stored = recognise(checkpoint);
            assertEquals(foreign.sums().size(), stored.weights().size());
            assertEquals(Map.of(), stored.others());
            // Two norms of the layer, the last norm, embeddings and head.
            assertEquals(5, stored.plain().size(), stored.plain().keySet().toString());
        }
    }
}
