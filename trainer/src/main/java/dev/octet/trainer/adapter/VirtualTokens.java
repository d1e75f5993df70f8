package dev.octet.trainer.adapter;

import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.stream.LongStream;

/**
 * What prompt tuning, P-tuning and prefix tuning do to a graph of tokens, as PEFT's {@code peft_model.py} does it: the mask of attention gets ones in front, and what
 * counts positions counts the virtual tokens too.
 */
final class VirtualTokens {
    private static final String TOKENS = "input_ids";
    private static final String MASK = "attention_mask";
    private static final String POSITIONS = "position_ids";
    private static final String TYPES = "token_type_ids";

    private final AdapterEdit adapter;
    private final GraphEdit edit;
    private final int count;
    private final String numbers;
    private final String shape;
    private final List<Node> front = new ArrayList<>();

    /**
     * Begins the change.
     *
     * @param count of virtual tokens
     * @throws UnsupportedModelException when the graph does not read tokens, or only so many
     */
    VirtualTokens(AdapterEdit adapter, int count) {
        this.adapter = adapter;
        this.edit = adapter.graph();
        this.count = count;
        requireOpenTokens();
        String sizes = op("Shape", "octet.prompt.sizes", List.of(TOKENS));
        String batch = op(
                "Gather", "octet.prompt.batch", List.of(sizes, longs("octet.prompt.first", Shape.of(1), 0)), axis(0));
        String length = longs("octet.prompt.count", Shape.of(1), count);
        this.shape = op("Concat", "octet.prompt.shape", List.of(batch, length), axis(0));
        this.numbers = op(
                "Expand",
                "octet.prompt.numbers",
                List.of(
                        longs(
                                "octet.prompt.range",
                                Shape.of(1, count),
                                LongStream.range(0, count).toArray()),
                        shape));
    }

    private void requireOpenTokens() {
        ValueInfo tokens = edit.inputs().stream()
                .filter(i -> i.name().equals(TOKENS))
                .findFirst()
                .orElseThrow(() -> refusal("the model has no input " + TOKENS));
        boolean open = tokens.type() instanceof TensorType t
                && t.dims() != null
                && t.dims().size() == 2
                && t.dims().get(1).size() == null;
        if (!open) {
            throw refusal(TOKENS + " has a fixed length, " + tokens.type() + ", so nothing can be put in front");
        }
    }

    /** The refusal of a graph. */
    static UnsupportedModelException refusal(String what) {
        return new UnsupportedModelException(
                what,
                "adapter of virtual tokens",
                "train the model's Hugging Face folder, or use an adapter of its Linears: peft_type: LORA");
    }

    /** Numbers of the virtual tokens for each sample of a batch: [batch, count]. */
    String numbers() {
        return numbers;
    }

    /** Adds a standard operator in front of all others. */
    String op(String opType, String name, List<String> inputs, Attribute... attributes) {
        String fresh = edit.freshName(name);
        front.add(Node.of(fresh, opType, "", inputs, List.of(fresh), attributes));
        return fresh;
    }

    static Attribute axis(long axis) {
        return Attribute.of("axis", axis);
    }

    /** A constant of whole numbers. */
    String longs(String name, Shape of, long... values) {
        String fresh = edit.freshName(name);
        edit.putInitializer(Initializer.of(Tensor.ofLongs(Arena.ofAuto(), fresh, of, values)));
        return fresh;
    }

    /** Puts the virtual tokens' part in front of an input, for all that read it now. */
    private void extend(String input, String inFront) {
        List<Node> readers = edit.consumers(input);
        String longer = op("Concat", input + ".extended", List.of(inFront, input), axis(1));
        for (Node reader : readers) {
            edit.replace(reader, reading(reader, input, longer));
        }
    }

    static Node reading(Node reader, String before, String now) {
        return reader.withInputs(
                reader.inputs().stream().map(i -> i.equals(before) ? now : i).toList());
    }

    /** Extends the mask: all may look at the virtual tokens. */
    void extendMask() {
        if (edit.isInput(MASK)) {
            if (!(edit.type(MASK) instanceof TensorType t)
                    || t.dims() == null
                    || t.dims().size() != 2) {
                throw refusal(MASK + " is not a mask of tokens: " + edit.type(MASK));
            }
            extend(MASK, filled(1, "octet.prompt.mask", t));
        }
    }

    /** Extends types of tokens, by type 0, and positions that are fed. */
    void extendTypesAndPositions() {
        if (edit.isInput(TYPES) && edit.type(TYPES) instanceof TensorType t) {
            extend(TYPES, filled(0, "octet.prompt.types", t));
        }
        if (edit.isInput(POSITIONS)) {
            List<Node> readers = edit.consumers(POSITIONS);
            String later = op(
                    "Add", "octet.prompt.later", List.of(POSITIONS, longs("octet.prompt.shift", Shape.SCALAR, count)));
            String longer = op("Concat", POSITIONS + ".extended", List.of(numbers, later), axis(1));
            readers.forEach(r -> edit.replace(r, reading(r, POSITIONS, longer)));
        }
    }

