package dev.octet.trainer.adapter;

import static java.util.Objects.requireNonNull;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.peft.PeftConfig;
import dev.octet.formats.peft.PeftKeys;
import dev.octet.formats.peft.PeftRole;
import dev.octet.formats.peft.PeftType;
import dev.octet.formats.peft.PromptConfig;
import dev.octet.formats.tensor.Shape;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.IntStream;

/**
 * Prompt tuning (Lester et al., arXiv:2104.08691) and P-tuning put virtual tokens in front of a sample's embeddings; prefix tuning (Li and Liang, arXiv:2101.00190) puts
 * virtual keys and values in front of those of every layer. Shapes, order and initial values are those of PEFT 0.21.
 */
final class Prompts {
    private static final String KEY = PeftKeys.key("", PeftRole.PROMPT);
    private static final String MASK = "attention_mask";
    /** A score whose exponential is zero in any float type; finite, so that no difference of two is undefined. */
    static final float HIDDEN = -1e30f;

    /** What positions are computed with. */
    private static final Set<String> POSITIONAL = Set.of(
            "Gather",
            "Range",
            "Unsqueeze",
            "Squeeze",
            "Cast",
            "Mul",
            "MatMul",
            "Concat",
            "Cos",
            "Sin",
            "Expand",
            "Add");

    private final AdapterEdit adapter;
    private final PeftConfig config;
    private final PromptConfig prompt;
    private final List<Long> text;
    private final VirtualTokens tokens;

    /** @param text tokens of {@code prompt_tuning_init_text} */
    Prompts(AdapterEdit adapter, PeftConfig config, List<Long> text) {
        this.adapter = adapter;
        this.config = config;
        this.prompt = config.prompt();
        this.text = text;
        this.tokens = new VirtualTokens(adapter, prompt.virtualTokens());
    }

    /** Changes the graph; returns the configuration with the sizes of the model. */
    PeftConfig apply() {
        return config.type() == PeftType.PREFIX_TUNING ? inFrontOfKeys() : inFrontOfTokens();
    }

    /** Method and number of virtual tokens in a few words. */
    static String title(PeftConfig config) {
        String method = switch (config.type()) {
            case PROMPT_TUNING -> "prompt tuning";
            case P_TUNING -> "P-tuning";
            default -> "prefix tuning";
        };
        return method + ", " + config.prompt().virtualTokens() + " virtual tokens";
    }

    /** Virtual tokens in front of the embeddings; returns the configuration with the sizes of the model. */
    private PeftConfig inFrontOfTokens() {
        int count = prompt.virtualTokens();
        Node lookup = tokens.embedding();
        String table = lookup.input(0);
        long width = adapter.shape(table).dim(1);
        tokens.extendMask();
        tokens.extendTypesAndPositions();
        tokens.extendShapes(lookup);
        String rows = config.type() == PeftType.P_TUNING && !adapter.continues(KEY)
                ? encoded(
                        new PromptEncoder(adapter, tokens).pTuning(prompt, width, hidden(width)),
                        Shape.of(count, width))
                : adapter.parameter(KEY, Shape.of(count, width), beginning(table));
        String virtual = tokens.op("Gather", "octet.prompt", List.of(rows, tokens.numbers()), VirtualTokens.axis(0));
        AdapterEdit.Behind behind = adapter.behind(lookup);
        behind.result("octet.prompt.tokens", "Concat", List.of(virtual, behind.output()), VirtualTokens.axis(1));
        tokens.openOutputs();
        adapter.virtualTokens(count);
        tokens.finish();
        return withSizes(width, attentions());
    }

    private List<Node> attentions() {
        return adapter.graph().nodes().stream().filter(n -> n.is("Attention")).toList();
    }

    private long hidden(long width) {
        return prompt.encoderHiddenSize().orElse(Math.toIntExact(width));
    }

    /** Rows that come out of an encoder: what is saved in place of its weights. */
    private String encoded(String rows, Shape shape) {
        adapter.computes(KEY, rows, shape);
        return rows;
    }

    private PeftConfig withSizes(long width, List<Node> attentions) {
        ObjectNode json = config.json();
        json.put("token_dim", width);
        json.put("num_transformer_submodules", 1);
        if (!attentions.isEmpty()) {
            String heads = config.type() == PeftType.PREFIX_TUNING ? "kv_num_heads" : "q_num_heads";
            json.put("num_layers", attentions.size());
            json.put("num_attention_heads", attentions.getFirst().intAttribute(heads, 1));
        }
        if (config.type() != PeftType.PROMPT_TUNING) {
            json.put("encoder_hidden_size", hidden(width));
        }
        return PeftConfig.of(json, config.where());
    }

