package dev.octet.formats.dcp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

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

/** That torch reads these folders, testdata/make/dcp_reads.py checks. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class DcpWriterTest {
    private static final Path EXPECTED = TestData.path("checkpoints/torch/states.safetensors");

    @TempDir
    Path folder;

    @ParameterizedTest
    @ValueSource(longs = {1, 500, 1_000_000})
    void tensors_of_every_type_are_read_back_from_any_number_of_files(long fileBytes) throws IOException {
        try (ModelFile model = ModelFile.open(EXPECTED)) {
            List<TensorSpec> specs =
                    model.model().tensors().values().stream().map(Tensor::spec).toList();
            DcpWriter.write(
                    folder, specs, SafetensorsWriter.Content.of(model.model().tensors()), fileBytes);
        }
        SameTensors.assertSame(EXPECTED, folder);
        try (Stream<Path> files = Files.list(folder)) {
            assertEquals(
                    fileBytes == 1_000_000,
                    files.filter(f -> f.toString().endsWith(".distcp")).count() == 1);
        }
    }

    @Test
    void a_type_that_torch_lacks_is_refused_before_anything_is_written() throws IOException {
        TensorSpec four = new TensorSpec("w", DType.F4_E2M1, Shape.of(2, 4));
        assertThrows(UnsupportedModelException.class, () -> DcpWriter.write(folder, List.of(four), (spec, sink) -> {}));
        try (Stream<Path> files = Files.list(folder)) {
            assertEquals(0, files.count());
        }
    }

    @Test
    void a_folder_that_is_not_finished_is_no_checkpoint() throws IOException {
        TensorSpec one = new TensorSpec("w", DType.F32, Shape.of(2));
        assertThrows(IllegalStateException.class, () -> DcpWriter.write(folder, List.of(one), (spec, sink) -> {}));
        assertFalse(new DcpFormat().recognises(folder));
    }
}
