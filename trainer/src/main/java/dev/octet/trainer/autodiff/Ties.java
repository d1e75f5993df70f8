package dev.octet.trainer.autodiff;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * Parameters that are one and that an export wrote as two: the embedding and its transposed copy for the output layer of GPT-2 and BERT.
 * Trained as they are, they drift apart.
 */
public final class Ties {
    private Ties() {}

    /**
     * Two parameters of the same elements.
     *
     * @param original the one that stays: an embedding where one of them is
     * @param transposed whether the copy is the original's transpose
     */
    public record Tie(String original, String copy, boolean transposed) {}

    /** Matrices that equal another one, or its transpose, to the bit. Matrices of one number all over are equal by accident. */
    public static List<Tie> find(Graph graph) {
        List<Parameter> matrices = Parameters.of(graph).all().stream()
                .filter(p -> p.tensor().shape().rank() == 2 && !isUniform(p.tensor()))
                .toList();
        List<Tie> ties = new ArrayList<>();
        Set<String> copies = new HashSet<>();
        for (int i = 0; i < matrices.size(); i++) {
            for (int j = i + 1; j < matrices.size(); j++) {
                boolean firstStays = matrices.get(j).use() != Parameter.Use.EMBEDDING;
                Parameter a = matrices.get(firstStays ? i : j);
                Parameter b = matrices.get(firstStays ? j : i);
                if (copies.contains(a.name()) || copies.contains(b.name())) {
                    continue;
                }
                boolean equal = isEqual(a.tensor(), b.tensor());
                if (equal || isTranspose(a.tensor(), b.tensor())) {
                    copies.add(b.name());
                    ties.add(new Tie(a.name(), b.name(), !equal));
                }
            }
        }
        return ties;
    }

    private static boolean isUniform(Tensor t) {
        long width = t.dtype().bits() / 8;
        MemorySegment bytes = t.bytes();
        return MemorySegment.mismatch(bytes, 0, bytes.byteSize() - width, bytes, width, bytes.byteSize()) < 0;
    }

    private static boolean isEqual(Tensor a, Tensor b) {
        return a.dtype() == b.dtype()
                && a.shape().equals(b.shape())
                && a.bytes().mismatch(b.bytes()) < 0;
    }

    /** Unrelated weights differ within the first elements, so this is cheap. */
    private static boolean isTranspose(Tensor a, Tensor b) {
        long rows = a.shape().dim(0);
        long columns = a.shape().dim(1);
        if (a.dtype() != b.dtype() || !b.shape().equals(Shape.of(columns, rows))) {
            return false;
        }
        long width = a.dtype().bits() / 8;
        for (long r = 0; r < rows; r++) {
            for (long c = 0; c < columns; c++) {
                long atA = (r * columns + c) * width;
                long atB = (c * rows + r) * width;
                if (MemorySegment.mismatch(a.bytes(), atA, atA + width, b.bytes(), atB, atB + width) >= 0) {
                    return false;
                }
            }
        }
        return true;
    }

    /** The model with every copy gone: its readers read the original, turned over where need be. */
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
            Node turned = n.withInputs(inputs)
                    .with(new Attribute("transB", new Attribute.OfInt(1 - n.intAttribute("transB", 0))));
            edit.replace(n, turned);
            return;
        }
        String value = edit.freshName(tie.original() + "_transposed");
        inputs.replaceAll(i -> i.equals(tie.copy()) ? value : i);
        Attribute perm = new Attribute("perm", new Attribute.OfInts(List.of(1L, 0L)));
        edit.insertBefore(n, Node.of(value, "Transpose", List.of(tie.original()), List.of(value), perm));
        edit.replace(n, n.withInputs(inputs));
    }
}