    /** How the virtual tokens of prompt tuning begin: at random, or at tokens of the vocabulary. */
    private InitialValues.Law beginning(String table) {
        return switch (prompt.promptTuningInit()) {
            case "SAMPLE_VOCAB" ->
                (shape, random) -> {
                    long rows = adapter.shape(table).dim(0);
                    return rows(
                            table,
                            IntStream.range(0, (int) shape.dim(0))
                                    .mapToLong(_ -> random.nextLong(rows))
                                    .toArray());
                };
            case "TEXT" ->
                (shape, _) -> {
                    if (text.isEmpty()) {
                        throw new InvalidOptionException(
                                "the text that the prompt begins with has no tokens",
                                "adapter: {prompt_tuning_init_text: ...}",
                                "give a text of at least one token");
                    }
                    // as often as it takes, then cut
                    return rows(
                            table,
                            IntStream.range(0, (int) shape.dim(0))
                                    .mapToLong(i -> text.get(i % text.size()))
                                    .toArray());
                };
            default -> InitialValues.normal(1);
        };
    }

    /** Rows of a table, one after the other. */
    private float[] rows(String table, long... numbers) {
        Initializer stored = adapter.constant(table);
        long count = adapter.shape(table).dim(0);
        int width = Math.toIntExact(adapter.shape(table).dim(1));
        float[] rows = new float[numbers.length * width];
        float[] row = new float[width];
        for (int i = 0; i < numbers.length; i++) {
            if (numbers[i] < 0 || numbers[i] >= count) {
                throw new InvalidOptionException(
                        "token " + numbers[i] + " of the text is not among the model's " + count,
                        "adapter: {prompt_tuning_init_text: ...}",
                        "use the model's own tokenizer");
            }
            BaseWeight.read(stored, numbers[i], row);
            System.arraycopy(row, 0, rows, i * width, width);
        }
        return rows;
    }

    /** Virtual keys and values in front of those of every layer; returns the configuration with the sizes of the model. */
    private PeftConfig inFrontOfKeys() {
        List<Node> attentions = attentions();
        if (attentions.isEmpty()) {
            throw VirtualTokens.refusal(
                    "the graph has attention in single operators, whose keys cannot be made longer");
        }
        int count = prompt.virtualTokens();
        long width = keys(attentions);
        long columns = width * 2 * attentions.size();
        Set<String> masks = maskValues(attentions);
        Node lookup = tokens.embedding();
        tokens.extendMask();
        shiftPositions(tokens.extendShapes(lookup), masks);
        boolean zero = prompt.initWeights().filter("zero"::equals).isPresent();
        String rows = prompt.prefixProjection() && !adapter.continues(KEY)
                ? encoded(
                        new PromptEncoder(adapter, tokens).prefix(count, width, hidden(width), columns, zero),
                        Shape.of(count, columns))
                : adapter.parameter(
                        KEY, Shape.of(count, columns), zero ? InitialValues.ZEROS : InitialValues.normal(1));
        String all = tokens.op("Gather", "octet.prefix", List.of(rows, tokens.numbers()), VirtualTokens.axis(0));
        List<String> parts = tokens.split("octet.prefix.layer", all, 2 * attentions.size());
        String causal =
                attentions.stream().anyMatch(a -> a.intAttribute("is_causal", 0) != 0) ? tokens.causalBias() : "";
        for (int layer = 0; layer < attentions.size(); layer++) {
            putInFront(attentions.get(layer), parts.get(2 * layer), parts.get(2 * layer + 1), causal);
        }
        tokens.finish();
        return withSizes(width, attentions);
    }

    /** Width of the keys of all layers. */
    private long keys(List<Node> attentions) {
        long width = 0;
        for (Node attention : attentions) {
            if (attention.intAttribute("kv_num_heads", 0) == 0) {
                throw VirtualTokens.refusal("node " + attention.id() + " has heads as an axis of their own");
            }
            long key = adapter.widthOf(attention.input(1))
                    .orElseThrow(() ->
                            VirtualTokens.refusal("the width of the keys of node " + attention.id() + " is not known"));
            long value = adapter.widthOf(attention.input(2)).orElse(key);
            if ((width != 0 && key != width) || key != value) {
                throw VirtualTokens.refusal("node " + attention.id() + " has keys of width " + key + " and values of "
                        + value + ", another layer " + width + "; one prefix needs equal ones");
            }
            width = key;
        }
        return width;
    }

