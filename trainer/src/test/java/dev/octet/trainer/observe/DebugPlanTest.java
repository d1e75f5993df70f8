package dev.octet.trainer.observe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.quant.recipe.Product;
import dev.octet.trainer.precision.LinearModule;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** Which layers of a model the sections of a debug file are for. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class DebugPlanTest {
    private static final List<LinearModule> LLAMA = modules(
            "model.layers.%d.",
            List.of(
                    "self_attn.q_proj",
                    "self_attn.k_proj",
                    "self_attn.v_proj",
                    "self_attn.o_proj",
                    "mlp.gate_proj",
                    "mlp.up_proj",
                    "mlp.down_proj"));
    private static final List<LinearModule> GPT2 =
            modules("transformer.h.%d.", List.of("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"));

    private static List<LinearModule> modules(String layer, List<String> names) {
        List<LinearModule> all = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            for (String name : names) {
                String full = layer.formatted(i) + name;
                all.add(new LinearModule("/" + full, full + ".weight", full, true));
            }
        }
        all.add(new LinearModule("/lm_head", "lm_head.weight", "lm_head", true));
        return all;
    }

    private static DebugSection section(String name, LayerSelection layers) {
        return new DebugSection(
                name, layers, List.of(new Feature.DisableQuantization(Set.of(Product.DGRAD))), "te.yaml, line 1");
    }

    private static DebugPlan plan(List<LinearModule> modules, DebugSection... sections) {
        return DebugPlan.of(
                new DebugSettings(List.of(sections), Optional.empty(), false, false, 1, List.of()), modules);
    }

    private static List<String> selected(List<LinearModule> modules, LayerSelection layers) {
        return plan(modules, section("one", layers)).layers().values().stream()
                .map(l -> l.module().name())
                .toList();
    }

    private static InvalidOptionException refused(List<LinearModule> modules, LayerSelection layers) {
        return assertThrows(InvalidOptionException.class, () -> selected(modules, layers));
    }

    @Test
    void names_of_hugging_face_select_layers_by_every_rule() {
        assertEquals(
                List.of("model.layers.0.mlp.up_proj", "lm_head"),
                selected(LLAMA, new LayerSelection.Exact(List.of("lm_head", "model.layers.0.mlp.up_proj"))));
        assertEquals(
                List.of("model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.k_proj"),
                selected(LLAMA, new LayerSelection.Regex("layers\\.1\\..*[qk]_proj$")));
        assertEquals(
                List.of("model.layers.1.mlp.down_proj"),
                selected(LLAMA, new LayerSelection.Kinds(List.of(new StepGate.Range(1, 5)), List.of("down"))));
        assertEquals(
                15,
                selected(LLAMA, new LayerSelection.Kinds(List.of(), List.of())).size());
    }

    @Test
    void names_of_a_transformer_layer_select_the_layer_that_is_the_same_one() {
        assertEquals(
                List.of("model.layers.0.self_attn.o_proj", "model.layers.1.self_attn.o_proj"),
                selected(LLAMA, new LayerSelection.Regex("self_attn\\.proj")));
        assertEquals(
                List.of("model.layers.1.mlp.down_proj"),
                selected(LLAMA, new LayerSelection.Exact(List.of("transformer_layer_1.layernorm_mlp.fc2"))));
        assertEquals(
                List.of("transformer.h.0.attn.c_attn", "transformer.h.0.mlp.c_fc"),
                selected(
                        GPT2,
                        new LayerSelection.Kinds(
                                List.of(new StepGate.Range(0, 0)), List.of("layernorm_linear_qkv", "fc1"))));
    }

    @Test
    void a_fused_module_that_is_several_layers_here_is_refused_by_name_and_noted_in_a_pattern() {
        InvalidOptionException e =
                refused(LLAMA, new LayerSelection.Exact(List.of("layer.0.self_attn.layernorm_linear_qkv")));
        assertTrue(e.what().contains("no layer is called 'layer.0.self_attn.layernorm_linear_qkv'"), e.what());
        assertTrue(
                e.fix()
                        .contains("model.layers.0.self_attn.q_proj, model.layers.0.self_attn.k_proj,"
                                + " model.layers.0.self_attn.v_proj"),
                e.fix());
        DebugPlan plan = plan(LLAMA, section("one", new LayerSelection.Regex("layers\\.0\\..*(fc1|fc2)")));
        assertEquals(1, plan.layers().size());
        assertEquals(1, plan.notes().size());
        assertTrue(
                plan.notes().getFirst().contains("model.layers.0.mlp.gate_proj, model.layers.0.mlp.up_proj"),
                plan.notes().getFirst());
    }

    @Test
    void a_name_that_is_no_layers_is_refused_with_the_nearest() {
        InvalidOptionException e = refused(LLAMA, new LayerSelection.Exact(List.of("model.layers.0.mlp.upproj")));
        assertTrue(e.fix().contains("did you mean model.layers.0.mlp.up_proj"), e.fix());
        assertTrue(
                refused(LLAMA, new LayerSelection.Regex("encoder")).what().contains("selects none of the 15 layers"));
    }

    @Test
    void a_layer_is_in_one_section_only() {
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> plan(
                        LLAMA,
                        section("all", new LayerSelection.Kinds(List.of(), List.of())),
                        section("head", new LayerSelection.Exact(List.of("lm_head")))));
        assertTrue(e.what().contains("layer 'lm_head' is in two sections, 'all' and 'head'"), e.what());
    }

    @Test
    void a_name_with_two_numbers_has_no_layer_number() {
        List<LinearModule> experts = List.of(new LinearModule("/e", "e", "layers.0.experts.3.w1", true));
        assertTrue(refused(experts, new LayerSelection.Kinds(List.of(new StepGate.Range(0, 0)), List.of()))
                .what()
                .contains("cannot tell which number"));
        List<LinearModule> fc = List.of(new LinearModule("/e", "e", "layers.4.fc1", true));
        assertEquals(
                List.of("layers.4.fc1"),
                selected(fc, new LayerSelection.Kinds(List.of(new StepGate.Range(4, 4)), List.of())));
    }
}
