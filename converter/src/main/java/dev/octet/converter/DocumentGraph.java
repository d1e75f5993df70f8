package dev.octet.converter;

import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * A decoder for several texts in one row that do not see each other. {@code attention_mask} then numbers the texts, I64 [batch, sequence], 0
 * for padding: a query attends to keys of its own number. Positions come from a new input {@code position_ids}, I64 [batch, sequence], for
 * learned embeddings and rotary angles. With one text in a row, numbered 1, and positions 0, 1, 2... it computes what the graph did, but for
 * padding in front of a text, which there is none of.
 *
 * <p>It is for graphs as Octet builds them of Hugging Face checkpoints: the mask cast to BOOL and spread to [batch, 1, 1, sequence], positions a
 * Range as long as {@code input_ids}.
 */
public final class DocumentGraph {
    private static final String MASK = "attention_mask";
    private static final String IDS = "input_ids";
    private static final String POSITIONS = "position_ids";

    private final GraphModel model;
    private final GraphEdit edit;

    private DocumentGraph(GraphModel model) {
        this.model = model;
        this.edit = GraphEdit.of(model.graph());
    }

    /**
     * Rewrites a canonical graph.
     *
     * @throws UnsupportedModelException when its mask or positions are made otherwise
     */
    public static GraphModel of(GraphModel canonical) {
        return new DocumentGraph(canonical).rewritten();
    }

    private GraphModel rewritten() {
        if (!edit.isInput(MASK) || edit.isInput(POSITIONS)) {
            throw unsupported("takes "
                    + model.graph().requiredInputs().stream()
                            .map(ValueInfo::name)
                            .toList());
        }
        List<Node> spread = edit.consumers(MASK).stream()
                .filter(n -> n.is("Cast") && n.intAttribute("to", 0) == DType.BOOL.onnxId())
                .flatMap(n -> edit.consumers(n.output(0)).stream())
                .filter(n -> n.is("Unsqueeze") && adds(n, 1, 2))
                .toList();
        if (spread.size() != 1 || edit.consumers(MASK).size() != 1) {
            throw unsupported("uses attention_mask in its own way");
        }
        List<ValueInfo> inputs = new ArrayList<>(edit.inputs());
        inputs.add(new ValueInfo(POSITIONS, new TensorType(DType.I64, List.of(Dim.of("batch"), Dim.of("sequence")))));
        for (ValueInfo input : edit.inputs()) {
            if (input.name().equals(IDS) && input.type() instanceof TensorType t) {
                inputs.set(inputs.size() - 1, new ValueInfo(POSITIONS, new TensorType(DType.I64, t.dims())));
            }
        }
        edit.setInputs(inputs);
        if (position() == 0) {
            throw unsupported("makes its positions in its own way");
        }
        numberTexts(spread.getFirst());
        edit.removeUnreachable();
        return model.withGraph(edit.build());
    }

    /** Number of places where positions enter, which now read the input. */
    private int position() {
        int places = 0;
        for (Node n : edit.nodes()) {
            if (n.is("RotaryEmbedding") && n.inputs().size() > 3 && isRow(n.input(3))) {
                edit.replace(n, reading(n, 3));
                places++;
            } else if (n.is("Gather") && n.intAttribute("axis", 0) == 0 && isRange(n.input(1))) {
                edit.replace(n, reading(n, 1));
                places++;
            }
        }
        return places;
    }

    private static Node reading(Node n, int input) {
        List<String> inputs = new ArrayList<>(n.inputs());
        inputs.set(input, POSITIONS);
        return n.withInputs(inputs);
    }

    /** Whether a value is the positions of one row, expanded to all. */
    private boolean isRow(String value) {
        Node expand = edit.producer(value);
        Node row = expand != null && expand.is("Expand") ? edit.producer(expand.input(0)) : null;
        return row != null && row.is("Unsqueeze") && isRange(row.input(0));
    }

    /** Whether a value is 0, 1, 2... as long as the tokens. */
    private boolean isRange(String value) {
        Node range = edit.producer(value);
        Node length = range != null && range.is("Range") ? edit.producer(range.input(1)) : null;
        Node shape = length != null && length.is("Gather") ? edit.producer(length.input(0)) : null;
        return shape != null && shape.is("Shape") && shape.input(0).equals(IDS);
    }

    private boolean adds(Node unsqueeze, long... axes) {
        @Nullable Initializer constant = edit.initializer(unsqueeze.input(1));
        return constant != null
                && Arrays.equals(constant.tensor().map(Tensor::toLongs).orElse(new long[0]), axes);
    }

    /** Queries and keys of one number, BOOL [batch, 1, sequence, sequence]. */
    private void numberTexts(Node spread) {
        String keyAxes = spread.input(1);
        String queryAxes = edit.freshName("axes_1_3");
        Tensor like = Objects.requireNonNull(edit.initializer(keyAxes)).tensor().orElseThrow();
        Tensor axes = Tensor.allocate(Arena.ofAuto(), new TensorSpec(queryAxes, like.dtype(), Shape.of(2)));
        axes.bytes().set(Tensor.I64_LE, 0, 1);
        axes.bytes().set(Tensor.I64_LE, 8, 3);
        edit.putInitializer(Initializer.of(axes));
        String keys = edit.freshName("/documents/keys");
        String queries = edit.freshName("/documents/queries");
        edit.replace(
                spread,
                Node.of(keys, "Unsqueeze", "", List.of(MASK, keyAxes), List.of(keys)),
                Node.of(queries, "Unsqueeze", "", List.of(MASK, queryAxes), List.of(queries)),
                Node.of("/documents/Equal", "Equal", "", List.of(queries, keys), List.of(spread.output(0))));
    }

    private UnsupportedModelException unsupported(String what) {
        return new UnsupportedModelException(
                "texts packed into one row cannot be kept apart in this model, which " + what,
                "graph '" + model.graph().name() + "'; data: {pack: documents}",
                "train a decoder from its Hugging Face folder, or leave pack out, or let texts see those before them:"
                        + " pack: true");
    }
}
