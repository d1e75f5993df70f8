package dev.octet.quant.layout;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.code_intelligence.jazzer.junit.FuzzTest;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;

/**
 * Arbitrary configurations beside tensors of every layout: whatever they say, each tensor is recognised as something, once. How to fuzz:
 * docs/fuzzing.md.
 */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("fuzz")
class LayoutsFuzzTest {
    private static final DType[] TYPES = DType.values();
    private static final String[] PARTS = {
        "weight",
        "weight_packed",
        "weight_scale",
        "weight_scale_inv",
        "weight_scale_2",
        "weight_global_scale",
        "weight_zero_point",
        "input_scale",
        "input_global_scale",
        "scale",
        "k_scale",
        "bias",
        "_extra_state",
        "weight_shape",
        "activation_scaling_factor",
        "weights_scaling_factor"
    };

    /** {@code config.json}, a line of two dashes, {@code hf_quant_config.json}. */
    @FuzzTest(maxDuration = "30m")
    void an_arbitrary_configuration_leaves_every_tensor_recognised_once(byte[] bytes) {
        String text = new String(bytes, StandardCharsets.UTF_8);
        int cut = text.indexOf("\n--\n");
        recognise(
                tensors(),
                json(cut < 0 ? text : text.substring(0, cut)),
                cut < 0 ? null : json(text.substring(cut + 4)));
    }

    /** Lines of eight bytes: a module, a part, a type, a rank and four dimensions. */
    @FuzzTest(maxDuration = "30m")
    void arbitrary_tensors_are_each_recognised_once(byte[] bytes) {
        Map<String, TensorSpec> tensors = new LinkedHashMap<>();
        for (int at = 0; at + 8 <= bytes.length; at += 8) {
            String name = "m" + (bytes[at] & 7) + "." + PARTS[bytes[at + 1] & 15];
            long[] dims = new long[(bytes[at + 3] & 0xFF) % 5];
            for (int i = 0; i < dims.length; i++) {
                dims[i] = bytes[at + 4 + i] & 0xFF;
            }
            DType type = TYPES[(bytes[at + 2] & 0xFF) % TYPES.length];
            if (type != DType.STRING && Shape.of(dims).elementCount() * type.bits() % 8 == 0) {
                tensors.put(name, new TensorSpec(name, type, Shape.of(dims)));
            }
        }
        recognise(tensors, null, null);
        recognise(
                tensors,
                json("{\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[3,2]}}"),
                null);
        recognise(
                tensors,
                json(
                        "{\"quantization_config\":{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\",\"group_size\":16}}"),
                null);
    }

    private static void recognise(
            Map<String, TensorSpec> tensors, @Nullable ObjectNode config, @Nullable ObjectNode quantConfig) {
        StoredCheckpoint stored;
        try {
            stored = Layouts.recognise(Headers.of(tensors, Map.of(), config, quantConfig));
        } catch (OctetException e) {
            throw new AssertionError("recognising refuses nothing", e);
        }
        Set<String> seen = new HashSet<>(stored.plain().keySet());
        stored.others().keySet().forEach(n -> assertTrue(seen.add(n), n));
        stored.weights().values().forEach(w -> assertTrue(seen.add(w.data().name()), w.name()));
        stored.weights().values().forEach(w -> w.tensors().forEach(t -> seen.add(t.name())));
        assertEquals(tensors.keySet(), seen);
    }

    private static @Nullable ObjectNode json(String text) {
        try {
            return ModelConfig.parse(text, "fuzz");
        } catch (OctetException e) {
            return null;
        }
    }

    private static Map<String, TensorSpec> tensors() {
        return new Specs()
                .add("model.embed_tokens.weight", DType.BF16, 64, 256)
                .add("model.layers.0.self_attn.q_proj.weight", DType.F8_E4M3FN, 256, 256)
                .add("model.layers.0.self_attn.q_proj.weight_scale", DType.F32, 256, 1)
                .add("model.layers.0.self_attn.k_proj.weight", DType.F8_E4M3FN, 128, 256)
                .add("model.layers.0.self_attn.k_proj.weight_scale_inv", DType.F32, 1, 2)
                .add("model.layers.0.self_attn.k_proj.k_scale", DType.F32)
                .add("model.layers.0.self_attn.v_proj.weight", DType.F8_E4M3FN, 128, 256)
                .add("model.layers.0.self_attn.v_proj.weight_scale", DType.F32)
                .add("model.layers.0.self_attn.v_proj.input_scale", DType.F32)
                .add("model.layers.0.self_attn.o_proj.weight_packed", DType.U8, 256, 128)
                .add("model.layers.0.self_attn.o_proj.weight_scale", DType.F8_E4M3FN, 256, 16)
                .add("model.layers.0.self_attn.o_proj.weight_global_scale", DType.F32, 1)
                .add("model.layers.0.mlp.up_proj.weight", DType.U8, 512, 128)
                .add("model.layers.0.mlp.up_proj.weight_scale", DType.F8_E4M3FN, 512, 16)
                .add("model.layers.0.mlp.up_proj.weight_scale_2", DType.F32)
                .add("model.layers.0.mlp.gate_proj.weight", DType.F8_E4M3FN, 512, 256)
                .add("model.layers.0.mlp.gate_proj.weight_scale", DType.U8, 512, 8)
                .add("model.layers.0.mlp.down_proj.weight", DType.I8, 256, 512)
                .add("model.layers.0.mlp.down_proj.weight_scale", DType.F32, 256, 1)
                .add("model.layers.0.mlp.down_proj.weight_zero_point", DType.I8, 256, 1)
                .add("model.norm.weight", DType.BF16, 256)
                .tensors();
    }
}
