package dev.octet.converter.restore;

import dev.octet.converter.rule.ModulePath;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * Constants of which only the module that reads them is known. An exporter that folds something into a parameter, as positions that are all looked up or the
 * exponential of a scale, leaves a constant without its name.
 *
 * @param reads what nodes of ONNX read, in the order of the graph
 */
record FoldedConstants(List<Read> reads) {
    /**
     * A constant where a node reads it.
     *
     * @param module of the node; empty for the outermost
     * @param op of the node
     * @param name of the constant, as parameters have names
     */
    record Read(String module, String op, String name, Tensor tensor) {}

    FoldedConstants {
        reads = List.copyOf(reads);
    }

    /** @param name makes the name that a parameter has of the name that a constant has in the file */
    static FoldedConstants of(Graph graph, UnaryOperator<String> name) {
        List<Read> reads = new ArrayList<>();
        for (Node n : graph.nodes()) {
            for (String input : n.domain().isEmpty() ? n.inputs() : List.<String>of()) {
                Initializer i = graph.initializers().get(input);
                Tensor t = i == null ? null : i.tensor().orElse(null);
                if (i != null && t != null && t.dtype().isFloat()) {
                    String original = i.metadata().getOrDefault(Initializer.ORIGINAL_NAME, input);
                    reads.add(new Read(ModulePath.moduleOf(n), n.opType(), name.apply(original), t));
                }
            }
        }
        return new FoldedConstants(reads);
    }

    /** Those that have none of these names. */
    FoldedConstants without(Set<String> names) {
        return new FoldedConstants(
                reads.stream().filter(r -> !names.contains(r.name())).toList());
    }

    /**
     * The one constant of a parameter's size that its module, or the module around that, reads with the operator that the blueprint reads it with. Of an exponential
     * the logarithm, which is the parameter up to rounding.
     *
     * @param around what the file's modules have before the blueprint's, with its dot
     */
    Optional<Tensor> find(String parameter, Shape wanted, Graph blueprint, String around) {
        Node reader = reader(blueprint, parameter);
        if (reader == null) {
            return Optional.empty();
        }
        Optional<Tensor> found = only(parameter, wanted, reader.opType(), around);
        Node behind = found.isEmpty() && reader.is("Exp") ? reader(blueprint, reader.output()) : null;
        return behind == null
                ? found
                : only(parameter, wanted, behind.opType(), around).map(FoldedConstants::logarithm);
    }

    private Optional<Tensor> only(String parameter, Shape wanted, String op, String around) {
        String owner = outer(parameter);
        for (String module : List.of(owner, outer(owner))) {
            String place = around + module;
            String path = place.endsWith(".") ? place.substring(0, place.length() - 1) : place;
            List<Tensor> found = reads.stream()
                    .filter(r -> r.module().equals(path) && isLike(r.op(), op))
                    .map(Read::tensor)
                    .filter(t -> withoutOnes(t.shape()).equals(withoutOnes(wanted)))
                    .distinct()
                    .toList();
            if (found.size() == 1) {
                return Optional.of(found.getFirst());
            }
        }
        return Optional.empty();
    }

    private static @Nullable Node reader(Graph graph, String value) {
        return graph.nodes().stream()
                .filter(n -> n.inputs().contains(value))
                .findFirst()
                .orElse(null);
    }

    private static boolean isLike(String a, String b) {
        return a.equals(b) || (isRepetition(a) && isRepetition(b));
    }

    private static boolean isRepetition(String op) {
        return op.equals("Expand") || op.equals("Tile");
    }

    /** The name of what is around a module or has a parameter; empty at the outermost. */
    private static String outer(String name) {
        return name.substring(0, Math.max(0, name.lastIndexOf('.')));
    }

    private static List<Long> withoutOnes(Shape shape) {
        return Arrays.stream(shape.toArray()).filter(d -> d != 1).boxed().toList();
    }

    private static Tensor logarithm(Tensor exponential) {
        float[] values = exponential.toFloats();
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) Math.log(values[i]);
        }
        return Tensor.ofFloats(Arena.ofAuto(), exponential.name(), exponential.shape(), values);
    }
}
