package dev.octet.formats.megatron;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Modules of Megatron as those of transformers, by the names of megatron/core/transformer and of ShardedObject.unique_key. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class MegatronNamesTest {
    @ParameterizedTest
    @CsvSource({
        "decoder.layers.7.self_attention.linear_proj, model.layers.7.self_attn.o_proj",
        "decoder.layers.7.mlp.linear_fc1, model.layers.7.mlp.gate_proj model.layers.7.mlp.up_proj",
        "decoder.layers.mlp.linear_fc2/shard_3_32, model.layers.3.mlp.down_proj",
        "decoder.layers.mlp.linear_fc2/shard_3.0_32.1, model.layers.3.mlp.down_proj",
        "decoder.layers.0.self_attention.linear_qkv/shard_0_1, model.layers.0.self_attn.q_proj"
                + " model.layers.0.self_attn.k_proj model.layers.0.self_attn.v_proj",
        "decoder.layers.mlp.linear_fc2, ''",
        "decoder.layers.2.mlp.experts.linear_fc1, ''",
        "output_layer, ''"
    })
    void a_state_is_of_the_linears_that_its_module_becomes(String module, String linears) {
        assertEquals(linears.isEmpty() ? List.of() : List.of(linears.split(" ")), MegatronNames.linears(module, false));
    }

    @ParameterizedTest
    @CsvSource({
        "decoder.layers.1.self_attention.linear_qkv, transformer.h.1.attn.c_attn",
        "decoder.layers.mlp.linear_fc1/shard_1_2, transformer.h.1.mlp.c_fc"
    })
    void gpt2_has_other_names(String module, String linear) {
        assertEquals(List.of(linear), MegatronNames.linears(module, true));
    }
}
