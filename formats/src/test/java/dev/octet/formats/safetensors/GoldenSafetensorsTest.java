package dev.octet.formats.safetensors;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.TestData;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Files of the reference writer, read and written again. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GoldenSafetensorsTest {
    @TempDir
    Path folder;

    static Stream<String> files() throws IOException {
        try (Stream<Path> files = Files.list(TestData.path("golden/safetensors"))) {
            return files.map(f -> f.getFileName().toString()).sorted().toList().stream();
        }
    }

    @ParameterizedTest
    @MethodSource("files")
    void the_writer_makes_the_bytes_of_the_reference_writer_in_whatever_order_tensors_come(String name)
            throws IOException {
        Path golden = TestData.path("golden/safetensors/" + name);
        Path written = folder.resolve(name);
        try (Arena arena = Arena.ofConfined()) {
            Model model = new SafetensorsFormat().read(golden, arena);
            for (int seed = 0; seed < 5; seed++) {
                List<Tensor> shuffled = new ArrayList<>(model.tensors().values());
                Collections.shuffle(shuffled, new Random(seed));
                Map<String, Tensor> tensors = new LinkedHashMap<>();
                shuffled.forEach(t -> tensors.put(t.name(), t));
                new SafetensorsFormat().write(Model.of(tensors, model.metadata()), written);
                assertArrayEquals(Files.readAllBytes(golden), Files.readAllBytes(written));
            }
        }
    }

    @Test
    void every_element_type_but_the_six_bit_ones_is_in_the_golden_file() throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            Model model =
                    new SafetensorsFormat().read(TestData.path("golden/safetensors/every_dtype.safetensors"), arena);
            assertEquals(
                    Arrays.stream(DType.values())
                            .filter(d -> d.safetensorsName().isPresent() && d.bits() != 6)
                            .collect(Collectors.toSet()),
                    model.tensors().values().stream().map(Tensor::dtype).collect(Collectors.toSet()));
            // The script that made the file counts up from 7 times the index of the tensor in its list.
            byte[] expected = {0, 1, 2, 3, 4, 5};
            assertArrayEquals(expected, bytes(model, "bool.b"));
            assertArrayEquals(new byte[] {7}, bytes(model, "bool.a"));
            assertArrayEquals(new byte[] {14, 15, 16, 17, 18, 19}, bytes(model, "float4_e2m1fn_x2.b"));
        }
    }

    private static byte[] bytes(Model model, String name) {
        return model.tensor(name).bytes().toArray(ValueLayout.JAVA_BYTE);
    }
}
