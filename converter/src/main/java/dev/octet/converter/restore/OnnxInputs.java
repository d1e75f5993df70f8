package dev.octet.converter.restore;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.hf.HfImporter;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
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

    private static final String PAST = "past_key_values";
    private static final String PRESENT = "present";

    private static final Set<String> KNOWN = Set.of(TOKENS, MASK, TYPES, POSITIONS, PIXELS, FEATURES, TARGETS);
    private static final long BATCH = 2;
    /** Differs from usual sizes of a model, so that dimensions are not confused. */
    private static final long SEQUENCE = 7;

    private OnnxInputs() {}

    /** Whether an input is the keys or values of tokens before: {@code past_key_values.0.key}. Here there are none. */
    static boolean isPast(String name) {
        return name.startsWith(PAST);
    }

    /** The graph without the outputs that are its cache, {@code present.0.key}, which no architecture has. */
    public static GraphModel withoutCache(GraphModel model) {
        List<ValueInfo> kept = model.graph().outputs().stream()
                .filter(o -> !o.name().startsWith(PRESENT))
                .toList();
        if (kept.isEmpty() || kept.size() == model.graph().outputs().size()) {
            return model;
        }
        GraphEdit edit = GraphEdit.of(model.graph());
        edit.setOutputs(kept);
        edit.removeUnreachable();
        return model.withGraph(edit.build());
    }

    /**
     * A number for each symbol of the inputs' shapes, for analysing the graph.
     *
     * @param config of the checkpoint, if known, which says what size images have; without it they are square, with as many patches as the graph adds positions to
     * @param where the file, for messages
     * @throws UnsupportedModelException when there are other inputs, or nothing says what size images have
     */
    public static Map<String, Long> sizes(Graph graph, Optional<ObjectNode> config, String where) {
        List<String> others = graph.requiredInputs().stream()
                .map(ValueInfo::name)
                .filter(n -> !KNOWN.contains(n) && !isPast(n))
                .toList();
        if (!others.isEmpty()) {
            throw Refusal.of(
                    "it has inputs " + String.join(", ", others) + ", not only "
                            + String.join(", ", KNOWN.stream().sorted().toList()) + " and " + PAST,
                    where);
        }
        Map<String, Long> sizes = new LinkedHashMap<>();
        for (ValueInfo input : graph.requiredInputs()) {
            List<Dim> dims = dims(input);
            for (int i = 0; i < dims.size(); i++) {
                Dim d = dims.get(i);
                if (!d.isKnown() && d.symbol() != null) {
                    sizes.putIfAbsent(d.symbol(), size(graph, input.name(), i, d, config, where));
                }
            }
        }
        return sizes;
    }

    private static long size(Graph graph, String input, int axis, Dim open, Optional<ObjectNode> config, String where) {
        if (axis == 0) {
            return BATCH;
        }
        if (!input.equals(PIXELS)) {
            return isPast(input) ? 0 : SEQUENCE;
        }
        Optional<Long> size = config.isPresent() ? configured(config.get(), axis, where) : square(graph, axis);
        return size.orElseThrow(() -> config.isPresent()
                ? Refusal.of("it has images, and the configuration is of a model without", where)
                : new UnsupportedModelException(
                        "the size of the images is open in the file: dimension " + axis + " of " + PIXELS + " is '"
                                + open.symbol() + "'",
                        where,
                        "give the model's config.json with --config, which says it"));
    }

    private static Optional<Long> configured(ObjectNode config, int axis, String where) {
        return HfImporter.blueprint(config, false, where).graph().inputs().stream()
                .filter(i -> i.name().equals(PIXELS))
                .map(OnnxInputs::dims)
                .filter(dims -> axis < dims.size())
                .map(dims -> dims.get(axis).size())
                .filter(Objects::nonNull)
                .findFirst();
    }

    /** Of an image [batch, channels, height, width] whose patches a convolution [hidden, channels, height, width] makes tokens of. */
    private static Optional<Long> square(Graph graph, int axis) {
        Shape kernel = graph.nodes().stream()
                .filter(n -> n.is("Conv") && n.input(0).equals(PIXELS))
                .flatMap(n -> constant(graph, n.input(1)).stream())
                .filter(s -> s.rank() == 4)
                .findFirst()
                .orElse(null);
        if (kernel == null || axis >= kernel.rank()) {
            return Optional.empty();
        }
        return graph.nodes().stream()
                .filter(n -> n.is("Add"))
                .flatMap(n -> n.inputs().stream())
                .flatMap(i -> constant(graph, i).stream())
                .filter(s -> s.rank() == 3 && s.dim(0) == 1 && s.dim(2) == kernel.dim(0))
                .map(positions -> side(positions.dim(1)))
                .filter(side -> side > 0)
                .map(side -> axis == 1 ? kernel.dim(1) : side * kernel.dim(axis))
                .findFirst();
    }

    private static Optional<Shape> constant(Graph graph, String value) {
        return Optional.ofNullable(graph.initializers().get(value))
                .flatMap(Initializer::tensor)
                .map(Tensor::shape);
    }

    /** Patches along one side of a square, of one token each and perhaps a token of the class before them; 0 where that makes no square. */
    private static long side(long tokens) {
        for (long patches = tokens; patches >= tokens - 1; patches--) {
            long side = Math.round(Math.sqrt((double) patches));
            if (side * side == patches) {
                return side;
            }
        }
        return 0;
    }

    /** Dimensions of an input; empty where it has none. */
    static List<Dim> dims(ValueInfo input) {
        return input.type() instanceof TensorType t && t.dims() != null ? t.dims() : List.of();
    }
}
