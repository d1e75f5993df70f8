package dev.octet.converter.evaluate;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.data.Batch;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.runtime.OnnxRuntime;
import dev.octet.converter.runtime.OnnxRuntimeSession;
import dev.octet.converter.runtime.SessionSettings;
import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.onnx.OnnxWriter;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ExpertChoicesTest {
    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "models/tiny-hf");
    private static final int OPSET = 21;

    @TempDir
    Path folder;

    /** The inputs of a model's golden file, as one batch. */
    private record Golden(Batch all) implements Dataset {
        static Golden of(GraphModel model, Map<String, Tensor> golden) {
            Map<String, Tensor> inputs = new LinkedHashMap<>();
            for (ValueInfo input : model.graph().inputs()) {
                inputs.put(input.name(), requireNonNull(golden.get("in." + input.name()), input.name()));
            }
            long samples = inputs.values().iterator().next().shape().dim(0);
            return new Golden(new Batch(0, (int) samples, inputs));
        }

        @Override
        public int count() {
            return all.size();
        }

        @Override
        public Batch batch(int first, int size) {
            return all;
        }

        @Override
        public String name() {
            return "golden";
        }

        @Override
        public String digest() {
            return "0";
        }

        @Override
        public void close() {
            // the tensors are the test's
        }
    }

    private record Compared(double worst, double changed) {}

    /** A model beside another one, which computes with the choices of the first. */
    private Compared compare(String name, boolean worstExperts) throws IOException {
        try (ModelSource source = ModelSource.open(MODELS.resolve(name));
                Converter converter = Converter.of(source.model());
                ModelFile golden = ModelFile.open(MODELS.resolve(name).resolve("golden.safetensors"))) {
            ExpertChoices choices = ExpertChoices.of(converter.source()).orElseThrow();
            GraphModel model = converter.standard(OPSET);
            Path first = folder.resolve("first.onnx");
            Path second = folder.resolve("second.onnx");
            OnnxWriter.write(choices.shown(model), first);
            OnnxWriter.write(choices.given(worstExperts ? worst(model) : model).orElseThrow(), second);
            try (OnnxRuntimeSession reference = OnnxRuntime.open(first, SessionSettings.defaults());
                    Dataset data = Golden.of(model, golden.model().tensors())) {
                ModelComparison comparison = Evaluation.compare(
                        batch -> computed(reference, batch), second, true, data, EvaluationOptions.defaults());
                double worst = comparison.outputs().stream()
                        .filter(o -> !choices.isChoice(o))
                        .mapToDouble(OutputComparison::maxAbsDifference)
                        .max()
                        .orElseThrow();
                return new Compared(worst, choices.changed(comparison));
            }
        }
    }

    private static Map<String, Tensor> computed(OnnxRuntimeSession session, Batch batch) {
        Map<String, Tensor> computed = new LinkedHashMap<>();
        try (OnnxRuntimeSession.Outputs outputs = session.run(batch)) {
            for (String name : outputs.names()) {
                Tensor heap = outputs.read(name);
                Tensor outside = Tensor.allocate(Arena.ofAuto(), heap.spec());
                outside.bytes().copyFrom(heap.bytes());
                computed.put(name, outside);
            }
        }
        return computed;
    }

    /** Each router chooses the experts with the lowest scores. */
    private static GraphModel worst(GraphModel model) {
        GraphEdit edit = GraphEdit.of(model.graph());
        for (Node n : List.copyOf(edit.nodes())) {
            if (n.is("TopK") && !edit.consumers(n.output(1)).isEmpty()) {
                edit.replace(
                        n,
                        Node.of(
                                n.name(),
                                "TopK",
                                n.inputs(),
                                n.outputs(),
                                Attribute.of("axis", -1L),
                                Attribute.of("largest", 0L)));
            }
        }
        return model.withGraph(edit.build());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {"mixtral", "qwen2-moe", "qwen3-moe", "deepseek-v2", "deepseek-v3", "gpt-oss", "switch", "llama4"
            })
    void a_model_beside_itself_chooses_the_same(String name) throws IOException {
        Compared found = compare(name, false);
        assertEquals(0, found.worst());
        assertEquals(0, found.changed());
    }

    @ParameterizedTest
    @ValueSource(strings = {"mixtral", "qwen3-moe", "gpt-oss", "switch"})
    void with_the_choices_of_another_a_model_computes_what_that_one_does_and_its_own_are_counted(String name)
            throws IOException {
        Compared found = compare(name, true);
        assertEquals(0, found.worst());
        assertTrue(found.changed() > 0.5 && found.changed() <= 1, () -> "changed " + found.changed());
    }

    @Test
    void a_dense_model_has_no_choices() throws IOException {
        try (ModelSource source = ModelSource.open(MODELS.resolve("llama"));
                Converter converter = Converter.of(source.model())) {
            assertEquals(Optional.empty(), ExpertChoices.of(converter.source()));
        }
    }

    @Test
    void a_file_without_the_routers_cannot_be_led() throws IOException {
        try (ModelSource mixture = ModelSource.open(MODELS.resolve("mixtral"));
                Converter experts = Converter.of(mixture.model());
                ModelSource dense = ModelSource.open(MODELS.resolve("mistral"));
                Converter other = Converter.of(dense.model())) {
            ExpertChoices choices = ExpertChoices.of(experts.source()).orElseThrow();
            assertEquals(Optional.empty(), choices.given(other.standard(OPSET)));
        }
    }
}
