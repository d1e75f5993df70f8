package dev.octet.pipeline.run;

import dev.octet.converter.checkpoint.MergeMeasure;
import dev.octet.converter.merge.AdapterDeltas;
import dev.octet.converter.merge.BaseWeights;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.merge.WeightDelta;
import dev.octet.trainer.autodiff.Parameter;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.precision.LinearModule;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;

/**
 * The constants of a canonical graph with adapters in them, as F32.
 *
 * @param weights those that the adapters change, by their names in the graph
 * @param measures what was added to each, in the order of the graph; a sum in F32 keeps all of it
 * @param notes what the user should know
 */
public record MergedConstants(Map<String, Tensor> weights, List<MergeMeasure> measures, List<String> notes) {
    private static final String WEIGHT = ".weight";
    private static final String BIAS = ".bias";

    public MergedConstants {
        weights = Map.copyOf(weights);
        measures = List.copyOf(measures);
        notes = List.copyOf(notes);
    }

    /**
     * Puts adapters into the weights of a graph, or takes them out.
     *
     * @param model canonical, its weights in floats
     * @param where the model, for messages
     * @param arena owns the new weights
     * @throws dev.octet.formats.error.OctetException as {@link AdapterDeltas#of} does
     */
    public static MergedConstants of(
            GraphModel model,
            String where,
            List<AdapterDeltas.Weighted> adapters,
            AdapterDeltas.Direction direction,
            Arena arena) {
        Map<String, Parameter> parameters = new LinkedHashMap<>();
        Parameters.of(model.graph()).all().forEach(p -> parameters.put(p.name(), p));
        AdapterDeltas deltas = AdapterDeltas.of(base(model.graph(), parameters, where), adapters, direction);
        Map<String, Tensor> merged = new LinkedHashMap<>();
        List<MergeMeasure> measures = new ArrayList<>();
        for (String name : parameters.keySet()) {
            if (deltas.names().contains(name)) {
                Tensor weight = copy(Parameters.master(Objects.requireNonNull(parameters.get(name)), arena), arena);
                measures.add(apply(deltas.delta(name), weight));
                merged.put(name, weight);
            }
        }
        return new MergedConstants(merged, measures, deltas.notes());
    }

    private static Tensor copy(Tensor tensor, Arena arena) {
        Tensor copy = Tensor.allocate(arena, tensor.spec());
        copy.bytes().copyFrom(tensor.bytes());
        return copy;
    }

    private static MergeMeasure apply(WeightDelta delta, Tensor weight) {
        float[] row = new float[delta.cols()];
        double squares = 0;
        boolean changed = false;
        for (long r = 0; r < delta.rows(); r++) {
            long at = r * row.length;
            MemorySegment.copy(weight.bytes(), Tensor.F32_LE, at * Float.BYTES, row, 0, row.length);
            float[] before = row.clone();
            delta.apply(r, row);
            for (int i = 0; i < row.length; i++) {
                double d = (double) row[i] - before[i];
                squares += d * d;
                changed |= d != 0;
            }
            MemorySegment.copy(row, 0, weight.bytes(), Tensor.F32_LE, at * Float.BYTES, row.length);
        }
        double norm = Math.sqrt(squares);
        return new MergeMeasure(
                weight.name(), "F32", weight.shape().elementCount(), norm, 0, norm == 0 ? Double.NaN : 1, changed);
    }

    /** The constants under the paths of their modules: those of Linears by the names that exporters left, all others by their own. */
    private static BaseWeights base(Graph graph, Map<String, Parameter> parameters, String where) {
        Map<String, Shape> shapes = new LinkedHashMap<>();
        parameters.forEach((name, p) -> shapes.put(name, p.tensor().shape()));
        Map<String, String> byPath = new LinkedHashMap<>();
        Set<String> inOut = new HashSet<>();
        Map<String, Node> nodes = new LinkedHashMap<>();
        graph.nodes().forEach(n -> nodes.put(n.id(), n));
        for (LinearModule linear : LinearModule.of(graph)) {
            byPath.putIfAbsent(linear.name() + WEIGHT, linear.weight());
            Node node = Objects.requireNonNull(nodes.get(linear.node()));
            if (node.hasInput(2) && parameters.containsKey(node.input(2))) {
                byPath.putIfAbsent(linear.name() + BIAS, node.input(2));
            }
            if (!linear.transB()) {
                inOut.add(linear.weight());
            }
        }
        shapes.keySet().forEach(n -> byPath.put(n, n));
        return new BaseWeights(where, shapes, byPath, name -> rows(parameters, name), inOut::contains);
    }

    private static WeightDelta.Rows rows(Map<String, Parameter> parameters, String name) {
        Tensor weight = Parameters.master(Objects.requireNonNull(parameters.get(name)), Arena.ofAuto());
        return (row, values) -> MemorySegment.copy(
                weight.bytes(), Tensor.F32_LE, row * values.length * Float.BYTES, values, 0, values.length);
    }
}
