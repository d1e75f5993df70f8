package dev.octet.converter;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ai.onnxruntime.OrtException;
import dev.octet.converter.pass.OnnxRuntimeOracle;
import dev.octet.formats.ModelFile;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Models in ONNX's own operators compute in ONNX Runtime what PyTorch computed, at batches and lengths that the file leaves open. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class StandardModelTest {
    /** As a share of the largest logit. PyTorch and ONNX Runtime add in different orders: measured 1.5e-6 at most. */
    private static final double GOLDEN = 1e-5;

    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final List<String> CHECKPOINTS =
            List.of("bert", "bert-cls", "gpt2", "llama", "llama-128", "qwen2", "vit");

    static Stream<Arguments> checkpoints() {
        return CHECKPOINTS.stream().flatMap(c -> Converter.OPSETS.stream().map(opset -> Arguments.of(c, opset)));
    }

    static Stream<Arguments> exports() throws IOException {
        return TinyModels.names().stream()
                .flatMap(n -> Converter.OPSETS.stream().map(opset -> Arguments.of(n, opset)));
    }

    private static ModelSource open(String checkpoint) throws IOException {
        Path tiny = TESTDATA.resolve("models/tiny-hf").resolve(checkpoint);
        return ModelSource.open(
                tiny.toFile().exists() ? tiny : TESTDATA.resolve("checkpoints").resolve(checkpoint));
    }

    @ParameterizedTest
    @MethodSource("checkpoints")
    void a_checkpoint_gives_the_logits_of_transformers_at_any_size(String name, int opset, @TempDir Path folder)
            throws IOException, OrtException {
        try (ModelSource source = open(name);
                Converter converter = Converter.of(source.model());
                ModelFile golden = ModelFile.open(TESTDATA.resolve("golden/hf/logits.safetensors"))) {
            GraphModel model = converter.standard(opset);
            assertEquals(opset, model.opset());
            for (String size : List.of("1x1", "3x7")) {
                check(model, golden.model().tensors(), name + "/" + size + "/", folder);
            }
        }
    }

    static Stream<Arguments> tiny() throws IOException {
        try (Stream<Path> folders = Files.list(TESTDATA.resolve("models/tiny-hf"))) {
            List<String> names =
                    folders.map(f -> f.getFileName().toString()).sorted().toList();
            return names.stream().flatMap(n -> Converter.OPSETS.stream().map(opset -> Arguments.of(n, opset)));
        }
    }

    @ParameterizedTest
    @MethodSource("tiny")
    void every_architecture_gives_its_golden_outputs(String name, int opset, @TempDir Path folder)
            throws IOException, OrtException {
        Path checkpoint = TESTDATA.resolve("models/tiny-hf").resolve(name);
        try (ModelSource source = ModelSource.open(checkpoint);
                Converter converter = Converter.of(source.model());
                ModelFile golden = ModelFile.open(checkpoint.resolve("golden.safetensors"))) {
            check(converter.standard(opset), golden.model().tensors(), "", folder);
        }
    }

    private static void check(GraphModel model, Map<String, Tensor> golden, String prefix, Path folder)
            throws IOException, OrtException {
        List<Tensor> inputs = new ArrayList<>();
        for (ValueInfo v : model.graph().inputs()) {
            Tensor t = golden.get(prefix + "in." + v.name());
            inputs.add(
                    t == null
                            ? zeros(v.name(), golden)
                            : new Tensor(new TensorSpec(v.name(), t.dtype(), t.shape()), t.bytes()));
        }
        List<OnnxRuntimeOracle.Output> outputs = OnnxRuntimeOracle.run(model, inputs, folder);
        for (int i = 0; i < outputs.size(); i++) {
            String name = model.graph().outputs().get(i).name();
            Tensor expected = Objects.requireNonNull(golden.get(prefix + "out." + name), name);
            String type = outputs.get(i).type();
            assertTrue(type.endsWith(Arrays.toString(expected.shape().toArray())), type);
            float[] actual = new float[(int) expected.shape().elementCount()];
            outputs.get(i)
                    .bytes()
                    .order(ByteOrder.nativeOrder())
                    .asFloatBuffer()
                    .get(actual);
            float[] torch = expected.toFloats();
            Tensor mask = golden.get(prefix + "in.attention_mask");
            if (mask != null
                    && expected.shape().rank() == 3
                    && mask.shape().dim(1) == expected.shape().dim(1)) {
                hidePadding(actual, mask, (int) expected.shape().dim(2));
                hidePadding(torch, mask, (int) expected.shape().dim(2));
            }
            assertTrue(TinyModels.relativeError(actual, torch) <= GOLDEN, prefix + name);
        }
    }

    /** What transformers takes when no token types are given. */
    private static Tensor zeros(String name, Map<String, Tensor> golden) {
        assertEquals("token_type_ids", name);
        Shape shape = Objects.requireNonNull(golden.get("in.input_ids")).shape();
        return Tensor.allocate(Arena.ofAuto(), new TensorSpec(name, DType.I64, shape));
    }

    private static void hidePadding(float[] logits, Tensor mask, int width) {
        long[] looks = mask.toLongs();
        for (int row = 0; row < looks.length; row++) {
            if (looks[row] == 0) {
                Arrays.fill(logits, row * width, (row + 1) * width, 0);
            }
        }
    }

    @ParameterizedTest
    @MethodSource("exports")
    void an_export_of_any_opset_gives_the_logits_of_PyTorch(String name, int opset, @TempDir Path folder)
            throws IOException, OrtException {
        try (ModelFile file = TinyModels.open(name);
                Converter converter = Converter.of(file.model());
                ModelFile golden = TinyModels.golden(name)) {
            GraphModel model = converter.standard(opset);
            assertEquals(opset, model.opset());
            assertFalse(model.opsets().containsKey(Node.OCTET_DOMAIN));
            float[] torch = TinyModels.tensor(golden, "out.logits").toFloats();
            float[] logits = TinyModels.logits(model, golden, 2, folder.resolve("m.onnx"));
            assertTrue(TinyModels.relativeError(logits, torch) <= GOLDEN);
        }
    }

    @Test
    void attention_is_one_operator_from_opset_23_on_and_none_before() throws IOException {
        try (ModelSource source = open("llama");
                Converter converter = Converter.of(source.model())) {
            for (String op : List.of("Attention", "RotaryEmbedding", "RMSNormalization")) {
                assertTrue(converter.standard(23).graph().nodes().stream().anyMatch(n -> n.is(op)), op);
                assertTrue(converter.standard(21).graph().nodes().stream().noneMatch(n -> n.is(op)), op);
            }
        }
    }

    @ParameterizedTest
    @MethodSource("checkpoints")
    void constants_are_those_of_the_checkpoint_by_name_type_and_bytes(String name, int opset) throws IOException {
        try (ModelSource source = open(name);
                Converter converter = Converter.of(source.model())) {
            GraphModel model = converter.standard(opset);
            for (Tensor t : source.model().tensors().values()) {
                Tensor written = Objects.requireNonNull(
                                model.graph().initializers().get(t.name()), t.name())
                        .tensor()
                        .orElseThrow();
                assertEquals(t.spec(), written.spec());
                assertEquals(-1, t.bytes().mismatch(written.bytes()), t.name());
            }
        }
    }

    @Test
    void batch_and_length_stay_open() throws IOException {
        try (ModelSource source = open("gpt2");
                Converter converter = Converter.of(source.model())) {
            ValueInfo ids = converter.standard(21).graph().inputs().getFirst();
            assertEquals(new TensorType(DType.I64, List.of(Dim.of("batch"), Dim.of("sequence"))), ids.type());
        }
    }

    @Test
    void another_opset_is_refused_with_those_there_are() throws IOException {
        try (ModelSource source = open("gpt2");
                Converter converter = Converter.of(source.model())) {
            InvalidOptionException e = assertThrows(InvalidOptionException.class, () -> converter.standard(22));
            assertEquals("choose 21 or 23", e.fix());
        }
    }
}
