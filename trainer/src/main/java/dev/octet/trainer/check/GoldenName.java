package dev.octet.trainer.check;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.autodiff.Parameter;
import dev.octet.trainer.autodiff.Parameters;
import java.util.List;

/**
 * The graph's counterpart of an expected gradient in a file.
 *
 * @param value name of the input or parameter in the graph
 * @param shape of the value in the graph
 * @param expected shape in the file
 * @param transposed whether the graph holds the transposed matrix: exporters store the weight of a Linear as [in, out]
 */
record GoldenName(String value, Shape shape, Shape expected, boolean transposed) {
    /**
     * Looks for an input or parameter with the wanted name, then for the only parameter whose name ends with a dot and that name: exports
     * wrap models in modules.
     *
     * @throws InvalidDataException when there is no such value or more than one, or its shape does not match
     */
    static GoldenName find(Graph graph, Parameters parameters, String name, String wanted, Tensor file) {
        for (ValueInfo v : graph.inputs()) {
            if (v.name().equals(wanted) && v.type() instanceof TensorType t && t.dims() != null) {
                long[] dims = t.dims().stream()
                        .mapToLong(d -> d.size() == null ? -1 : d.size())
                        .toArray();
                return fitting(name, new GoldenName(wanted, Shape.of(dims), file.shape(), false));
            }
        }
        List<String> found = parameters.names().contains(wanted)
                ? List.of(wanted)
                : parameters.names().stream()
                        .filter(p -> p.endsWith("." + wanted))
                        .toList();
        if (found.size() != 1) {
            throw new InvalidDataException(
                    "grad." + name + " matches " + (found.isEmpty() ? "no" : "more than one") + " input or parameter",
                    "tensor 'grad." + name + "'",
                    "use the graph's name");
        }
        Parameter p = parameters.get(found.getFirst());
        return fitting(name, new GoldenName(p.name(), p.tensor().shape(), file.shape(), isTurnedOver(graph, p.name())));
    }

    /** Whether the original matrix is [out, in] and the graph's constant [in, out]. */
    private static boolean isTurnedOver(Graph graph, String parameter) {
        Initializer c = graph.initializers().get(parameter);
        return c != null
                && Initializer.OUT_IN.equals(c.metadata().get(Initializer.ORIGINAL_LAYOUT))
                && graph.nodes().stream().anyMatch(n -> readsAsStored(n, parameter));
    }

    private static boolean readsAsStored(Node n, String weight) {
        return n.isOctet("Linear") && n.input(1).equals(weight) && n.intAttribute("transB", 0) == 0;
    }

    private static GoldenName fitting(String name, GoldenName found) {
        Shape own = found.transposed()
                ? Shape.of(found.shape().dim(1), found.shape().dim(0))
                : found.shape();
        boolean same = own.equals(found.expected())
                || (own.elementCount() == 1 && found.expected().elementCount() == 1)
                || found.isExpanded();
        if (!same) {
            throw new InvalidDataException(
                    "grad." + name + " is " + found.expected() + ", but '" + found.value() + "' in the graph is " + own,
                    "tensor 'grad." + name + "'",
                    "compute the expectations with the same model");
        }
        return found;
    }

    /** Whether the graph repeats the parameter along axes that have one element in the file: some exporters write class tokens this way. */
    private boolean isExpanded() {
        if (transposed || shape.rank() != expected.rank()) {
            return false;
        }
        for (int i = 0; i < shape.rank(); i++) {
            if (expected.dim(i) != shape.dim(i) && expected.dim(i) != 1) {
                return false;
            }
        }
        return true;
    }

    /** The computed gradient in the file's layout. */
    double[] asExpected(double[] gradient) {
        if (transposed) {
            int rows = Math.toIntExact(shape.dim(0));
            int columns = Math.toIntExact(shape.dim(1));
            double[] transposed = new double[gradient.length];
            for (int i = 0; i < gradient.length; i++) {
                transposed[i % columns * rows + i / columns] = gradient[i];
            }
            return transposed;
        }
        return expected.elementCount() == gradient.length ? gradient : summed(gradient);
    }

    /** Sums over the axes along which the graph repeats the parameter. */
    private double[] summed(double[] gradient) {
        double[] sums = new double[Math.toIntExact(expected.elementCount())];
        for (int i = 0; i < gradient.length; i++) {
            long rest = i;
            long at = 0;
            long stride = 1;
            for (int axis = shape.rank() - 1; axis >= 0; axis--) {
                long index = rest % shape.dim(axis);
                rest /= shape.dim(axis);
                at += expected.dim(axis) == 1 ? 0 : index * stride;
                stride *= expected.dim(axis);
            }
            sums[(int) at] += gradient[i];
        }
        return sums;
    }
}
