package dev.octet.converter.compare;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Quantised weights in models that ONNX Runtime's quantizers wrote, against what numpy makes of them. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class IntegerModelsTest {
    private static final Path MODELS =
            Path.of(System.getProperty("octet.testdata")).resolve("models/integers");

    static Stream<String> models() throws IOException {
        return Files.readAllLines(MODELS.resolve("weights.csv")).stream()
                .map(l -> l.split(",", -1)[0])
                .distinct();
    }

    @ParameterizedTest
    @MethodSource("models")
    void every_quantised_weight_has_the_values_that_the_operators_define(String model) throws Exception {
        Map<String, String> wanted = new LinkedHashMap<>();
        for (String line : Files.readAllLines(MODELS.resolve("weights.csv"))) {
            String[] cells = line.split(",", -1);
            if (cells[0].equals(model)) {
                wanted.put(cells[1], cells[2] + " " + cells[3]);
            }
        }
        Map<String, String> found = new LinkedHashMap<>();
        try (WeightSource source = OnnxSource.open(MODELS.resolve(model + ".onnx"))) {
            assertEquals(Map.of(), source.problems());
            for (String name : wanted.keySet()) {
                assertTrue(
                        source.weights().containsKey(name),
                        name + " of " + new TreeSet<>(source.weights().keySet()));
                Weight weight = Objects.requireNonNull(source.weights().get(name));
                String shape =
                        weight.shape().toString().replaceAll("[\\[\\] ]", "").replace(",", "x");
                found.put(name, shape + " " + digest(weight.elements()));
            }
        }
        assertEquals(wanted, found);
    }

    private static String digest(Elements elements) throws Exception {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment values = arena.allocate(elements.count() * Float.BYTES, 64);
            elements.read(0, elements.count(), values);
            return HexFormat.of()
                    .formatHex(MessageDigest.getInstance("SHA-256").digest(values.toArray(ValueLayout.JAVA_BYTE)));
        }
    }
}
