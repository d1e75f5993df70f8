package dev.octet.converter.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class LinearModulesTest {
    @TempDir
    Path folder;

    private static ObjectNode config(String architecture) {
        ObjectNode config = JsonNodeFactory.instance.objectNode();
        config.putArray("architectures").add(architecture);
        return config;
    }

    private static LinearModules of(String architecture) {
        return LinearModules.of(config(architecture));
    }

    @ParameterizedTest
    @CsvSource({
        "LlamaForCausalLM, lm_head",
        "Qwen3ForCausalLM, lm_head",
        "Gemma3ForConditionalGeneration, lm_head",
        "GPTNeoXForCausalLM, lm_head",
        "T5ForConditionalGeneration, lm_head",
        "WhisperForConditionalGeneration, proj_out",
        "BertForMaskedLM, cls.predictions.decoder",
        "DistilBertForMaskedLM, vocab_projector",
        "RobertaForMaskedLM, lm_head.decoder",
        "ModernBertForMaskedLM, decoder",
        "AClassOfTomorrow, lm_head"
    })
    void a_tied_head_is_a_Linear_without_a_tensor(String architecture, String head) {
        assertEquals(List.of(head), of(architecture).unstored(Set.of("model.layers.0.mlp.up_proj")));
    }

    @Test
    void a_head_with_a_tensor_is_in_the_checkpoint_under_its_own_or_the_file_s_name() {
        assertEquals(List.of(), of("LlamaForCausalLM").unstored(Set.of("lm_head")));
        assertEquals(List.of(), of("GPTNeoXForCausalLM").unstored(Set.of("embed_out")));
        assertEquals(List.of("lm_head"), of("GPTNeoXForCausalLM").renamed("embed_out"));
    }

    @Test
    void modules_that_transformers_renames_are_known_by_both_names() {
        assertEquals(
                List.of("model.language_model.layers.7.mlp.up_proj"),
                of("Qwen2_5_VLForConditionalGeneration").renamed("model.layers.7.mlp.up_proj"));
        assertEquals(List.of(), of("LlamaForCausalLM").renamed("model.layers.7.mlp.up_proj"));
    }

    @Test
    void modules_are_known_with_and_without_the_prefix_of_the_base_model() {
        LinearModules bert = of("BertForMaskedLM");
        assertEquals(List.of("pooler.dense"), bert.otherNames("bert.pooler.dense", Set.of("bert.pooler.dense")));
        assertEquals(List.of("bert.pooler.dense"), bert.otherNames("pooler.dense", Set.of("pooler.dense")));
    }

    @ParameterizedTest
    @CsvSource({
        "IBertForMaskedLM, ibert.encoder.layer.1.output.dense",
        "ImageGPTForImageClassification, transformer.h.1.attn.c_attn",
        "GraniteMoeForCausalLM, model.layers.0.block_sparse_moe.router.layer"
    })
    void matrices_that_are_no_Linear_in_transformers_are_known(String architecture, String module) {
        assertTrue(of(architecture).isNoLinear(module));
        assertFalse(of("LlamaForCausalLM").isNoLinear(module));
    }

    @Test
    void a_weight_that_several_Linears_have_is_shared() {
        assertTrue(of("ZambaForCausalLM").isShared("model.layers.5.shared_transf.self_attn.q_proj"));
        assertFalse(of("LlamaForCausalLM").isShared("model.layers.5.self_attn.q_proj"));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "encoder.rel_embeddings.weight",
                "deberta.encoder.rel_embeddings.weight",
                "transformer.tokens_embed.weight",
                "visual.pos_embed.weight",
                "encoder.layers.0.self_attn.rel_pos_emb.weight",
                "mask_decoder.mask_tokens.weight",
                "prompt_encoder.point_embed.0.weight",
                "model.embed_tokens_per_layer.weight"
            })
    void tables_are_no_Linears_whatever_they_are_called(String name) {
        assertEquals(TensorRole.EMBEDDING, LinearNames.role(name, Shape.of(64, 64)));
    }

    @Test
    void every_layout_names_a_tied_head_as_not_quantised() throws IOException {
        Path source = folder.resolve("tied");
        String layer = "model.layers.0.mlp.";
        MadeCheckpoint.in(source)
                .noise("model.safetensors", "model.embed_tokens.weight", 1, 64, 128)
                .noise("model.safetensors", layer + "gate_proj.weight", 0.02, 256, 128)
                .noise("model.safetensors", layer + "up_proj.weight", 0.02, 256, 128)
                .noise("model.safetensors", layer + "down_proj.weight", 0.02, 128, 256)
                .write();
        List<String> silent = new ArrayList<>();
        for (Recipe recipe : Recipes.CHECKPOINT) {
            for (Layout layout : Layouts.ALL) {
                LayoutOptions options = LayoutOptions.defaults();
                if (layout.scheme(recipe, options).isEmpty()) {
                    continue;
                }
                Path out = folder.resolve(recipe.name() + "-" + layout.name());
                MadeCheckpoint.run(source, new ConversionRequest.Quantize(recipe, layout, options), out);
                String quantization = MadeCheckpoint.json(out.resolve("config.json"))
                        .path("quantization_config")
                        .toString();
                Path beside = out.resolve("hf_quant_config.json");
                if (!quantization.contains("\"lm_head\"")
                        || (Files.exists(beside) && !Files.readString(beside).contains("\"lm_head\""))) {
                    silent.add(out.getFileName().toString());
                }
            }
        }
        assertEquals(List.of(), silent);
    }
}
