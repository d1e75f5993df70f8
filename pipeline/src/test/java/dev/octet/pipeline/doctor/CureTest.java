package dev.octet.pipeline.doctor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.graph.Graph;
import dev.octet.pipeline.run.OpenedModel;
import dev.octet.quant.recipe.Product;
import dev.octet.quant.recipe.ProductOperand;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.precision.Fp8Layer;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.OperandChange;
import dev.octet.trainer.yaml.Section;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Cures of a small GPT-2. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CureTest {
    private static final OperandChange CURRENT = new OperandChange.Current();
    private static final OperandChange KEPT = new OperandChange.Unquantised();

    private static OpenedModel model;
    private static Graph graph;

    @BeforeAll
    static void open() throws IOException {
        model = OpenedModel.of(Path.of(System.getProperty("octet.testdata")).resolve("models/tiny-lm/gpt2"));
        graph = model.canonical().graph();
    }

    @AfterAll
    static void close() {
        model.close();
    }

    private static Section config(String precision) {
        return YamlFile.parse("""
            data: {train: x.npz}
            loss: {type: causal-lm}
            steps: 3
            precision: %s
            """.formatted(precision), "c.yaml");
    }

    private static Fp8Policy policy(Section config) {
        return (Fp8Policy) TrainingConfig.of(config, Path.of("")).precision().policy();
    }

    private static String node(String module) {
        return policy(config("{mode: fp8}")).layers(graph).stream()
                .filter(l -> l.module().equals(module))
                .map(Fp8Layer::node)
                .findFirst()
                .orElseThrow();
    }

    private static Map<ProductOperand, OperandChange> all(Product product, OperandChange change) {
        return ProductOperand.of(product).stream().collect(Collectors.toMap(o -> o, o -> change));
    }

    private static Cure cure(Section config, Map<String, Map<ProductOperand, OperandChange>> changes) {
        Fp8Policy policy = policy(config);
        return Cure.of(config, policy, policy.layers(graph), changes);
    }

    /** What is quantised, and how, in each product of each layer. */
    private static Map<String, Object> computed(Fp8Policy policy) {
        Map<String, Object> all = new LinkedHashMap<>();
        policy.layers(graph)
                .forEach(l -> all.put(
                        l.node(), List.of(l.recipe(), new TreeMap<>(l.changes()), l.fakeQuantize(), l.inputOwner())));
        return all;
    }

    /** Whatever the configuration says already: with the cure in it, it means what the replay of the cure computed. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "{mode: fp8, recipe: delayed}",
                "{mode: fp8, recipe: delayed, base: fp32, amax_history_len: 7, high_precision: [wgrad]}",
                "{mode: fp8, recipe: delayed, current: [fprop.input], layers: [{match: 'h\\.0', margin: 3, recipe:"
                        + " delayed, amax_compute_algo: most_recent}, {match: c_proj, fp8: false}]}",
                "{mode: fp8, layers: [{match: 'h\\.1\\.mlp', high_precision: [fprop.weight, dgrad]}]}"
            })
    void the_configuration_with_the_cure_computes_what_was_proved(String precision) {
        Section config = config(precision);
        Map<String, Map<ProductOperand, OperandChange>> changes = Map.of(
                node("transformer.h.0.attn.c_attn"), all(Product.DGRAD, CURRENT),
                node("transformer.h.1.mlp.c_fc"), Map.of(ProductOperand.parse("wgrad.input"), KEPT),
                node("transformer.h.1.attn.c_attn"), all(Product.FPROP, KEPT));
        Cure cure = cure(config, changes);
        Section written = YamlFile.parse(cure.precision(), "precision.yaml");
        Section whole = config("{}").with(List.of("precision=" + flow(written)), "--set");
        assertEquals(computed(policy(config).with(changes)), computed(policy(whole)), cure.precision());
    }

    private static String flow(Section written) {
        return "{" + written.section("precision").yaml().lines().collect(Collectors.joining(", ")) + "}";
    }

    @Test
    void a_layer_without_any_quantised_operand_is_not_in_fp8() {
        Map<ProductOperand, OperandChange> none = new TreeMap<>();
        ProductOperand.ALL.forEach(o -> none.put(o, KEPT));
        String node = node("transformer.h.0.mlp.c_fc");
        Cure cure = cure(config("{mode: fp8}"), Map.of(node, none));
        assertTrue(cure.precision().contains("fp8: false"), cure.precision());
        assertEquals(List.of("transformer.h.0.mlp.c_fc"), cure.torchaoModules());
    }

    @Test
    void transformer_engine_takes_products_out_as_a_whole_and_scales_tensors_one_by_one() {
        Cure cure = cure(
                config("{mode: fp8}"),
                Map.of(
                        node("transformer.h.0.attn.c_attn"),
                        Map.of(ProductOperand.parse("dgrad.grad_output"), CURRENT),
                        node("transformer.h.1.attn.c_attn"),
                        Map.of(ProductOperand.parse("dgrad.grad_output"), CURRENT),
                        node("transformer.h.1.mlp.c_fc"),
                        all(Product.WGRAD, KEPT)));
        assertEquals(
                """
                octet_doctor_1:
                  enabled: true
                  layers:
                    layer_name_regex_pattern: '^(%s)$'
                  transformer_engine:
                    PerTensorScaling:
                      enabled: true
                      gemms_struct:
                        - gemm: dgrad
                          tensors: [gradient]
                octet_doctor_2:
                  enabled: true
                  layers:
                    layer_name_regex_pattern: '^(%s)$'
                  transformer_engine:
                    DisableQuantizationGEMM:
                      enabled: true
                      gemms: [wgrad]
                """.formatted(
                                alternatives(
                                        "transformer.h.0.attn.c_attn",
                                        "transformer.h.1.attn.c_attn",
                                        "transformer.h.0.self_attn.layernorm_linear_qkv",
                                        "transformer.h.0.self_attn.linear_qkv",
                                        "transformer.h.1.self_attn.layernorm_linear_qkv",
                                        "transformer.h.1.self_attn.linear_qkv"),
                                alternatives("transformer.h.1.mlp.c_fc", "transformer.h.1.layernorm_mlp.fc1")),
                cure.teDebug());
    }

    private static String alternatives(String... names) {
        return String.join("|", names).replace(".", "\\.");
    }

    @Test
    void torchao_scales_by_the_values_of_the_step_and_leaves_modules_out_as_a_whole() {
        Cure scaled =
                cure(config("{mode: fp8}"), Map.of(node("transformer.h.0.attn.c_attn"), all(Product.DGRAD, CURRENT)));
        assertEquals(List.of(), scaled.torchaoModules());
        assertTrue(scaled.torchaoFilter().contains("HIGH_PRECISION = set()"), scaled.torchaoFilter());
        Cure kept = cure(config("{mode: fp8}"), Map.of(node("transformer.h.0.attn.c_attn"), all(Product.DGRAD, KEPT)));
        assertTrue(kept.torchaoFilter().contains("    \"transformer.h.0.attn.c_attn\",\n}"), kept.torchaoFilter());
    }

    @Test
    void a_feature_is_switched_off_by_its_key() {
        Cure cure = Cure.ofFeature(config("{mode: fp8, recipe: delayed}"), "fused_norm", "false");
        assertEquals("""
            precision:
              mode: fp8
              recipe: delayed
              fused_norm: false
            """, cure.precision());
        assertFalse(cure.teDebug().contains("octet"), cure.teDebug());
    }
}
