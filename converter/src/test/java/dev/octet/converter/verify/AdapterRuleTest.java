package dev.octet.converter.verify;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.peft.PeftAdapter;
import dev.octet.formats.peft.PeftConfig;
import dev.octet.formats.peft.PeftKeys;
import dev.octet.formats.peft.PeftRole;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Faults planted in the adapters that PEFT wrote, each found by its rule; the adapters themselves have none for PEFT. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class AdapterRuleTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final String Q0 = "model.layers.0.self_attn.q_proj";

    @TempDir
    Path folder;

    /** Configuration and tensors of an adapter, to be changed. */
    record Draft(ObjectNode config, Map<String, Tensor> tensors, Arena arena) {
        /** Another tensor in place of that of a module, filled with one value. */
        void put(String key, float value, long... shape) {
            Tensor tensor = Tensor.allocate(arena, new TensorSpec(key, DType.F32, Shape.of(shape)));
            for (long i = 0; i < tensor.shape().elementCount(); i++) {
                tensor.bytes().set(Tensor.F32_LE, i * 4, value);
            }
            tensors.put(key, tensor);
        }

        void rename(String from, String to) {
            tensors.put(to, requireNonNull(tensors.remove(from)).withName(to));
        }
    }

    /** One fault and what finds it. */
    record Fault(String rule, Severity severity, String adapter, String what, Consumer<Draft> plant) {
        @Override
        public String toString() {
            return rule + ": " + what + " in " + adapter;
        }
    }

    private static Fault error(String rule, String what, String adapter, Consumer<Draft> plant) {
        return new Fault(rule, Severity.ERROR, adapter, what, plant);
    }

    private static Fault warning(String rule, String what, String adapter, Consumer<Draft> plant) {
        return new Fault(rule, Severity.WARNING, adapter, what, plant);
    }

    private static String a(String module) {
        return PeftKeys.key(module, PeftRole.LORA_A);
    }

    private static String b(String module) {
        return PeftKeys.key(module, PeftRole.LORA_B);
    }

    private static void nothing(Draft draft) {}

    static List<Fault> faults() {
        return List.of(
                error("adapter-method", "vLLM serves LoRA adapters only", "llama-ia3", AdapterRuleTest::nothing),
                error("adapter-method", "PEFT does not have this method", "llama-ia3", d -> {
                    d.config().put("peft_type", "BOTTLENECK");
                }),
                error(
                        "adapter-keys",
                        "a key is missing",
                        "llama-lora",
                        d -> d.config().remove("lora_alpha")),
                error("adapter-dora", "norms of DoRA", "llama-dora", AdapterRuleTest::nothing),
                error("adapter-dora", "use_dora is true", "llama-dora", AdapterRuleTest::nothing),
                error("adapter-modules-to-save", "names a module", "llama-saved", AdapterRuleTest::nothing),
                error("adapter-modules-to-save", "stored whole", "llama-saved", AdapterRuleTest::nothing),
                error("adapter-modules-to-save", "single tokens", "llama-tokens", AdapterRuleTest::nothing),
                error("adapter-bias", "a bias is stored", "llama-bias", AdapterRuleTest::nothing),
                error("adapter-bias", "bias is not none", "gpt2-biases", AdapterRuleTest::nothing),
                error(
                        "adapter-rank-limit",
                        "above the largest",
                        "llama-lora",
                        d -> d.config().put("r", 513)),
                warning(
                        "adapter-rank-limit",
                        "default limit",
                        "llama-lora",
                        d -> d.config().put("r", 17)),
                error("adapter-patterns", "the scaling of a module", "llama-patterns", AdapterRuleTest::nothing),
                error(
                        "adapter-variant",
                        "a key changes",
                        "llama-lora",
                        d -> d.config().put("use_qalora", true)),
                error("adapter-embedding-name", "another name", "gpt2-embedding", AdapterRuleTest::nothing),
                error(
                        "adapter-key-name",
                        "a key has parts",
                        "llama-lora",
                        d -> d.rename(a(Q0), a(Q0).replace(".weight", ".default.weight"))),
                error(
                        "adapter-key-name",
                        "lacks the prefix",
                        "llama-lora",
                        d -> d.rename(a(Q0), a(Q0).substring(PeftKeys.PREFIX.length()))),
                error("adapter-key-name", "old spelling", "llama-dora", d -> {
                    String key = PeftKeys.key(Q0, PeftRole.LORA_MAGNITUDE);
                    d.rename(key, key + ".weight");
                }),
                warning(
                        "adapter-base-name",
                        "is missing",
                        "llama-lora",
                        d -> d.config().putNull("base_model_name_or_path")),
                error("adapter-base", "no such module", "llama-lora", d -> {
                    d.rename(a(Q0), a("model.layers.7.self_attn.q_proj"));
                    d.rename(b(Q0), b("model.layers.7.self_attn.q_proj"));
                }),
                error("adapter-base", "no such module", "gpt2-lora", AdapterRuleTest::nothing),
                error(
                        "adapter-target",
                        "match nothing",
                        "llama-lora",
                        d -> d.config().putArray("target_modules").add("query")),
                warning(
                        "adapter-target",
                        "an entry of target_modules",
                        "llama-lora",
                        d -> d.config().withArray("target_modules").add("query")),
                error(
                        "adapter-target",
                        "match a norm",
                        "llama-lora",
                        d -> d.config().withArray("target_modules").add("input_layernorm")),
                warning(
                        "adapter-target",
                        "a key of rank_pattern",
                        "llama-lora",
                        d -> d.config().putObject("rank_pattern").put("k_prj", 3)),
                error(
                        "adapter-tensor-missing",
                        "lacks a tensor",
                        "llama-lora",
                        d -> d.tensors().remove(b(Q0))),
                error(
                        "adapter-tensor-missing",
                        "lacks a tensor",
                        "llama-lora",
                        d -> d.config().put("use_dora", true)),
                error("adapter-tensor-missing", "match a module that has no tensors", "llama-lora", d -> {
                    d.tensors().remove(a(Q0));
                    d.tensors().remove(b(Q0));
                }),
                error(
                        "adapter-tensor-missing",
                        "virtual tokens are missing",
                        "llama-prompt",
                        d -> d.rename("prompt_embeddings", "base_model.model.x.weight")),
                error(
                        "adapter-tensor-missing",
                        "has no tensors",
                        "llama-lora",
                        d -> d.tensors().clear()),
                error(
                        "adapter-tensor-unexpected",
                        "another method",
                        "llama-lora",
                        d -> d.put(PeftKeys.key(Q0, PeftRole.IA3), 2, 32, 1)),
                error(
                        "adapter-tensor-unexpected",
                        "do not match a module",
                        "llama-lora",
                        d -> d.config().put("layers_to_transform", 1)),
                error(
                        "adapter-tensor-unexpected",
                        "virtual tokens are stored",
                        "llama-lora",
                        d -> d.put("prompt_embeddings", 1, 3, 32)),
                error(
                        "adapter-tensor-unexpected",
                        "does not name",
                        "llama-saved",
                        d -> d.config().putNull("modules_to_save")),
                error(
                        "adapter-shape",
                        "do not have the rank",
                        "llama-lora",
                        d -> d.config().put("r", 3)),
                error("adapter-shape", "not a matrix", "llama-lora", d -> d.put(a(Q0), 1, 64)),
                error("adapter-shape", "not a matrix", "llama-lora", d -> d.put(a(Q0), 1, 0, 32)),
                error("adapter-shape", "not fit the weight", "llama-lora", d -> d.put(a(Q0), 1, 2, 33)),
                error(
                        "adapter-shape",
                        "norms of DoRA",
                        "llama-dora",
                        d -> d.put(PeftKeys.key(Q0, PeftRole.LORA_MAGNITUDE), 1, 31)),
                error(
                        "adapter-shape",
                        "feedforward_modules",
                        "llama-ia3",
                        d -> d.config().putArray("feedforward_modules")),
                error(
                        "adapter-shape",
                        "factors do not fit",
                        "llama-ia3",
                        d -> d.put(PeftKeys.key("model.layers.0.self_attn.k_proj", PeftRole.IA3), 2, 17, 1)),
                error(
                        "adapter-shape",
                        "virtual tokens have another",
                        "llama-prefix",
                        d -> d.config().put("num_layers", 3)),
                error(
                        "adapter-shape",
                        "not F32",
                        "llama-lora",
                        d -> d.tensors()
                                .put(
                                        a(Q0),
                                        Tensor.allocate(d.arena(), new TensorSpec(a(Q0), DType.I64, Shape.of(2, 32))))),
                warning("adapter-rank", "larger than a dimension", "llama-lora", d -> {
                    d.put(a(Q0), 1, 33, 32);
                    d.put(b(Q0), 1, 32, 33);
                }),
                error("adapter-not-finite", "NaN or infinity", "llama-lora", d -> d.put(b(Q0), Float.NaN, 32, 2)),
                warning("adapter-no-effect", "an adapted module", "llama-lora", d -> d.put(b(Q0), 0, 32, 2)),
                error("adapter-no-effect", "the adapter changes nothing", "llama-lora", d -> {
                    for (String key : List.copyOf(d.tensors().keySet())) {
                        if (key.contains("lora_B")) {
                            d.put(
                                    key,
                                    0,
                                    requireNonNull(d.tensors().get(key)).shape().toArray());
                        }
                    }
                }));
    }

    private Path planted(Fault fault) throws IOException {
        try (Arena arena = Arena.ofConfined();
                PeftAdapter sound =
                        PeftAdapter.open(TESTDATA.resolve("adapters").resolve(fault.adapter()))) {
            Draft draft = new Draft(sound.config().json(), new LinkedHashMap<>(sound.tensors()), arena);
            fault.plant().accept(draft);
            PeftAdapter.write(folder, PeftConfig.of(draft.config()), draft.tensors());
        }
        return folder;
    }

    private static Path base(String name) {
        return TESTDATA.resolve("models/tiny-hf").resolve(name);
    }

    @ParameterizedTest
    @MethodSource("faults")
    void a_planted_fault_is_found_by_its_rule(Fault fault) throws IOException {
        VerifyOptions options = VerifyOptions.defaults().withOriginal(base("llama"));
        Verification result = Verifier.verify(planted(fault), options);
        assertTrue(
                result.findings().stream()
                        .anyMatch(f -> f.rule().equals(fault.rule())
                                && f.severity() == fault.severity()
                                && f.what().contains(fault.what())),
                () -> result.findings().toString());
    }

    @Test
    void every_rule_has_a_planted_fault() {
        Set<String> rules = new TreeSet<>();
        Verifier.RULES.stream().filter(r -> r instanceof AdapterRule).forEach(r -> rules.add(r.id()));
        Set<String> planted = new TreeSet<>();
        faults().forEach(f -> planted.add(f.rule()));
        assertEquals(rules, planted);
    }

    static List<String> adapters() throws IOException {
        try (Stream<Path> all = Files.list(TESTDATA.resolve("adapters"))) {
            return all.filter(path -> Files.exists(path.resolve("adapter_config.json")))
                    .map(path -> path.getFileName().toString())
                    .sorted()
                    .toList();
        }
    }

    @ParameterizedTest
    @MethodSource("adapters")
    void what_PEFT_wrote_has_no_fault_for_PEFT(String adapter) throws IOException {
        VerifyOptions options = VerifyOptions.defaults()
                .withConsumers(Set.of(dev.octet.converter.verify.Consumer.PEFT))
                .withOriginal(base(adapter.substring(0, adapter.indexOf('-'))));
        Verification result = Verifier.verify(TESTDATA.resolve("adapters").resolve(adapter), options);
        assertEquals(List.of(), result.findings());
        assertEquals("adapter", result.kind());
    }

    @Test
    void modules_are_found_in_a_checkpoint_without_the_prefix_of_its_class() throws IOException {
        VerifyOptions options = VerifyOptions.defaults()
                .withConsumers(Set.of(dev.octet.converter.verify.Consumer.PEFT))
                .withOriginal(base("gpt2-hub"));
        Verification result = Verifier.verify(TESTDATA.resolve("adapters/gpt2-lora"), options);
        // narrower than the adapter's own base, with the same modules
        assertEquals(
                List.of("adapter-shape"),
                result.findings().stream().map(Finding::rule).toList());
    }

    @Test
    void without_a_base_the_comparison_is_left_out_with_a_note() throws IOException {
        Verification result = Verifier.verify(TESTDATA.resolve("adapters/llama-lora"), VerifyOptions.defaults());
        assertTrue(result.passed());
        assertTrue(result.notes().getFirst().contains("--base"), result.notes().toString());
        assertEquals(
                List.of("adapter-base"),
                result.rulesSkipped().stream().map(Verification.Skipped::rule).toList());
    }

    @Test
    void the_base_that_the_configuration_names_is_used_if_it_is_here() throws IOException {
        Fault wrong = error(
                "adapter-base",
                "",
                "gpt2-lora",
                d -> d.config().put("base_model_name_or_path", base("llama").toString()));
        Verification result = Verifier.verify(planted(wrong), VerifyOptions.defaults());
        assertTrue(result.findings().stream().anyMatch(f -> f.rule().equals("adapter-base")));
        assertTrue(
                result.notes().getFirst().contains("compared with the base"),
                result.notes().toString());
    }

    @Test
    void a_consumer_of_models_alone_and_an_adapter_without_configuration_are_refused() throws IOException {
        Path adapter = TESTDATA.resolve("adapters/llama-lora");
        VerifyOptions tensorrt =
                VerifyOptions.defaults().withConsumers(Set.of(dev.octet.converter.verify.Consumer.TENSORRT));
        assertThrows(InvalidOptionException.class, () -> Verifier.verify(adapter, tensorrt));
        Files.copy(adapter.resolve("adapter_model.safetensors"), folder.resolve("adapter_model.safetensors"));
        assertThrows(MalformedModelException.class, () -> Verifier.verify(folder, VerifyOptions.defaults()));
    }

    @Test
    void a_tied_head_is_found_where_the_table_is() throws IOException {
        Fault head = error("adapter-base", "", "gpt2-lora", d -> {
            d.rename(a("transformer.h.0.attn.c_attn"), a("lm_head"));
            d.tensors().remove(b("transformer.h.0.attn.c_attn"));
            d.put(b("lm_head"), 1, 101, 2);
            d.config().withArray("target_modules").add("lm_head");
        });
        Verification result =
                Verifier.verify(planted(head), VerifyOptions.defaults().withOriginal(base("gpt2")));
        assertTrue(
                result.findings().stream()
                        .noneMatch(f -> Set.of("adapter-base", "adapter-shape").contains(f.rule())),
                () -> result.findings().toString());
    }
}
