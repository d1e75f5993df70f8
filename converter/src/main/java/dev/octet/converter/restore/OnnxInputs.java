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

/** Inputs that exports of transformers have, and numbers for their open sizes. */
public final class OnnxInputs {
    static final String TOKENS = "input_ids";
    static final String MASK = "attention_mask";
    static final String TYPES = "token_type_ids";
    static final String POSITIONS = "position_ids";
    static final String PIXELS = "pixel_values";

    private static final Set<String> KNOWN = Set.of(TOKENS, MASK, TYPES, POSITIONS, PIXELS);
    private static final long BATCH = 2;
    /** Unlike any size of a model, so that no dimension is taken for another. */
    private static final long SEQUENCE = 7;

    private OnnxInputs() {}

    /**
     * A number for each symbol of the inputs' shapes, to look at the graph with.
     *
     * @param where the file, for messages
     * @throws UnsupportedModelException when there are inputs of another kind, or images of open size
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
                            + " (an export with a cache of keys and values has to be made without)",
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
                            "export the model with the image size it was made for; its positions depend on it");
                }
                sizes.putIfAbsent(d.symbol(), i == 0 ? BATCH : SEQUENCE);
            }
        }
        return sizes;
    }
}
