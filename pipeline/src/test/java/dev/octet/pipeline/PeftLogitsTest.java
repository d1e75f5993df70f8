package dev.octet.pipeline;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.ModelFile;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.peft.PeftAdapter;
import dev.octet.formats.peft.PeftConfig;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.pipeline.run.OpenedModel;
import dev.octet.trainer.adapter.AdaptedGraph;
import dev.octet.trainer.adapter.AdapterSettings;
import dev.octet.trainer.adapter.InitialValues;
import dev.octet.trainer.autodiff.Ties;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.step.ForwardSession;
import dev.octet.trainer.step.GraphSource;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Adapters between PEFT and Octet: folders of PEFT ({@code testdata/make/peft_adapters.py}) give PEFT's logits; folders of Octet give the
 * same logits when they are read again, and in PEFT: with {@code -Doctet.adapters.out=FOLDER} they are left there for {@code
 * testdata/make/peft_reads.py}, which compares.
 */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PeftLogitsTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path ADAPTERS = TESTDATA.resolve("adapters");
    private static final Set<String> NOT_COMPUTED = Set.of("llama-tokens", "llama-parameters");
    private static final String VIRTUAL_TOKENS = ".*-(prompt|ptuning|prefix|projection)";
    private static final double TOLERANCE = 1e-5;

    @TempDir
    Path folder;

    static List<String> adapters() throws IOException {
        try (Stream<Path> all = Files.list(ADAPTERS)) {
            return all.filter(path -> Files.exists(path.resolve("adapter_config.json")))
                    .map(path -> path.getFileName().toString())
                    .filter(name -> !NOT_COMPUTED.contains(name) && !name.matches(VIRTUAL_TOKENS))
                    .sorted()
                    .toList();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"llama-tokens", "llama-parameters"})
    void an_adapter_with_parts_that_Octet_does_not_compute_is_refused(String name) throws IOException {
        try (PeftAdapter adapter = PeftAdapter.open(ADAPTERS.resolve(name));
                OpenedModel base = OpenedModel.of(base(name))) {
            AdapterSettings settings = new AdapterSettings(adapter.config(), Optional.of(adapter.folder()));
            InitialValues initial = InitialValues.continuing(adapter.tensors(), name);
            InvalidOptionException e = assertThrows(
                    InvalidOptionException.class,
                    () -> settings.adapt(source(base).graph(), initial));
            assertTrue(
                    e.where().contains(name.equals("llama-tokens") ? "trainable_token" : "target_parameters"),
                    e.where());
        }
    }

    @ParameterizedTest
    @MethodSource("adapters")
    void an_adapter_of_PEFT_gives_the_logits_of_PEFT(String name) throws IOException {
        try (ModelFile golden = ModelFile.open(ADAPTERS.resolve("golden.safetensors"));
                PeftAdapter adapter = PeftAdapter.open(ADAPTERS.resolve(name));
                OpenedModel base = OpenedModel.of(base(name))) {
            Tensor ids = golden.model().tensor("ids");
            float[] logits = logits(base, adapter.config(), adapter.tensors(), ids);
            assertClose(golden.model().tensor(name).toFloats(), logits);
        }
    }

    private static Path base(String name) {
        return TESTDATA.resolve("models/tiny-hf").resolve(name.substring(0, name.indexOf('-')));
    }

    private static GraphSource source(OpenedModel base) {
        return base.source().withTies(Ties.find(base.canonical().graph()));
    }

    private static float[] logits(OpenedModel base, PeftConfig config, Map<String, Tensor> tensors, Tensor ids)
            throws IOException {
        GraphSource source = source(base);
        AdaptedGraph adapted = new AdapterSettings(config, Optional.of(Path.of("adapter")))
                .adapt(source.graph(), InitialValues.continuing(tensors, "adapter"));
        // of the base's own weight, which PEFT saves with a table, nothing is trained
        TreeSet<String> keys = new TreeSet<>(tensors.keySet());
        keys.removeIf(key -> key.endsWith(".base_layer.weight"));
        assertEquals(keys, new TreeSet<>(adapted.keys().values()));
        try (Device device = CpuDevice.of(2);
                Arena arena = Arena.ofShared();
                ForwardSession session = new ForwardSession(
                        source.withAdapter(adapted),
                        List.of("logits"),
                        PrecisionPolicy.FP32,
                        Map.of(),
                        Map.of(),
                        device)) {
            Map<String, Tensor> batch = new LinkedHashMap<>();
            batch.put("input_ids", ids);
            batch.put("attention_mask", ones(ids.shape(), arena));
            Tensor logits = requireNonNull(session.outputs(batch, arena).get("logits"));
            return ofLast(logits, Math.toIntExact(ids.shape().dim(1)));
        }
    }

    /** Logits of the last {@code count} positions: without those of virtual tokens. */
    private static float[] ofLast(Tensor logits, int count) {
        int batch = Math.toIntExact(logits.shape().dim(0));
        int positions = Math.toIntExact(logits.shape().dim(1));
        int vocabulary = Math.toIntExact(logits.shape().dim(2));
        float[] all = logits.toFloats();
        float[] last = new float[batch * count * vocabulary];
        for (int b = 0; b < batch; b++) {
            System.arraycopy(
                    all,
                    (b * positions + positions - count) * vocabulary,
                    last,
                    b * count * vocabulary,
                    count * vocabulary);
        }
        return last;
    }

    private static Tensor ones(Shape shape, Arena arena) {
        long[] ones = new long[Math.toIntExact(shape.elementCount())];
        java.util.Arrays.fill(ones, 1);
        return Tensor.ofLongs(arena, "attention_mask", shape, ones);
    }

    private static void assertClose(float[] expected, float[] actual) {
        assertEquals(expected.length, actual.length);
        double worst = 0;
        for (int i = 0; i < expected.length; i++) {
            worst = Math.max(worst, Math.abs((double) expected[i] - actual[i]));
        }
        assertTrue(worst <= TOLERANCE, "logits differ by up to " + worst);
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
        llama-octet-lora      | {"peft_type": "LORA", "r": 3, "lora_alpha": 5, "target_modules": ["q_proj", "down_proj"]}
        llama-octet-rslora    | {"peft_type": "LORA", "r": 3, "use_rslora": true, "target_modules": "all-linear"}
        llama-octet-dora      | {"peft_type": "LORA", "r": 2, "use_dora": true, "target_modules": ["k_proj", "up_proj"]}
        llama-octet-patterns  | {"peft_type": "LORA", "r": 2, "target_modules": ["q_proj", "o_proj"], "rank_pattern": {"o_proj": 4}, "alpha_pattern": {"q_proj": 3}}
        llama-octet-bias      | {"peft_type": "LORA", "r": 2, "lora_bias": true, "target_modules": ["v_proj"]}
        llama-octet-embedding | {"peft_type": "LORA", "r": 2, "target_modules": ["embed_tokens", "q_proj"]}
        llama-octet-saved     | {"peft_type": "LORA", "r": 2, "target_modules": ["q_proj"], "modules_to_save": ["lm_head"]}
        llama-octet-ia3       | {"peft_type": "IA3", "target_modules": ["k_proj", "down_proj"], "feedforward_modules": ["down_proj"]}
        llama-octet-ln        | {"peft_type": "LN_TUNING", "target_modules": ["input_layernorm", "norm"]}
        gpt2-octet-lora       | {"peft_type": "LORA", "r": 3, "target_modules": ["c_attn", "c_fc"], "fan_in_fan_out": true}
        gpt2-octet-dora       | {"peft_type": "LORA", "r": 3, "use_dora": true, "target_modules": ["c_attn"], "fan_in_fan_out": true}
        gpt2-octet-biases     | {"peft_type": "LORA", "r": 2, "bias": "all", "target_modules": ["c_attn"], "fan_in_fan_out": true}
        gpt2-octet-ia3        | {"peft_type": "IA3", "target_modules": ["c_attn", "mlp.c_proj"], "feedforward_modules": ["mlp.c_proj"], "fan_in_fan_out": true}
        """)
    void an_adapter_of_Octet_gives_the_same_logits_when_it_is_read(String name, String json) throws IOException {
        ObjectNode keys = (ObjectNode) new ObjectMapper().readTree(json);
        keys.put("task_type", "CAUSAL_LM");
        try (ModelFile golden = ModelFile.open(ADAPTERS.resolve("golden.safetensors"));
                OpenedModel base = OpenedModel.of(base(name));
                Arena arena = Arena.ofShared()) {
            AdaptedGraph adapted = new AdapterSettings(PeftConfig.of(keys), Optional.empty())
                    .adapt(source(base).graph(), InitialValues.seeded(7));
            AdaptedGraph.Files files = adapted.files(moved(adapted, arena), arena);
            Path written = Optional.ofNullable(System.getProperty("octet.adapters.out"))
                    .map(Path::of)
                    .orElse(folder)
                    .resolve(name);
            PeftAdapter.write(written, files.config(), files.tensors());
            Tensor ids = golden.model().tensor("ids");
            float[] before = logits(base, files.config(), files.tensors(), ids);
            float[] after;
            try (PeftAdapter read = PeftAdapter.open(written)) {
                after = logits(base, read.config(), read.tensors(), ids);
            }
            assertClose(before, after);
            Shape shape =
                    golden.model().tensor(base(name).getFileName() + "-lora").shape();
            Tensor result = Tensor.ofFloats(arena, "logits", shape, after);
            SafetensorsWriter.write(
                    written.resolve("logits.safetensors"), Map.of("ids", ids, "logits", result), Map.of());
        }
    }

    /** The trained constants, each moved a little from where it starts, so that B and all factors count. */
    private static Map<String, Tensor> moved(AdaptedGraph adapted, Arena arena) {
        SplittableRandom random = new SplittableRandom(3);
        Map<String, Tensor> moved = new LinkedHashMap<>();
        for (String name : adapted.trained()) {
            Tensor start = requireNonNull(adapted.model().graph().initializers().get(name))
                    .tensor()
                    .orElseThrow();
            float[] values = start.toFloats();
            for (int i = 0; i < values.length; i++) {
                values[i] += (float) (0.1 * random.nextGaussian());
            }
            moved.put(name, Tensor.ofFloats(arena, name, start.shape(), values));
        }
        return moved;
    }
}
