package dev.octet.converter.verify;

import java.util.EnumMap;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Which consumers load checkpoints of a layout: those whose demands are checked when nobody says who will read the model. */
final class LayoutReaders {
    /** What the engines call a scale in an fp8 checkpoint without blocks. */
    private static final String OF_ENGINES = "weight_scale";

    /** What transformers calls it. */
    private static final String OF_TRANSFORMERS = "weight_scale_inv";

    private LayoutReaders() {}

    /** Those that load the layout of {@code subject}; all that read checkpoints when none does, so that the findings say why. */
    static Set<Consumer> of(CheckpointSubject subject) {
        Set<Consumer> readers = EnumSet.copyOf(Consumer.OF_CHECKPOINTS);
        readers.removeAll(others(subject).keySet());
        return readers.isEmpty() ? Consumer.OF_CHECKPOINTS : readers;
    }

    /** Those that do not, each with the reason. */
    static Map<Consumer, String> others(CheckpointSubject subject) {
        Map<Consumer, String> others = new EnumMap<>(Consumer.class);
        others.putAll(MethodSupported.refusing(subject));
        QuantSettings settings = subject.settings();
        if (settings.method() == QuantSettings.Method.FP8 && !settings.hasBlocks()) {
            boolean engines = subject.quantized().anyMatch(l -> l.has(OF_ENGINES));
            boolean transformers = subject.quantized().anyMatch(l -> l.has(OF_TRANSFORMERS));
            if (engines && !transformers) {
                others.put(Consumer.TRANSFORMERS, looksFor("transformers", OF_TRANSFORMERS));
            } else if (transformers && !engines) {
                others.put(Consumer.VLLM, looksFor("vLLM", OF_ENGINES));
                others.put(Consumer.SGLANG, looksFor("SGLang", OF_ENGINES));
            }
        }
        return others;
    }

    private static String looksFor(String reader, String scale) {
        return reader + " looks for " + scale + " in fp8 checkpoints without blocks";
    }

    /** A sentence for each consumer left out. */
    static List<String> notes(CheckpointSubject subject, Set<Consumer> asked) {
        return others(subject).entrySet().stream()
                .filter(e -> !asked.contains(e.getKey()))
                .map(e -> "not checked for " + e.getKey().text() + ", which does not load this layout: " + e.getValue()
                        + " (--for " + e.getKey().text() + " checks all the same)")
                .toList();
    }
}
