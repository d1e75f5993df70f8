package dev.octet.trainer.adapter;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.TrainingGraph;
import dev.octet.converter.pass.PassLog;
import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.peft.PeftConfig;
import dev.octet.formats.peft.PeftKeys;
import dev.octet.formats.peft.PeftRole;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.autodiff.Programs;
import dev.octet.trainer.autodiff.Ties;
import dev.octet.trainer.check.Golden;
import dev.octet.trainer.check.GoldenDifference;
import dev.octet.trainer.check.GradientCheck;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.data.MicroBatch;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.loss.LossGraph;
import dev.octet.trainer.optimizer.Optimizer;
import dev.octet.trainer.precision.LossScaling;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.step.GraphSource;
import dev.octet.trainer.step.TrainingSession;
import dev.octet.trainer.step.TrainingSetup;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Every method against PEFT: logits, gradients of all trained parameters, losses of five steps. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class AdapterGoldenTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path GOLDENS = TESTDATA.resolve("golden/adapters");

    static List<String> names() throws IOException {
        try (Stream<Path> files = Files.list(GOLDENS)) {
            return files.map(f -> f.getFileName().toString().replace(".safetensors", ""))
                    .filter(n -> !n.equals("starts"))
                    .sorted()
                    .toList();
        }
    }

    @ParameterizedTest
    @MethodSource("names")
    void the_cpu_computes_what_peft_does(String name) throws IOException {
        try (Device cpu = CpuDevice.of(2)) {
            check(name, cpu);
        }
    }

    @ParameterizedTest
    @MethodSource("names")
    void the_reference_computes_what_peft_does(String name) throws IOException {
        try (Device reference = new ReferenceDevice()) {
            check(name, reference);
        }
    }

    @Tag("kernels")
    @ParameterizedTest
    @ValueSource(strings = {"llama-dora", "llama-dora-embeddings", "llama-patterns", "gpt2-bias-all", "gpt2-ia3"})
    void the_kernels_compute_what_peft_does(String name) throws IOException {
        try (Device kernels = TestGpus.hostDevice()) {
            check(name, kernels);
        }
    }

    private static void check(String name, Device device) throws IOException {
        try (ModelSource source = ModelSource.open(TESTDATA.resolve("models/tiny-hf/" + model(name)));
                Converter converter = Converter.of(source.model())) {
            check(name, converter, "", device);
        }
    }

    @ParameterizedTest
    @CsvSource({
        "llama-dora, llama_eager_dynamo23", "llama-dora-embeddings, llama_eager_script17",
                "llama-saved, llama_eager_dynamo18",
        "llama-ia3, llama_eager_script14", "llama-patterns, llama_eager_dynamo23", "llama-norms, llama_eager_script17",
        "gpt2-lora, gpt2_eager_script17", "gpt2-dora, gpt2_eager_dynamo23", "gpt2-bias-all, gpt2_eager_script14"
    })
    void an_onnx_model_is_adapted_as_the_checkpoint_it_was_exported_from(String name, String export)
            throws IOException {
        try (ModelFile model = ModelFile.open(TESTDATA.resolve("models/tiny-onnx/" + export + ".onnx"));
                Converter converter = Converter.of(model.model());
                Device cpu = CpuDevice.of(2)) {
            check(name, converter, "m.", cpu); // the exports wrap the model in a module
        }
    }

    /** @param within module around the model, with its dot */
    private static void check(String name, Converter converter, String within, Device device) throws IOException {
        try (ModelFile file = ModelFile.open(GOLDENS.resolve(name + ".safetensors"))) {
            Map<String, Tensor> adapter = new TreeMap<>();
            Map<String, Tensor> expected = new TreeMap<>();
            file.model().tensors().forEach((original, t) -> {
                String key = original.replace(PeftKeys.PREFIX, PeftKeys.PREFIX + within);
                if (key.startsWith("adapter.")) {
                    adapter.put(key.substring("adapter.".length()), t);
                } else if (!key.equals("losses")) {
                    expected.put(key, t);
                }
            });
            AdaptedGraph adapted =
                    adapted(base(converter), config(file), InitialValues.continuing(adapter, "the golden"));
            assertEquals(adapter.keySet(), new TreeMap<>(adapted.keys()).keySet());
            expected.put("in.attention_mask", ones(requireNonNull(expected.get("in.input_ids"))));
            Golden golden = Golden.of(expected, name);
            Map<String, Shape> shapes = new TreeMap<>();
            golden.inputs().forEach((input, t) -> shapes.put(input, t.shape()));
            GraphModel concrete = TrainingGraph.of(
                    adapted.model(), Programs.sizes(adapted.model().graph(), shapes), new PassLog());
            Tensor labels = requireNonNull(golden.inputs().get("labels"));
            LossGraph graph = LossGraph.of(concrete, loss(), new OperandType(labels.dtype(), labels.shape()));
            for (GoldenDifference d : new GradientCheck(graph.model(), graph.loss(), golden, Map.of()).run(device)) {
                assertTrue(d.error() <= 1e-5, d.toString());
            }
            assertLosses(
                    adapted,
                    golden.inputs(),
                    requireNonNull(file.model().tensors().get("losses")),
                    device);
        }
    }

    private static Tensor ones(Tensor like) {
        long[] ones = new long[(int) like.shape().elementCount()];
        Arrays.fill(ones, 1);
        return Tensor.ofLongs(Arena.ofAuto(), "attention_mask", like.shape(), ones);
    }

    private static String model(String name) {
        return name.substring(0, name.indexOf('-'));
    }

    private static GraphModel base(Converter converter) {
        GraphModel canonical = converter.canonical();
        return Ties.restore(canonical, Ties.find(canonical.graph()));
    }

    private static PeftConfig config(ModelFile file) throws IOException {
        return PeftConfig.of((ObjectNode) new ObjectMapper()
                .readTree(requireNonNull(file.model().metadata().get("config"))));
    }

    private static AdaptedGraph adapted(GraphModel base, PeftConfig config, InitialValues initial) {
        return new AdapterSettings(config, Optional.empty(), 1).adapt(base, initial);
    }

    private static LossConfig loss() {
        return new LossConfig(LossConfig.Type.CAUSAL_LM, Optional.empty(), "labels", -100, Optional.empty());
    }

    private static TrainingSession session(AdaptedGraph adapted, Device device) {
        return new TrainingSession(
                new TrainingSetup(
                        new GraphSource(adapted.model(), (g, sizes) -> TrainingGraph.of(g, sizes, new PassLog())),
                        Parameters.of(adapted.model().graph())
                                .with(adapted.model().graph(), adapted.trained()),
                        adapted.trained(),
                        loss(),
                        PrecisionPolicy.FP32,
                        LossScaling.Fixed.NONE,
                        Optimizer.Adam.ADAMW.withWeightDecay(0),
                        List.of(),
                        Double.POSITIVE_INFINITY,
                        List.of()),
                device);
    }

    private static void assertLosses(AdaptedGraph adapted, Map<String, Tensor> inputs, Tensor expected, Device device) {
        MicroBatch batch = new MicroBatch(0, List.of(0L, 1L), inputs);
        try (TrainingSession session = session(adapted, device)) {
            for (int i = 0; i < expected.shape().elementCount(); i++) {
                double loss = session.step(List.of(batch), 0.01, null, false).loss();
                assertEquals(expected.bytes().getAtIndex(Tensor.F64_LE, i), loss, 1e-5, "step " + (i + 1));
            }
        }
    }

    static Set<String> starts() {
        return Set.of("llama/pissa", "llama/olora", "gpt2/pissa", "llama/pissa_niter_16");
    }

    @ParameterizedTest
    @MethodSource("starts")
    void a_start_in_the_base_s_own_directions_is_that_of_peft(String name) throws IOException {
        String model = name.substring(0, name.indexOf('/'));
        String method = name.substring(name.indexOf('/') + 1);
        String golden = model + "/" + method.replaceAll("_.*", "") + "/";
        try (ModelFile file = ModelFile.open(GOLDENS.resolve("starts.safetensors"));
                ModelSource source = ModelSource.open(TESTDATA.resolve("models/tiny-hf/" + model));
                Converter converter = Converter.of(source.model())) {
            ObjectNode json = new ObjectMapper().createObjectNode();
            json.put("peft_type", "LORA").put("r", 4).put("lora_alpha", 6).put("init_lora_weights", method);
            List<String> targets = model.equals("gpt2") ? List.of("c_attn") : List.of("q_proj", "v_proj", "down_proj");
            targets.forEach(json.withArray("target_modules")::add);
            AdaptedGraph adapted = adapted(base(converter), PeftConfig.of(json), InitialValues.seeded(1));
            Map<String, Tensor> values = new HashMap<>();
            adapted.trained().forEach(n -> values.put(n, constant(adapted, n)));
            int compared = 0;
            for (Map.Entry<String, Tensor> start : file.model().tensors().entrySet()) {
                if (start.getKey().startsWith(golden)) {
                    String module = start.getKey().substring(golden.length());
                    float[] product = product(
                            requireNonNull(values.get(PeftKeys.key(module, PeftRole.LORA_A))),
                            requireNonNull(values.get(PeftKeys.key(module, PeftRole.LORA_B))),
                            1.5);
                    assertArrayEquals(start.getValue().toFloats(), product, 2e-6f, module);
                    compared++;
                }
            }
            assertEquals(2 * targets.size(), compared);
        }
    }

    private static Tensor constant(AdaptedGraph adapted, String name) {
        return requireNonNull(adapted.model().graph().initializers().get(name))
                .tensor()
                .orElseThrow();
    }

    private static float[] product(Tensor a, Tensor b, double scaling) {
        int r = (int) a.shape().dim(0);
        int in = (int) a.shape().dim(1);
        int out = (int) b.shape().dim(0);
        float[] x = a.toFloats();
        float[] y = b.toFloats();
        float[] product = new float[out * in];
        for (int o = 0; o < out; o++) {
            for (int i = 0; i < in; i++) {
                double sum = 0;
                for (int k = 0; k < r; k++) {
                    sum += (double) y[o * r + k] * x[k * in + i];
                }
                product[o * in + i] = (float) (sum * scaling);
            }
        }
        return product;
    }

    @ParameterizedTest
    @ValueSource(strings = {"true", "gaussian", "orthogonal", "pissa", "pissa_niter_4", "olora"})
    void with_each_start_the_first_loss_is_the_base_s_and_what_is_written_continues_to_the_same_losses(String start)
            throws IOException {
        for (boolean dora : new boolean[] {false, true}) {
            try (ModelFile file = ModelFile.open(GOLDENS.resolve("llama-lora.safetensors"));
                    ModelSource source = ModelSource.open(TESTDATA.resolve("models/tiny-hf/llama"));
                    Converter converter = Converter.of(source.model());
                    Device device = CpuDevice.of(2)) {
                Tensor ids = requireNonNull(file.model().tensors().get("in.input_ids"));
                Map<String, Tensor> inputs = Map.of(
                        "input_ids", ids,
                        "attention_mask", ones(ids),
                        "labels", requireNonNull(file.model().tensors().get("in.labels")));
                MicroBatch batch = new MicroBatch(0, List.of(0L, 1L), inputs);
                ObjectNode json = new ObjectMapper().createObjectNode();
                json.put("peft_type", "LORA").put("r", 4).put("use_dora", dora).put("use_rslora", dora);
                json.put("target_modules", "all-linear");
                json.put("init_lora_weights", start);
                GraphModel base = base(converter);
                AdaptedGraph adapted = adapted(base, PeftConfig.of(json), InitialValues.seeded(1));
                json.put("init_lora_weights", true);
                AdaptedGraph nothing = adapted(base, PeftConfig.of(json), InitialValues.seeded(1));
                List<Double> losses = new ArrayList<>();
                AdaptedGraph.Files files;
                try (TrainingSession session = session(adapted, device);
                        TrainingSession plain = session(nothing, device)) {
                    losses.add(session.step(List.of(batch), 0.01, null, false).loss());
                    assertEquals(plain.evaluate(batch).orElseThrow().total(), losses.getFirst(), 1e-5, start);
                    session.step(List.of(batch), 0.01, null, false);
                    files = adapted.files(session.parameters(Arena.ofAuto()), Arena.ofAuto());
                    losses.add(session.evaluate(batch).orElseThrow().total());
                }
                assertTrue(losses.getLast() < losses.getFirst() - 0.001, start + losses);
                AdaptedGraph continued =
                        adapted(base, files.config(), InitialValues.continuing(files.tensors(), "written"));
                try (TrainingSession session = session(continued, device)) {
                    assertEquals(
                            losses.getLast(),
                            session.evaluate(batch).orElseThrow().total(),
                            1e-5,
                            start + " dora " + dora);
                }
            }
        }
    }
}
