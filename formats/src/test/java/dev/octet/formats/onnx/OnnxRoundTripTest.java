package dev.octet.formats.onnx;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.onnx.proto.ModelProto;
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
import org.junit.jupiter.params.provider.MethodSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class OnnxRoundTripTest {
    static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "models");

    @TempDir
    Path folder;

    static List<Path> models() throws IOException {
        try (Stream<Path> files = Files.walk(MODELS)) {
            return files.filter(p -> p.toString().endsWith(".onnx")).sorted().toList();
        }
    }

    @ParameterizedTest
    @MethodSource("models")
    void an_exported_model_comes_out_as_it_went_in(Path model) throws IOException {
        Path copy = folder.resolve("copy.onnx");
        try (Arena arena = Arena.ofConfined()) {
            OnnxWriter.write(OnnxReader.read(model, arena), copy);
        }
        assertEquals(NormalForm.of(parse(model)), NormalForm.of(parse(copy)));
    }

    @ParameterizedTest
    @MethodSource("models")
    void an_exported_model_comes_back_from_external_data(Path model) throws IOException {
        Path split = folder.resolve("split.onnx");
        Path whole = folder.resolve("whole.onnx");
        try (Arena arena = Arena.ofConfined()) {
            GraphModel original = OnnxReader.read(model, arena);
            OnnxWriter.write(original, split, OnnxWriteOptions.externalData(64));
            boolean large = original.graph().initializers().values().stream()
                    .flatMap(i -> i.tensor().stream())
                    .anyMatch(t -> t.bytes().byteSize() >= 64);
            assertEquals(large, Files.exists(split.resolveSibling("split.onnx.data")));
            GraphModel back = OnnxReader.read(split, arena);
            OnnxWriter.write(back, whole);
        }
        assertEquals(NormalForm.of(parse(model)), NormalForm.of(parse(whole)));
    }

    @Test
    void models_are_recognised_by_content() throws IOException {
        for (Path model : models()) {
            assertTrue(new OnnxFormat().recognises(model), model.toString());
        }
    }

    static ModelProto parse(Path path) throws IOException {
        return ModelProto.parseFrom(Files.readAllBytes(path));
    }
}
