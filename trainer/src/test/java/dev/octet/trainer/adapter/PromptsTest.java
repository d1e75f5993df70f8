package dev.octet.trainer.adapter;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.TrainingGraph;
import dev.octet.converter.pass.PassLog;
import dev.octet.formats.ModelFile;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.peft.PeftAdapter;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.autodiff.Programs;
import dev.octet.trainer.check.Golden;
import dev.octet.trainer.check.GoldenDifference;
import dev.octet.trainer.check.GradientCheck;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.loss.LossGraph;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Prompt tuning, P-tuning and prefix tuning beside PEFT: {@code testdata/make/prompts.py}. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PromptsTest {
    private static final Path DATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path ADAPTERS = DATA.resolve("golden/prompts");
    private static final Path MODELS = DATA.resolve("models");

    static List<String> names() throws IOException {
        try (Stream<Path> folders = Files.list(ADAPTERS)) {
            return folders.map(f -> String.valueOf(f.getFileName())).sorted().toList();
        }
    }

    static List<String> encoders() throws IOException {
        return names().stream()
                .filter(n -> n.endsWith("mlp") || n.endsWith("lstm") || n.endsWith("projection"))
                .toList();
    }

    @ParameterizedTest
    @MethodSource("names")
    void logits_loss_and_gradients_are_those_of_PEFT(String name) throws IOException {
        try (Device cpu = CpuDevice.of(2)) {
            check(name, cpu);
        }
    }

    @ParameterizedTest
    @MethodSource("names")
    void the_reference_computes_what_PEFT_does(String name) throws IOException {
        try (Device reference = new ReferenceDevice()) {
            check(name, reference);
        }
    }

    private static void check(String name, Device device) throws IOException {
        try (Opened opened = new Opened(name)) {
            AdaptedGraph adapted = opened.adapt(opened.start());
            List<GoldenDifference> all = opened.differences(adapted, opened.golden(), device);
            assertTrue(all.stream().anyMatch(d -> d.tensor().startsWith("grad.")), name);
            assertTrue(all.stream().anyMatch(d -> d.tensor().equals("out.logits")), name);
            for (GoldenDifference d : all) {
                assertTrue(d.error() <= 1e-5, d.toString());
            }
        }
    }

    @ParameterizedTest
    @MethodSource("encoders")
    void what_PEFT_saves_of_an_encoder_gives_the_logits_of_its_network(String name) throws IOException {
        try (Opened opened = new Opened(name);
                Device cpu = CpuDevice.of(2)) {
            AdaptedGraph adapted = opened.adapt(opened.adapter.tensors());
            assertEquals(Map.of("prompt_embeddings", "prompt_embeddings"), adapted.keys());
            Golden golden = opened.golden();
            Golden forward = new Golden(
                    golden.inputs(),
                    Map.of(),
                    Map.of("logits", requireNonNull(golden.outputs().get("logits"))),
                    Map.of());
            for (GoldenDifference d : opened.differences(adapted, forward, cpu)) {
                assertTrue(d.error() <= 1e-5, d.toString());
            }
        }
    }

    @ParameterizedTest
    @MethodSource("names")
    void the_saved_configuration_is_that_of_PEFT(String name) throws IOException {
        try (Opened opened = new Opened(name)) {
            AdaptedGraph adapted = opened.adapt(opened.start());
            String model = opened.adapter.config().baseModel().orElseThrow();
            String task = opened.adapter.config().taskType().orElseThrow();
            assertEquals(
                    opened.adapter.config().toText(),
                    adapted.savedConfig(adapted.config(), model, task).toText());
        }
    }

    @Test
    void a_graph_with_a_fixed_length_is_refused() throws IOException {
        try (Opened opened = new Opened("gpt2-prompt")) {
            GraphModel model = opened.converter.canonical();
            GraphEdit edit = GraphEdit.of(model.graph());
            GraphModel at =
                    TrainingGraph.of(model.withGraph(edit.build()), Map.of("batch", 2L, "sequence", 6L), new PassLog());
            UnsupportedModelException e = assertThrows(
                    UnsupportedModelException.class,
                    () -> new AdapterSettings(opened.adapter.config(), Optional.empty())
                            .adapt(at, InitialValues.seeded(1)));
            assertTrue(String.valueOf(e.getMessage()).contains("fixed length"), e.getMessage());
        }
    }

    @Test
    void a_prefix_in_front_of_a_sliding_window_is_refused() throws IOException {
        try (Opened opened = new Opened("llama-prefix", "tiny-hf/mistral")) {
            UnsupportedModelException e = assertThrows(UnsupportedModelException.class, () -> opened.adapt(Map.of()));
            assertTrue(String.valueOf(e.getMessage()).contains("sliding window"), e.getMessage());
        }
    }

    @Test
    void prompts_begin_at_tokens_of_the_vocabulary() throws IOException {
        try (Opened opened = new Opened("gpt2-prompt")) {
            GraphModel model = opened.converter.canonical();
            float[] table = requireNonNull(model.graph().initializers().get("transformer.wte.weight"))
                    .tensor()
                    .orElseThrow()
                    .toFloats();
            var json = opened.adapter.config().json();
            json.put("prompt_tuning_init", "TEXT");
            AdapterSettings settings =
                    new AdapterSettings(dev.octet.formats.peft.PeftConfig.of(json), Optional.empty());
            AdaptedGraph text = settings.adapt(model, InitialValues.seeded(1), List.of(7L, 9L));
            float[] prompt = requireNonNull(text.model().graph().initializers().get("prompt_embeddings"))
                    .tensor()
                    .orElseThrow()
                    .toFloats();
            for (int i = 0; i < 32; i++) {
                assertEquals(table[7 * 32 + i], prompt[i]);
                assertEquals(table[9 * 32 + i], prompt[32 + i]);
                assertEquals(table[7 * 32 + i], prompt[64 + i]);
            }
            json.put("prompt_tuning_init", "SAMPLE_VOCAB");
            AdapterSettings sampled = new AdapterSettings(dev.octet.formats.peft.PeftConfig.of(json), Optional.empty());
            float[] rows = requireNonNull(sampled.adapt(model, InitialValues.seeded(1))
                            .model()
                            .graph()
                            .initializers()
                            .get("prompt_embeddings"))
                    .tensor()
                    .orElseThrow()
                    .toFloats();
            for (int row = 0; row < 3; row++) {
                int at = row * 32;
                assertTrue(
                        java.util.stream.IntStream.range(0, 101)
                                .anyMatch(t -> java.util.stream.IntStream.range(0, 32)
                                        .allMatch(i -> table[t * 32 + i] == rows[at + i])),
                        "row " + row);
            }
        }
    }

    /** A model and PEFT's adapter of it. */
    private static final class Opened implements AutoCloseable {
        private final PeftAdapter adapter;
        private final ModelFile file;
        private final ModelSource source;
        private final Converter converter;

        Opened(String name) throws IOException {
            this(name, "tiny-hf/" + name.substring(0, name.lastIndexOf('-')));
        }

        Opened(String name, String model) throws IOException {
            adapter = PeftAdapter.open(ADAPTERS.resolve(name));
            file = ModelFile.open(ADAPTERS.resolve(name).resolve("golden.safetensors"));
            source = ModelSource.open(MODELS.resolve(model));
            converter = source.converter();
        }

        /** What training begins with: the encoder's weights, or the virtual tokens themselves. */
        Map<String, Tensor> start() {
            Map<String, Tensor> start = new TreeMap<>();
            file.model().tensors().forEach((name, t) -> {
                if (name.startsWith("weight.")) {
                    start.put(name.substring("weight.".length()), t);
                }
            });
            return start.isEmpty() ? adapter.tensors() : start;
        }

        Golden golden() {
            Map<String, Tensor> tensors = new TreeMap<>(file.model().tensors());
            tensors.keySet().removeIf(k -> k.startsWith("weight."));
            Shape shape = requireNonNull(tensors.get("in.input_ids")).shape();
            if (converter.canonical().graph().inputs().stream()
                    .anyMatch(i -> i.name().equals("token_type_ids"))) {
                tensors.put(
                        "in.token_type_ids",
                        Tensor.ofLongs(
                                Arena.ofAuto(), "in.token_type_ids", shape, new long[(int) shape.elementCount()]));
            }
            return Golden.of(tensors, "golden");
        }

        AdaptedGraph adapt(Map<String, Tensor> tensors) {
            return new AdapterSettings(adapter.config(), Optional.empty())
                    .adapt(
                            converter.canonical(),
                            tensors.isEmpty()
                                    ? InitialValues.seeded(1)
                                    : InitialValues.continuing(tensors, "the golden file"));
        }

        List<GoldenDifference> differences(AdaptedGraph adapted, Golden golden, Device device) {
            GraphModel model = adapted.model();
            Map<String, Shape> shapes = new TreeMap<>();
            golden.inputs().forEach((input, t) -> shapes.put(input, t.shape()));
            GraphModel concrete = TrainingGraph.of(model, Programs.sizes(model.graph(), shapes), new PassLog());
            Tensor labels = requireNonNull(golden.inputs().get("labels"));
            LossConfig.Type type =
                    labels.shape().rank() == 2 ? LossConfig.Type.CAUSAL_LM : LossConfig.Type.CROSS_ENTROPY;
            LossGraph graph = LossGraph.of(
                    concrete,
                    new LossConfig(type, Optional.empty(), "labels", -100, Optional.empty()),
                    Map.of("labels", new OperandType(labels.dtype(), labels.shape())),
                    adapted.virtualTokens());
            Map<String, Tensor> outputs = new TreeMap<>(golden.outputs());
            Tensor loss = outputs.remove("octet.loss");
            if (loss != null) {
                outputs.put(graph.loss(), loss);
            }
            Golden named = new Golden(golden.inputs(), golden.upstream(), outputs, golden.gradients());
            return new ArrayList<>(new GradientCheck(graph.model(), graph.loss(), named, Map.of()).run(device));
        }

        @Override
        public void close() {
            converter.close();
            source.close();
            file.close();
            adapter.close();
        }
    }
}
