package dev.octet.trainer.data;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * Which tokens a model knows: those below the number of rows of the table that it looks them up in.
 *
 * @param table name of the embedding
 * @param rows of it
 */
public record Vocabulary(String table, long rows) {
    private static final Set<String> KEEPING_ELEMENTS =
            Set.of("Cast", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze");

    /** The smallest table that a graph looks rows up in by the elements of an input; empty when there is none. */
    static Optional<Vocabulary> of(Graph graph, String input) {
        Map<String, Node> makers = new HashMap<>();
        graph.nodes().forEach(n -> n.outputs().forEach(o -> makers.put(o, n)));
        Vocabulary smallest = null;
        for (Node n : graph.nodes()) {
            if (n.is("Gather")
                    && n.intAttribute("axis", 0) == 0
                    && origin(n.input(1), makers).equals(input)) {
                String table = origin(n.input(0), makers);
                Initializer constant = graph.initializers().get(table);
                Shape shape = constant == null
                        ? Shape.SCALAR
                        : constant.tensor().map(Tensor::shape).orElse(Shape.SCALAR);
                if (shape.rank() == 2 && (smallest == null || shape.dim(0) < smallest.rows)) {
                    smallest = new Vocabulary(table, shape.dim(0));
                }
            }
        }
        return Optional.ofNullable(smallest);
    }

    /** What a value has the elements of, perhaps in another number type or shape. */
    private static String origin(String value, Map<String, Node> makers) {
        String name = value;
        for (Node n = makers.get(name);
                n != null && n.domain().isEmpty() && KEEPING_ELEMENTS.contains(n.opType());
                n = makers.get(name)) {
            name = n.input(0);
        }
        return name;
    }

    /**
     * Refuses tokens that the model does not know.
     *
     * @param where their place
     * @throws InvalidDataException when one is not below {@link #rows}
     */
    void require(long[] tokens, String where) {
        for (long token : tokens) {
            require(token, where);
        }
    }

    /** Refuses a token that the model does not know; throws as the other. */
    void require(long token, String where) {
        if (token >= rows) {
            throw new InvalidDataException(
                    "there is a token " + token + ", the model's embedding '" + table + "' has " + rows + " rows",
                    where,
                    "make the tokens with the tokenizer that belongs to the model");
        }
    }
}
