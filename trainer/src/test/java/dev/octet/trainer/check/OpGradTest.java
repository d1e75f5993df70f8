package dev.octet.trainer.check;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.octet.converter.Converter;
import dev.octet.converter.TrainingGraph;
import dev.octet.converter.pass.PassLog;
import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.GraphModel;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.reference.ReferenceDevice;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** One operator or pattern each: outputs and gradients as torch's autograd computes them in F64. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class OpGradTest {
    private static final Path FOLDER = Path.of(System.getProperty("octet.testdata"), "models", "op-grad");

    private static List<String> cases() throws IOException {
        try (Stream<Path> files = Files.list(FOLDER)) {
            return files.map(f -> f.getFileName().toString())
                    .filter(f -> f.endsWith(".onnx"))
                    .map(f -> f.substring(0, f.length() - ".onnx".length()))
                    .sorted()
                    .toList();
        }
    }

    private static List<GoldenDifference> differences(String name, Device device) throws IOException {
        try (ModelFile model = ModelFile.open(FOLDER.resolve(name + ".onnx"));
                ModelFile file = ModelFile.open(FOLDER.resolve(name + ".safetensors"));
                Converter converter = Converter.of(model.model())) {
            GraphModel graph = TrainingGraph.of(converter.canonical(), Map.of(), new PassLog());
            Golden golden = Golden.of(file.model().tensors(), name);
            return new GradientCheck(graph, null, golden, Map.of()).run(device);
        }
    }

    private static void check(String name, Device device) throws IOException {
        List<GoldenDifference> all = differences(name, device);
        assertTrue(all.size() >= 2, "an output and a gradient at least");
        for (GoldenDifference d : all) {
            assertTrue(d.error() <= 1e-5, d.toString());
        }
    }

    @TestFactory
    Stream<DynamicTest> the_cpu_computes_what_torch_does() throws IOException {
        return cases().stream()
                .map(name -> dynamicTest(name, () -> {
                    try (Device cpu = CpuDevice.of(2)) {
                        check(name, cpu);
                    }
                }));
    }

    @TestFactory
    Stream<DynamicTest> the_reference_computes_what_torch_does() throws IOException {
        return cases().stream()
                .map(name -> dynamicTest(name, () -> {
                    try (Device reference = new ReferenceDevice()) {
                        check(name, reference);
                    }
                }));
    }

    @Test
    void no_case_is_missing() throws IOException {
        assertEquals(107, cases().size());
    }
}
