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
 * The tokens of a model: those below the number of rows of its embedding.
 *
 * @param table name of the embedding
 * @param rows its number of rows
 */
public record Vocabulary(String table, long rows) {
    private static final Set<String> KEEPING_ELEMENTS =
            Set.of("Cast", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze");

    /** The smallest table in which a graph looks up rows by the elements of an input; empty when there is no such table. */
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

    /** The value behind operators that change only number type or shape. */
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
     * Rejects tokens outside the vocabulary.
     *
     * @param where position of the tokens, for the message
     * @throws InvalidDataException when a token is not below {@link #rows}
     */
    void require(long[] tokens, String where) {
        for (long token : tokens) {
            require(token, where);
        }
    }

    /** Rejects a token that is not below {@link #rows}, with an {@link InvalidDataException}. */
    void require(long token, String where) {
        if (token >= rows) {
            throw new InvalidDataException(
                    "token " + token + " is out of range: the model's embedding '" + table + "' has " + rows + " rows",
                    where,
                    "tokenize with the model's own tokenizer");
        }
    }
}
