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
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
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

    private static void check(GraphModel model, Map<String, Tensor> golden, String prefix, Path folder)
            throws IOException, OrtException {
        List<Tensor> inputs = new ArrayList<>();
        for (ValueInfo v : model.graph().inputs()) {
            Tensor t = Objects.requireNonNull(golden.get(prefix + "in." + v.name()), v.name());
            inputs.add(new Tensor(new TensorSpec(v.name(), t.dtype(), t.shape()), t.bytes()));
        }
        OnnxRuntimeOracle.Output output =
                OnnxRuntimeOracle.run(model, inputs, folder).getFirst();
        Tensor expected = Objects.requireNonNull(golden.get(prefix + "out.logits"));
        assertTrue(output.type().endsWith(Arrays.toString(expected.shape().toArray())), output.type());
        float[] actual = new float[(int) expected.shape().elementCount()];
        output.bytes().order(ByteOrder.nativeOrder()).asFloatBuffer().get(actual);
        if (expected.shape().rank() == 3) {
            hidePadding(actual, golden.get(prefix + "in.attention_mask"), (int)
                    expected.shape().dim(2));
        }
        assertTrue(TinyModels.relativeError(actual, expected.toFloats()) <= GOLDEN, prefix);
    }

    private static void hidePadding(float[] logits, @Nullable Tensor mask, int width) {
        long[] looks = Objects.requireNonNull(mask).toLongs();
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