    /**
     * Values that masks of attention are made of, when these are nothing but the mask of tokens.
     *
     * @throws dev.octet.formats.error.UnsupportedModelException for other masks, such as those of sliding windows
     */
    private Set<String> maskValues(List<Node> attentions) {
        Set<String> values = new HashSet<>();
        for (Node attention : attentions) {
            String mask = attention.hasInput(3) ? attention.input(3) : MASK;
            while (!mask.equals(MASK)) {
                Node made = adapter.graph().producer(mask);
                if (made == null || !(made.is("Cast") || made.is("Unsqueeze"))) {
                    throw VirtualTokens.refusal("the mask of node " + attention.id()
                            + " is made of more than " + MASK + ", by " + (made == null ? "a constant" : made.id())
                            + ": a sliding window, for example");
                }
                values.add(mask);
                mask = made.input(0);
            }
        }
        return values;
    }

    /**
     * Positions count the virtual tokens, which have none of their own in the output: what is made of them loses its first rows where it meets the tokens.
     *
     * @param shapes nodes that see the longer sequence
     */
    private void shiftPositions(List<Node> shapes, Set<String> masks) {
        Deque<Node> open = new ArrayDeque<>(shapes);
        Set<String> seen = new HashSet<>();
        List<Node> tables = new ArrayList<>();
        List<Node> rotations = new ArrayList<>();
        while (!open.isEmpty()) {
            for (String value : open.removeFirst().outputs()) {
                for (Node reader : adapter.graph().consumers(value)) {
                    if (!seen.add(reader.id())) {
                        continue;
                    }
                    if (reader.is("RotaryEmbedding") && !reader.input(0).equals(value)) {
                        rotations.add(reader);
                    } else if (reader.is("Gather") && reader.input(1).equals(value)) {
                        tables.add(reader);
                    } else if (POSITIONAL.contains(reader.opType())
                            && reader.outputs().stream().noneMatch(masks::contains)) {
                        open.add(reader);
                    } else {
                        throw VirtualTokens.refusal("node " + reader.id() + " (" + reader.opType()
                                + ") is made for the length of the tokens, and how it would be for a prefix is"
                                + " not known");
                    }
                }
            }
        }
        tables.forEach(this::cutTable);
        rotations.forEach(this::cutRotation);
    }

    /** Rows of a table of positions, without those of the virtual tokens. */
    private void cutTable(Node lookup) {
        AdapterEdit.Behind behind = adapter.behind(lookup);
        behind.result("octet.prefix.positions", "Slice", tokens.fromThere(behind.output(), -2));
    }

    private void cutRotation(Node rotation) {
        List<String> inputs = new ArrayList<>(rotation.inputs());
        if (rotation.hasInput(3)) {
            inputs.set(3, tokens.slicedBefore(rotation, inputs.get(3), -1));
        } else {
            inputs.set(1, tokens.slicedBefore(rotation, inputs.get(1), -2));
            inputs.set(2, tokens.slicedBefore(rotation, inputs.get(2), -2));
        }
        adapter.graph()
                .replace(requireNonNull(adapter.graph().producer(rotation.output())), rotation.withInputs(inputs));
    }

    private void putInFront(Node attention, String keys, String values, String causal) {
        List<String> inputs = new ArrayList<>(attention.inputs());
        inputs.set(
                1,
                before(attention, "octet.prefix.keys", "Concat", List.of(keys, inputs.get(1)), VirtualTokens.axis(1)));
        inputs.set(
                2,
                before(
                        attention,
                        "octet.prefix.values",
                        "Concat",
                        List.of(values, inputs.get(2)),
                        VirtualTokens.axis(1)));
        Node changed = attention;
        if (attention.intAttribute("is_causal", 0) != 0) {
            changed = attention.without("is_causal");
            String bias = causal;
            if (attention.hasInput(3)) {
                String hidden = tokens.floats("octet.prefix.hidden", Shape.SCALAR, HIDDEN);
                bias = before(attention, "octet.prefix.mask", "Where", List.of(inputs.get(3), causal, hidden));
                inputs.set(3, bias);
            } else {
                while (inputs.size() < 4) {
                    inputs.add("");
                }
                inputs.set(3, bias);
            }
        }
        adapter.graph().replace(attention, changed.withInputs(inputs));
    }

    private String before(Node anchor, String name, String opType, List<String> inputs, Attribute... attributes) {
        String fresh = adapter.graph().freshName(name);
        adapter.graph().insertBefore(anchor, Node.of(fresh, opType, "", inputs, List.of(fresh), attributes));
        return fresh;
    }
}
