package dev.octet.converter.hf;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Activations by the names of transformers' ACT2FN (transformers/activations.py). */
final class Activations {
    /** Adds the nodes for one activation of {@code x}; the output's name. */
    @FunctionalInterface
    private interface Emitter {
        String emit(GraphDraft draft, String path, String x);
    }

    private static final Map<String, Emitter> ALL = new TreeMap<>(Map.ofEntries(
            Map.entry("gelu", (d, p, x) -> d.gelu(p, x, "none")),
            Map.entry("gelu_python", (d, p, x) -> d.gelu(p, x, "none")),
            Map.entry("gelu_new", (d, p, x) -> d.gelu(p, x, "tanh")),
            Map.entry("gelu_fast", (d, p, x) -> d.gelu(p, x, "tanh")),
            Map.entry("gelu_pytorch_tanh", (d, p, x) -> d.gelu(p, x, "tanh")),
            Map.entry("quick_gelu", Activations::quickGelu),
            Map.entry("relu", (d, p, x) -> d.op(p, "Relu", List.of(x))),
            Map.entry("tanh", (d, p, x) -> d.op(p, "Tanh", List.of(x))),
            Map.entry("sigmoid", (d, p, x) -> d.op(p, "Sigmoid", List.of(x))),
            Map.entry("silu", Activations::silu),
            Map.entry("swish", Activations::silu)));

    private Activations() {}

    private static String silu(GraphDraft draft, String path, String x) {
        return draft.op(path + "/Mul", "Mul", List.of(x, draft.op(path + "/Sigmoid", "Sigmoid", List.of(x))));
    }

    private static String quickGelu(GraphDraft draft, String path, String x) {
        String steep = draft.scaled(path + "/quick", x, "quick_gelu", 1.702f);
        return draft.op(path + "/Mul", "Mul", List.of(x, draft.op(path + "/Sigmoid", "Sigmoid", List.of(steep))));
    }

    /**
     * The activation that a key of the configuration names.
     *
     * @param fallback where the key is absent
     * @throws dev.octet.formats.error.UnsupportedModelException for an unknown one
     */
    static String of(HfConfig config, String key, String fallback) {
        return known(config, key, config.text(fallback, key));
    }

    /** The same name, which a key of the configuration has somewhere in its text. */
    static String known(HfConfig config, String key, String name) {
        if (!ALL.containsKey(name)) {
            throw config.unsupported(key, name, String.join(", ", ALL.keySet()));
        }
        return name;
    }

    /** Adds the nodes of a known activation; the output's name. */
    static String emit(GraphDraft draft, String path, String name, String x) {
        Emitter emitter = ALL.get(name);
        if (emitter == null) {
            throw new IllegalArgumentException(name);
        }
        return emitter.emit(draft, path, x);
    }
}
