package dev.octet.converter.restore;

import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The inputs of transformers exports, and numbers for their symbolic sizes. */
public final class OnnxInputs {
    static final String TOKENS = "input_ids";
    static final String MASK = "attention_mask";
    static final String TYPES = "token_type_ids";
    static final String POSITIONS = "position_ids";
    static final String PIXELS = "pixel_values";

    static final String FEATURES = "input_features";
    static final String TARGETS = "decoder_input_ids";

    private static final Set<String> KNOWN = Set.of(TOKENS, MASK, TYPES, POSITIONS, PIXELS, FEATURES, TARGETS);
    private static final long BATCH = 2;
    /** Differs from usual sizes of a model, so that dimensions are not confused. */
    private static final long SEQUENCE = 7;

    private OnnxInputs() {}

    /**
     * A number for each symbol of the inputs' shapes, for analysing the graph.
     *
     * @param where the file, for messages
     * @throws UnsupportedModelException when there are other inputs, or the size of images is a symbol
     */
    public static Map<String, Long> sizes(Graph graph, String where) {
        List<String> others = graph.requiredInputs().stream()
                .map(ValueInfo::name)
                .filter(n -> !KNOWN.contains(n))
                .toList();
        if (!others.isEmpty()) {
            throw Refusal.of(
                    "it has inputs " + String.join(", ", others) + ", not only "
                            + String.join(", ", KNOWN.stream().sorted().toList())
                            + " (export a model with a cache of keys and values without the cache)",
                    where);
        }
        Map<String, Long> sizes = new LinkedHashMap<>();
        for (ValueInfo input : graph.requiredInputs()) {
            if (!(input.type() instanceof TensorType t) || t.dims() == null) {
                continue;
            }
            for (int i = 0; i < t.dims().size(); i++) {
                Dim d = t.dims().get(i);
                if (d.isKnown() || d.symbol() == null) {
                    continue;
                }
                if (i > 0 && input.name().equals(PIXELS)) {
                    throw new UnsupportedModelException(
                            "the size of the images is open in the file: dimension " + i + " of " + PIXELS + " is '"
                                    + d.symbol() + "'",
                            where,
                            "export the model with the image size of its training; its positions depend on it");
                }
                sizes.putIfAbsent(d.symbol(), i == 0 ? BATCH : SEQUENCE);
            }
        }
        return sizes;
    }
}
