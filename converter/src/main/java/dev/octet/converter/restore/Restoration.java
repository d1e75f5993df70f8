package dev.octet.converter.restore;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.hf.Blueprint;
import dev.octet.converter.hf.GraphTraits;
import dev.octet.converter.hf.HfImporter;
import dev.octet.formats.error.UnsupportedModelException;
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
    /** Configurations that are tried by names, each of which is run. */
    private static final int MAX_TRIED = 8;

    public Restoration {
        unseen = List.copyOf(unseen);
        absent = List.copyOf(absent);
    }

    /**
     * The restorations that a graph may have, the likeliest first, and why there are no others.
     *
     * @param byStructure the one whose blueprint the graph matches node by node; empty where none does
     * @param byNames those whose parameters all are among the named constants, where none matches
     * @param reason where the graph departs from the nearest blueprint
     */
    public record Found(Optional<Restoration> byStructure, List<Restoration> byNames, String reason) {
        public Found {
            byNames = List.copyOf(byNames);
        }
    }

    /**
     * Finds architectures and configurations whose graphs match.
     *
     * @param fixed canonical, with the sizes of {@link OnnxInputs#sizes} and attention as one operator
     * @param named the graph's constants by the names of parameters
     * @param given the configuration, if known
     * @param window number of positions in the attention window, if limited
     * @param notes why attention was not fused, for messages
     * @param where the file, for messages
     * @param arena owns transposed tensors
     * @throws dev.octet.formats.error.UnsupportedModelException when the graph's traits are those of no architecture
     */
    public static Found of(
            GraphModel fixed,
            NamedConstants named,
            Map<Long, Tensor> stored,
            Optional<ObjectNode> given,
            OptionalInt window,
            List<String> notes,
            String where,
            Arena arena) {
        FixedGraph graph = FixedGraph.of(fixed);
        List<ObjectNode> candidates =
                given.map(List::of).orElseGet(() -> candidates(graph, named, window, notes, where));
        List<GraphMatcher.Mismatch> mismatches = new ArrayList<>();
        List<Restoration> byNames = new ArrayList<>();
        for (ObjectNode config : candidates) {
            Blueprint blueprint = HfImporter.blueprint(config, graph.outputs().size() > 1, where);
            switch (GraphMatcher.of(graph, blueprint, stored)) {
                case GraphMatcher.Mismatch m -> {
                    NamedConstants.Bound bound = named.bindings(blueprint, arena);
                    mismatches.add(new GraphMatcher.Mismatch(
                            "as " + blueprint.modelClass() + ": " + m.reason() + bound.gaps(), m.matched()));
                    if (byNames.size() < MAX_TRIED && bound.missing().isEmpty()) {
                        GraphMatcher.outputs(graph, blueprint)
                                .map(o -> new GraphMatcher.Match(bound.bindings(), o))
                                .map(match -> restoration(config, given.isPresent(), blueprint, match, arena))
                                .ifPresent(byNames::add);
                    }
                }
                case GraphMatcher.Match m -> {
                    return new Found(
                            Optional.of(restoration(config, given.isPresent(), blueprint, m, arena)), List.of(), "");
                }
            }
        }
        String reason = mismatches.stream()
                .max(Comparator.comparingInt(GraphMatcher.Mismatch::matched))
                .orElseThrow()
                .reason();
        return new Found(Optional.empty(), byNames, reason);
    }

    /** The refusal of a graph that is none of a known architecture. */
    public static UnsupportedModelException refused(String reason, String where) {
        return Refusal.of(reason, where);
    }

    private static List<ObjectNode> candidates(
            FixedGraph graph, NamedConstants named, OptionalInt window, List<String> notes, String where) {
        GraphTraits traits = TraitsReader.of(graph, named.shapes(), window, notes, where);
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
