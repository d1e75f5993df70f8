package dev.octet.trainer.adapter;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.peft.LoraConfig;
import dev.octet.formats.peft.PeftConfig;
import dev.octet.formats.peft.PeftKeys;
import dev.octet.formats.peft.PeftRole;
import dev.octet.formats.peft.PeftType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** The tensors and the configuration of an adapter that was trained, in PEFT's form. */
final class PeftFiles {
    private final AdaptedGraph adapted;
    private final Map<String, Tensor> values;
    private final Arena arena;

    PeftFiles(AdaptedGraph adapted, Map<String, Tensor> values, Arena arena) {
        this.adapted = adapted;
        this.values = values;
        this.arena = arena;
    }

    AdaptedGraph.Files files() {
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        adapted.keys().forEach((name, key) -> {
            Tensor value = values.get(name);
            if (value != null) {
                tensors.put(key, value);
            }
        });
        if (adapted.subtracted().isEmpty()) {
            return new AdaptedGraph.Files(adapted.config(), tensors);
        }
        adapted.subtracted().forEach((module, pair) -> widen(module, pair, tensors));
        return new AdaptedGraph.Files(twiceTheRank(adapted.config()), tensors);
    }

    private void widen(String module, List<String> pair, Map<String, Tensor> tensors) {
        Tensor a0 = frozen(pair.get(0));
        Tensor b0 = frozen(pair.get(1));
        int r = Math.toIntExact(a0.shape().dim(0));
        int in = Math.toIntExact(a0.shape().dim(1));
        int out = Math.toIntExact(b0.shape().dim(0));
        float[] a = new float[2 * r * in];
        System.arraycopy(trained(module, PeftRole.LORA_A), 0, a, 0, r * in);
        System.arraycopy(a0.toFloats(), 0, a, r * in, r * in);
        float[] bTrained = trained(module, PeftRole.LORA_B);
        float[] bStart = b0.toFloats();
        float[] b = new float[2 * r * out];
        for (int o = 0; o < out; o++) {
            for (int k = 0; k < r; k++) {
                b[o * 2 * r + k] = bTrained[o * r + k];
                b[o * 2 * r + r + k] = -bStart[o * r + k];
            }
        }
        put(tensors, PeftKeys.key(module, PeftRole.LORA_A), Shape.of(2L * r, in), a);
        put(tensors, PeftKeys.key(module, PeftRole.LORA_B), Shape.of(out, 2L * r), b);
    }

    private Tensor frozen(String constant) {
        return Objects.requireNonNull(adapted.model().graph().initializers().get(constant), constant)
                .tensor()
                .orElseThrow();
    }

    private float[] trained(String module, PeftRole role) {
        String key = PeftKeys.key(module, role);
        return Objects.requireNonNull(values.get(key), key).toFloats();
    }

    private void put(Map<String, Tensor> tensors, String key, Shape shape, float[] elements) {
        tensors.put(key, Tensor.ofFloats(arena, key, shape, elements));
    }

    /** Doubled ranks, and alphas that leave each scaling as it was. */
    private static PeftConfig twiceTheRank(PeftConfig config) {
        if (config.type() != PeftType.LORA) {
            throw new IllegalStateException(config.type() + " subtracts nothing");
        }
        LoraConfig lora = config.lora();
        double more = lora.useRslora() ? Math.sqrt(2) : 2;
        ObjectNode json = config.json();
        json.put("r", 2 * lora.r());
        json.put("lora_alpha", lora.loraAlpha() * more);
        ObjectNode ranks = json.putObject("rank_pattern");
        lora.rankPattern().forEach((name, r) -> ranks.put(name, 2 * r));
        ObjectNode alphas = json.putObject("alpha_pattern");
        lora.alphaPattern().forEach((name, alpha) -> alphas.put(name, alpha * more));
        json.put("init_lora_weights", true);
        return PeftConfig.of(json, config.where());
    }
}
