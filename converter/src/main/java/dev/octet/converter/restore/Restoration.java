package dev.octet.converter.restore;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.hf.Blueprint;
import dev.octet.converter.hf.GraphTraits;
import dev.octet.converter.hf.HfImporter;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;

/**
 * A graph turned into a Hugging Face checkpoint, not yet proved.
 *
 * @param config {@code config.json}
 * @param tensors by their names in the checkpoint; valid as long as the graph's model and the arena
 * @param outputs of the graph, by their names in the checkpoint's graph
 * @param unseen keys of the configuration that the graph does not show
 * @param absent parameters that checkpoints of this class may have but the graph lacks, for example the pooler of a model without its
 *     output
 */
public record Restoration(
        ObjectNode config,
        String modelClass,
        Map<String, Tensor> tensors,
        Map<String, String> outputs,
        List<String> unseen,
        List<String> absent) {
    public Restoration {
        unseen = List.copyOf(unseen);
        absent = List.copyOf(absent);
    }

    /**
     * Finds an architecture and a configuration whose graph matches.
     *
     * @param fixed canonical, with the sizes of {@link OnnxInputs#sizes} and attention as one operator
     * @param given the configuration, if known
     * @param stored constants in the file's narrower type, by the address of the widened elements in the graph
     * @param window number of positions in the attention window, if limited
     * @param notes why attention was not fused, for messages
     * @param where the file, for messages
     * @param arena owns transposed tensors
     * @throws dev.octet.formats.error.UnsupportedModelException when none matches; gives the reason of the nearest
     */
    public static Restoration of(
            GraphModel fixed,
            Map<Long, Tensor> stored,
            Optional<ObjectNode> given,
            OptionalInt window,
            List<String> notes,
            String where,
            Arena arena) {
        FixedGraph graph = FixedGraph.of(fixed);
        List<ObjectNode> candidates = given.map(List::of).orElseGet(() -> candidates(graph, window, notes, where));
        List<GraphMatcher.Mismatch> mismatches = new ArrayList<>();
        for (ObjectNode config : candidates) {
            Blueprint blueprint = HfImporter.blueprint(config, graph.outputs().size() > 1, where);
            switch (GraphMatcher.of(graph, blueprint, stored)) {
                case GraphMatcher.Mismatch m ->
                    mismatches.add(
                            new GraphMatcher.Mismatch("as " + blueprint.modelClass() + ": " + m.reason(), m.matched()));
                case GraphMatcher.Match m -> {
                    return restoration(config, given.isPresent(), blueprint, m, arena);
                }
            }
        }
        throw Refusal.of(
                mismatches.stream()
                        .max(Comparator.comparingInt(GraphMatcher.Mismatch::matched))
                        .orElseThrow()
                        .reason(),
                where);
    }

    private static List<ObjectNode> candidates(FixedGraph graph, OptionalInt window, List<String> notes, String where) {
        GraphTraits traits = TraitsReader.of(graph, window, notes, where);
        List<ObjectNode> found = HfImporter.candidates(traits);
        if (found.isEmpty()) {
            throw Refusal.of("its traits fit none: " + seen(traits), where);
        }
        return found;
    }

    private static String seen(GraphTraits t) {
        return t.layers() + " layers of " + t.hidden() + ", " + t.heads() + " heads, "
                + (t.rmsNorm() ? "RMSNorm" : "LayerNorm") + ", tables of " + t.vocabulary() + " tokens, "
                + t.positions() + " positions and " + t.types() + " types"
                + ", frequencies of rotary positions " + t.frequencies();
    }

    private static Restoration restoration(
            ObjectNode config, boolean given, Blueprint blueprint, GraphMatcher.Match match, Arena arena) {
        Map<String, Tensor> tensors = RestoredTensors.of(blueprint, match.bindings(), arena);
        ObjectNode full = config.deepCopy();
        if (!given) {
            full.put("dtype", torchName(commonType(tensors)));
        }
        return new Restoration(
                full,
                blueprint.modelClass(),
                tensors,
                match.outputs(),
                given ? List.of() : blueprint.unseen(),
                blueprint.absent().stream().map(blueprint::fileName).toList());
    }

    private static DType commonType(Map<String, Tensor> tensors) {
        Map<DType, Long> elements = new HashMap<>();
        tensors.values().forEach(t -> elements.merge(t.dtype(), t.shape().elementCount(), Long::sum));
        return elements.entrySet().stream()
                .max(Map.Entry.comparingByValue())
                .map(Map.Entry::getKey)
                .orElse(DType.F32);
    }

    private static String torchName(DType type) {
        return switch (type) {
            case F16 -> "float16";
            case BF16 -> "bfloat16";
            default -> "float32";
        };
    }
}
