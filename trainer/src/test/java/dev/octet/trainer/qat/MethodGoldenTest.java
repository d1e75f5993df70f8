package dev.octet.trainer.qat;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.check.Golden;
import dev.octet.trainer.check.GoldenDifference;
import dev.octet.trainer.check.GradientCheck;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.qat.FakeQuantizer.Place;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Every method as a configuration names it, against testdata/golden/training/qat-methods, which torch made: where its parameters start, forward and backward. The other operand
 * of the product is the identity, so that the product is what was quantised.
 */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class MethodGoldenTest {
    private static final Path FOLDER =
            Path.of(System.getProperty("octet.testdata"), "golden", "training", "qat-methods");
    private static final int WIDTH = 32;
    private static final int ROWS = 12;

    static List<String> cases() throws IOException {
        try (Stream<Path> files = Files.list(FOLDER)) {
            return files.map(f -> f.getFileName().toString()).sorted().toList();
        }
    }

    /** A product of which one operand is quantised. */
    private record Quantized(GraphModel model, FakeQuantizer quantizer, boolean isWeight) {
        static Quantized of(Model golden) {
            boolean isWeight = golden.tensors().containsKey("w");
            Tensor weight = isWeight ? golden.tensor("w").withName("w") : identity("w");
            int rows = isWeight ? WIDTH : ROWS;
            int out = isWeight ? ROWS : WIDTH;
            Graph graph = Graph.of(
                    "one",
                    List.of(Node.of(
                            "one",
                            "Linear",
                            Node.OCTET_DOMAIN,
                            List.of("x", "w"),
                            List.of("y"),
                            Attribute.of("transB", 1))),
                    List.of(Initializer.of(weight)),
                    List.of(value("x", Shape.of(rows, WIDTH))),
                    List.of(value("y", Shape.of(rows, out))));
            String precision = "{mode: qat, %s: %s}"
                    .formatted(
                            golden.metadata().get("operand"), golden.metadata().get("settings"));
            TrainingConfig config = TrainingConfig.of(
                    YamlFile.parse(
                            "data: {train: x}\nloss: {type: cross-entropy}\nsteps: 1\noptimizer: {lr: 1}\nprecision: "
                                    + precision,
                            "c.yaml"),
                    Path.of("."));
            QuantizedGraph quantized = QuantizedGraph.of(
                    GraphModel.of(graph, 10, 21), config.precision().qat().orElseThrow(), 1);
            return new Quantized(quantized.model(), quantized.quantizers().getFirst(), isWeight);
        }

        /** With the weight, and the parameters of the quantiser, as inputs, so that their gradients can be asked for. */
        GraphModel open(Map<Place, Tensor> parameters) {
            GraphEdit edit = GraphEdit.of(model.graph());
            List<ValueInfo> inputs = new ArrayList<>(model.graph().inputs());
            quantizer.parameters().forEach((place, name) -> {
                Shape shape = requireNonNull(model.graph().initializers().get(name))
                        .tensor()
                        .orElseThrow()
                        .shape();
                assertEquals(
                        shape.elementCount(),
                        requireNonNull(parameters.get(place), name).shape().elementCount());
                edit.removeInitializer(name);
                inputs.add(value(name, shape));
            });
            if (isWeight) {
                edit.removeInitializer("w");
                inputs.add(value("w", Shape.of(ROWS, WIDTH)));
            }
            edit.setInputs(inputs);
            return model.withGraph(edit.build());
        }

        Shape shape(Place place) {
            return requireNonNull(model.graph().initializers().get(quantizer.parameter(place)))
                    .tensor()
                    .orElseThrow()
                    .shape();
        }
    }

    private static ValueInfo value(String name, Shape shape) {
        List<Dim> dims = new ArrayList<>();
        for (int i = 0; i < shape.rank(); i++) {
            dims.add(Dim.of(shape.dim(i)));
        }
        return new ValueInfo(name, new TensorType(DType.F32, dims));
    }

    private static Tensor identity(String name) {
        float[] one = new float[WIDTH * WIDTH];
        for (int i = 0; i < WIDTH; i++) {
            one[i * WIDTH + i] = 1;
        }
        return Tensor.ofFloats(Arena.ofAuto(), name, Shape.of(WIDTH, WIDTH), one);
    }

    private static Map<Place, Tensor> starts(Model golden) {
        Map<Place, Tensor> starts = new TreeMap<>();
        for (Place place : Place.values()) {
            Tensor start = golden.tensors().get("start." + place.suffix());
            if (start != null) {
                starts.put(place, start);
            }
        }
        return starts;
    }

    private static Tensor shaped(Tensor t, String name, Shape shape) {
        return Tensor.ofFloats(Arena.ofAuto(), name, shape, t.toFloats());
    }

    @ParameterizedTest
    @MethodSource("cases")
    void parameters_start_where_torch_has_them(String file) throws IOException {
        try (ModelFile opened = ModelFile.open(FOLDER.resolve(file))) {
            Model golden = opened.model();
            Quantized q = Quantized.of(golden);
            Map<Place, Tensor> expected = starts(golden);
            assertEquals(expected.keySet(), q.quantizer.parameters().keySet());
            Map<String, Tensor> own = q.quantizer.startsFromData()
                    ? q.quantizer.start(List.of(golden.tensor("x").toFloats()), Arena.ofAuto())
                    : Map.of();
            expected.forEach((place, start) -> {
                String name = q.quantizer.parameter(place);
                Tensor constant = requireNonNull(q.model.graph().initializers().get(name))
                        .tensor()
                        .orElseThrow();
                float[] found = own.getOrDefault(name, constant).toFloats();
                float[] wanted = start.toFloats();
                for (int i = 0; i < wanted.length; i++) {
                    // sums of doubles in another order, rounded once
                    assertEquals(wanted[i], found[i], Math.ulp(wanted[i]), place + " [" + i + "]");
                }
            });
        }
    }

    @ParameterizedTest
    @MethodSource("cases")
    void forward_has_the_bits_of_torch_and_gradients_are_within_a_millionth(String file) throws IOException {
        try (ModelFile opened = ModelFile.open(FOLDER.resolve(file));
                Device device = CpuDevice.of(1)) {
            List<GoldenDifference> differences = differences(opened.model(), device);
            Set<String> compared = new HashSet<>();
            for (GoldenDifference d : differences) {
                compared.add(d.tensor());
                assertTrue(d.error() <= (d.tensor().startsWith("out.") ? 0 : 1e-6), d.toString());
            }
            long gradients = opened.model().tensors().keySet().stream()
                    .filter(n -> n.startsWith("d") && !n.equals("dy"))
                    .count();
            assertEquals(1 + gradients, compared.size());
        }
    }

    private static List<GoldenDifference> differences(Model golden, Device device) {
        Quantized q = Quantized.of(golden);
        Map<Place, Tensor> starts = starts(golden);
        Map<String, Tensor> inputs = new TreeMap<>();
        Map<String, Tensor> gradients = new TreeMap<>();
        Tensor dy = golden.tensor("dy");
        if (q.isWeight) {
            inputs.put("x", identity("x"));
            inputs.put("w", golden.tensor("w"));
            gradients.put("w", golden.tensor("dw"));
        } else {
            inputs.put("x", golden.tensor("x"));
            gradients.put("x", golden.tensor("dx"));
        }
        q.quantizer.parameters().forEach((place, name) -> {
            Shape shape = q.shape(place);
            inputs.put(name, shaped(requireNonNull(starts.get(place)), name, shape));
            Tensor gradient = golden.tensors().get("d" + place.suffix());
            if (gradient != null) {
                gradients.put(name, shaped(gradient, name, shape));
            }
            assertEquals(q.quantizer.learned().contains(place), gradient != null, place.suffix());
        });
        Golden expected = new Golden(
                inputs,
                Map.of("y", q.isWeight ? dy.transposed(Arena.ofAuto()) : dy),
                Map.of(q.quantizer.name(), golden.tensor("y")),
                gradients);
        return new GradientCheck(q.open(starts), null, expected, Map.of()).run(device);
    }

    @Test
    void every_method_and_variant_is_there() throws IOException {
        Set<String> found = new HashSet<>();
        for (String file : cases()) {
            try (ModelFile opened = ModelFile.open(FOLDER.resolve(file))) {
                QuantizerSettings s = Quantized.of(opened.model()).quantizer.settings();
                found.add(s.method() + " " + s.variant());
            }
        }
        Set<String> all = new HashSet<>();
        for (Method method : Method.values()) {
            for (QuantizerSettings.Variant variant : QuantizerSettings.Variant.values()) {
                if (variant.isOf(method)) {
                    all.add(method + " " + variant);
                }
            }
        }
        assertEquals(all, found);
    }
}
