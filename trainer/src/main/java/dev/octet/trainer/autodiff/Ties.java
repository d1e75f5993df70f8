package dev.octet.trainer.autodiff;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Tied parameters that an export wrote twice, like the embedding of GPT-2 and BERT and its transposed copy in the output layer. Trained
 * separately, the two drift apart.
 */
public final class Ties {
    private Ties() {}

    /**
     * Two parameters with equal elements.
     *
     * @param original the parameter that stays: the embedding, if one of the two is an embedding
     * @param transposed whether the copy is the original's transpose
     * @param embedding whether the original is an embedding
     */
    public record Tie(String original, String copy, boolean transposed, boolean embedding) {}

    /** Which ties are restored to one parameter. */
    public enum Restored {
        /** Only ties with an embedding: the models tie these, and exports break the tie. */
        EMBEDDINGS,
        /** All ties. Layers that were initialised as copies of other layers then stay copies. */
        ALL,
        /** No ties. */
        NONE;

        /** The ties of {@code found} to restore. */
        public List<Tie> of(List<Tie> found) {
            return found.stream()
                    .filter(t -> this == ALL || (this == EMBEDDINGS && t.embedding()))
                    .toList();
        }
    }

    /**
     * Finds matrices that are bitwise equal to another matrix or to its transpose. Matrices filled with a single number are skipped: they
     * are equal by chance. A copy never serves as the original of another tie.
     */
    public static List<Tie> find(Graph graph) {
        List<Parameter> matrices = Parameters.of(graph).all().stream()
                .filter(p -> p.tensor().shape().rank() == 2 && !p.tensor().isUniform())
                .sorted(Comparator.comparing(p -> p.use() != Parameter.Use.EMBEDDING)) // stable: embeddings first
                .toList();
        List<Tie> ties = new ArrayList<>();
        Set<String> copies = new HashSet<>();
        for (int i = 0; i < matrices.size(); i++) {
            Parameter a = matrices.get(i);
            for (int j = i + 1; j < matrices.size() && !copies.contains(a.name()); j++) {
                Parameter b = matrices.get(j);
                boolean equal = isEqual(a.tensor(), b.tensor());
                if (!copies.contains(b.name()) && (equal || a.tensor().isTransposeOf(b.tensor()))) {
                    copies.add(b.name());
                    ties.add(new Tie(a.name(), b.name(), !equal, a.use() == Parameter.Use.EMBEDDING));
                }
            }
        }
        return ties;
    }

    private static boolean isEqual(Tensor a, Tensor b) {
        return a.dtype() == b.dtype()
                && a.shape().equals(b.shape())
                && a.bytes().mismatch(b.bytes()) < 0;
    }

    /**
     * Weights under the exported model's names, from those of the model with restored ties: each copy gets the elements of its original.
     *
     * @param weights by name; ties without their original among them are skipped
     * @param arena owns the transposed copies
     */
    public static Map<String, Tensor> withCopies(Map<String, Tensor> weights, List<Tie> ties, Arena arena) {
        Map<String, Tensor> all = new LinkedHashMap<>(weights);
        for (Tie tie : ties) {
            Tensor original = weights.get(tie.original());
            if (original != null) {
                Tensor copy = tie.transposed() ? original.transposed(arena) : original;
                all.put(tie.copy(), copy.withName(tie.copy()));
            }
        }
        return all;
    }

    /** The model without the copies: their consumers read the original, transposed where necessary. */
    public static GraphModel restore(GraphModel model, List<Tie> ties) {
        if (ties.isEmpty()) {
            return model;
        }
        GraphEdit edit = GraphEdit.of(model.graph());
        for (Tie tie : ties) {
            if (tie.transposed()) {
                edit.consumers(tie.copy()).forEach(n -> readTransposed(edit, n, tie));
            } else {
                edit.redirect(tie.copy(), tie.original());
            }
            edit.removeInitializer(tie.copy());
        }
        return model.withGraph(edit.build());
    }

    private static void readTransposed(GraphEdit edit, Node n, Tie tie) {
        boolean flips = (n.isOctet("Linear") || n.is("Gemm")) && n.input(1).equals(tie.copy());
        List<String> inputs = new ArrayList<>(n.inputs());
        if (flips) {
            inputs.set(1, tie.original());
            Node rewired = n.withInputs(inputs)
                    .with(new Attribute("transB", new Attribute.OfInt(1 - n.intAttribute("transB", 0))));
            edit.replace(n, rewired);
            return;
        }
        String value = edit.freshName(tie.original() + "_transposed");
        inputs.replaceAll(i -> i.equals(tie.copy()) ? value : i);
        Attribute perm = new Attribute("perm", new Attribute.OfInts(List.of(1L, 0L)));
        edit.insertBefore(n, Node.of(value, "Transpose", List.of(tie.original()), List.of(value), perm));
        edit.replace(n, n.withInputs(inputs));
    }
}
