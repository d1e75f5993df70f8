package dev.octet.converter.inspect;

import dev.octet.converter.inspect.TensorFact.QuantizedWeight;
import dev.octet.converter.inspect.TensorFact.Role;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.layout.ScaleTensor;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.layout.StoredWeight;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** Finds out what each tensor of a model is to the others. */
final class TensorFacts {
    private final Map<String, Role> roles = new HashMap<>();
    private final Map<String, QuantizedWeight> quantized = new HashMap<>();

    private TensorFacts() {}

    /** The tensors of a model in the order of the file. */
    static List<TensorFact> of(
            Collection<TensorSpec> tensors, Optional<GraphModel> graph, @Nullable StoredCheckpoint stored) {
        TensorFacts facts = new TensorFacts();
        graph.map(GraphModel::graph).ifPresent(facts::read);
        if (stored != null) {
            stored.weights().values().forEach(facts::read);
        }
        return tensors.stream().map(facts::of).toList();
    }

    private TensorFact of(TensorSpec spec) {
        return TensorFact.of(spec, roles.getOrDefault(spec.name(), Role.OTHER), quantized.get(spec.name()));
    }

    private void read(StoredWeight weight) {
        List<String> names = new ArrayList<>();
        scale(weight.scale(), names);
        scale(weight.globalScale(), names);
        TensorSpec zeroPoint = weight.zeroPoint();
        if (zeroPoint != null) {
            roles.put(zeroPoint.name(), Role.ZERO_POINT);
            names.add(zeroPoint.name());
        }
        ScaleTensor input = weight.inputScale();
        if (input != null) {
            roles.put(input.name(), Role.INPUT_SCALE);
        }
        roles.put(weight.data().name(), Role.WEIGHT);
        quantized.put(
                weight.data().name(),
                new QuantizedWeight(weight.name(), dims(weight.shape().toArray()), weight.form(), names));
    }

    private void scale(@Nullable ScaleTensor scale, List<String> names) {
        if (scale != null) {
            roles.put(scale.name(), Role.SCALE);
            names.add(scale.name());
        }
    }

    private void read(Graph graph) {
        QuantizedConstants.of(graph).values().forEach(c -> {
            List<String> names = c.scaleNames();
            roles.put(c.name(), Role.WEIGHT);
            roles.put(names.getFirst(), Role.SCALE);
            names.stream().skip(1).forEach(zero -> roles.put(zero, Role.ZERO_POINT));
            quantized.put(
                    c.name(),
                    new QuantizedWeight(c.name(), dims(c.codes().shape().toArray()), c.form(), names));
        });
        for (Node node : graph.nodes()) {
            switch (node.opType()) {
                case "QuantizeLinear", "DequantizeLinear" ->
                    scale(node, 1, constant(graph, node.input(0)).isPresent() ? Role.SCALE : Role.INPUT_SCALE);
                case "QLinearMatMul", "QLinearConv" -> {
                    scale(node, 1, Role.INPUT_SCALE);
                    scale(node, 6, Role.INPUT_SCALE);
                }
                default -> {}
            }
        }
    }

    /** A scale, and the zero point behind it. */
    private void scale(Node node, int input, Role role) {
        roles.putIfAbsent(node.input(input), role);
        roles.putIfAbsent(node.input(input + 1), Role.ZERO_POINT);
    }

    private static Optional<Tensor> constant(Graph graph, String name) {
        return Optional.ofNullable(graph.initializers().get(name)).flatMap(Initializer::tensor);
    }

    private static List<Long> dims(long[] dims) {
        return Arrays.stream(dims).boxed().toList();
    }

    /**
     * The numbers that make up the model: quantised weights count as many as they have, not as their codes are packed; scales, zero points,
     * integers and single numbers are left out.
     */
    static long parameters(List<TensorFact> all) {
        return all.stream().mapToLong(TensorFacts::parameters).sum();
    }

    private static long parameters(TensorFact fact) {
        if (fact.quantized() != null) {
            return fact.quantized().elements();
        }
        boolean counts = fact.role().equals("other")
                && fact.elements() > 1
                && DType.valueOf(fact.dtype()).isFloat();
        return counts ? fact.elements() : 0;
    }
}
