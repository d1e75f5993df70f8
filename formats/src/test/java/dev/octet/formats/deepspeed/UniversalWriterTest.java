package dev.octet.formats.deepspeed;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.ModelFile;
import dev.octet.formats.TestData;
import dev.octet.formats.checkpoint.SameTensors;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** That DeepSpeed's code finds in these folders what it asks for, testdata/make/deepspeed_universal_reads.py checks. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class UniversalWriterTest {
    private static final Path EXPECTED = TestData.path("checkpoints/deepspeed/weights.safetensors");

    @TempDir
    Path folder;

    @Test
    void parameters_are_read_back_bit_by_bit() throws IOException {
        try (ModelFile model = ModelFile.open(EXPECTED)) {
            List<TensorSpec> specs =
                    model.model().tensors().values().stream().map(Tensor::spec).toList();
            UniversalWriter.write(
                    folder, specs, SafetensorsWriter.Content.of(model.model().tensors()));
        }
        assertTrue(new DeepSpeedFormat().recognises(folder));
        SameTensors.assertSame(EXPECTED, folder);
    }

    @Test
    void moments_take_no_space_however_large_the_parameter_is() throws IOException {
        TensorSpec large = new TensorSpec("w", DType.F32, Shape.of(1000, 1000));
        UniversalWriter.write(folder, List.of(large), (spec, sink) -> {
            try (Arena arena = Arena.ofConfined()) {
                sink.write(arena.allocate(spec.byteSize()));
            }
        });
        Path parameter = folder.resolve("global_step0_universal/zero/w");
        assertTrue(Files.size(parameter.resolve("fp32.pt")) > 4_000_000);
        for (String moment : List.of("exp_avg.pt", "exp_avg_sq.pt")) {
            assertTrue(Files.size(parameter.resolve(moment)) < 2000, moment);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "..", "a/b", "a\\b", "a:b"})
    void a_name_that_is_no_folder_is_refused_before_anything_is_written(String name) throws IOException {
        List<TensorSpec> specs =
                List.of(new TensorSpec("good", DType.F32, Shape.of(2)), new TensorSpec(name, DType.F32, Shape.of(2)));
        assertThrows(UnsupportedModelException.class, () -> UniversalWriter.write(folder, specs, (spec, sink) -> {}));
        try (Stream<Path> files = Files.list(folder)) {
            assertEquals(0, files.count());
        }
    }

    @Test
    void a_folder_that_is_not_finished_has_no_latest_step() {
        TensorSpec one = new TensorSpec("w", DType.F32, Shape.of(2));
        assertThrows(
                IllegalStateException.class, () -> UniversalWriter.write(folder, List.of(one), (spec, sink) -> {}));
        assertFalse(Files.exists(folder.resolve("latest_universal")));
    }
}