    private String filled(long value, String name, TensorType like) {
        String all = op("Expand", name, List.of(longs(name + "_value", Shape.of(1, 1), value), shape));
        long type = Objects.requireNonNull(like.dtype()).onnxId();
        return op("Cast", name + "_cast", List.of(all), Attribute.of("to", type));
    }

    /**
     * Makes what asks for the shape of the tokens see the virtual ones, too.
     *
     * @return the nodes that now do
     * @throws UnsupportedModelException when something else reads tokens, apart from {@code embedding}
     */
    List<Node> extendShapes(Node embedding) {
        List<Node> readers = new ArrayList<>(edit.consumers(TOKENS));
        readers.removeIf(r -> r.id().equals(embedding.id()));
        for (Node reader : readers) {
            if (!reader.is("Shape")) {
                throw refusal("node " + reader.id() + " (" + reader.opType()
                        + ") reads the tokens themselves, and virtual tokens have no number");
            }
        }
        if (readers.isEmpty()) {
            return List.of();
        }
        String longer = op("Concat", TOKENS + ".extended", List.of(numbers, TOKENS), axis(1));
        List<Node> changed = new ArrayList<>();
        for (Node reader : readers) {
            Node now = reading(reader, TOKENS, longer);
            edit.replace(reader, now);
            changed.add(now);
        }
        return changed;
    }

    /**
     * The node that looks up the embeddings of tokens.
     *
     * @throws UnsupportedModelException when there is none, or several
     */
    Node embedding() {
        List<Node> found = edit.consumers(TOKENS).stream()
                .filter(n -> n.is("Gather") && n.input(1).equals(TOKENS) && edit.initializer(n.input(0)) != null)
                .toList();
        if (found.size() != 1) {
            throw refusal(found.size() + " tables are looked up by " + TOKENS + ", expected one");
        }
        return found.getFirst();
    }

    /** A float constant. */
    String floats(String name, Shape of, float... values) {
        String fresh = edit.freshName(name);
        edit.putInitializer(Initializer.of(Tensor.ofFloats(Arena.ofAuto(), fresh, of, values)));
        return fresh;
    }

    /** Parts of equal size along the last axis. */
    List<String> split(String name, String x, int parts) {
        List<String> outputs = new ArrayList<>();
        for (int i = 0; i < parts; i++) {
            outputs.add(edit.freshName(name));
        }
        front.add(Node.of(
                edit.freshName(name), "Split", "", List.of(x), outputs, axis(-1), Attribute.of("num_outputs", (long)
                        parts)));
        return outputs;
    }

    /**
     * What is added to the scores of causal attention with virtual keys in front, [tokens, virtual + tokens]: a very negative number where a token would look
     * at a later one.
     */
    String causalBias() {
        String sizes = op("Shape", "octet.prefix.sizes", List.of(TOKENS));
        String length =
                op("Gather", "octet.prefix.length", List.of(sizes, longs("octet.prefix.one", Shape.of(1), 1)), axis(0));
        String virtual = longs("octet.prefix.count", Shape.of(1), count);
        String all = op("Add", "octet.prefix.all", List.of(length, virtual));
        String square = op("Concat", "octet.prefix.square", List.of(length, all), axis(0));
        String hidden = op(
                "Expand",
                "octet.prefix.full",
                List.of(floats("octet.prefix.later", Shape.of(1, 1), Prompts.HIDDEN), square));
        return op(
                "Trilu",
                "octet.prefix.causal",
                List.of(hidden, longs("octet.prefix.diagonal", Shape.SCALAR, count + 1L)),
                Attribute.of("upper", 1L));
    }

    /** Operands of a Slice that leaves the virtual tokens out. */
    List<String> fromThere(String x, long axis) {
        return List.of(
                x,
                longs("octet.prefix.start", Shape.of(1), count),
                longs("octet.prefix.end", Shape.of(1), Long.MAX_VALUE),
                longs("octet.prefix.axis", Shape.of(1), axis));
    }

    /** The value without its virtual tokens, made in front of a node. */
    String slicedBefore(Node anchor, String x, long axis) {
        String fresh = edit.freshName("octet.prefix.positions");
        edit.insertBefore(anchor, Node.of(fresh, "Slice", "", fromThere(x, axis), List.of(fresh)));
        return fresh;
    }

    /** Forgets the lengths of outputs that have become longer. */
    void openOutputs() {
        TensorType tokens = (TensorType) Objects.requireNonNull(edit.type(TOKENS));
        String symbol = Objects.requireNonNull(tokens.dims()).get(1).symbol();
        List<ValueInfo> outputs = new ArrayList<>();
        for (ValueInfo output : edit.outputs()) {
            outputs.add(
                    output.type() instanceof TensorType t && t.dims() != null
                            ? output.withType(new TensorType(
                                    t.dtype(),
                                    t.dims().stream()
                                            .map(d -> symbol != null && symbol.equals(d.symbol()) ? Dim.UNKNOWN : d)
                                            .toList()))
                            : output);
        }
        edit.setOutputs(outputs);
    }

    /** Ends the change. */
    void finish() {
        edit.insertBefore(edit.nodes().getFirst(), front.toArray(Node[]::new));
        adapter.forgetShapes();
    }
}
