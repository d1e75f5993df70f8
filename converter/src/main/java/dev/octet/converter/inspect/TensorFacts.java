package dev.octet.converter.inspect;

import dev.octet.converter.inspect.TensorFact.QuantizedWeight;
import dev.octet.converter.inspect.TensorFact.Role;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.layout.ScaleTensor;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.number.QuantType;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** Finds out what each tensor of a model is to the others. */
final class TensorFacts {
    private final Map<String, Role> roles = new HashMap<>();
    private final Map<String, QuantizedWeight> quantized = new HashMap<>();

    private TensorFacts() {}

    /** The tensors of a model in the order of the file. */
    static List<TensorFact> of(Model model, @Nullable StoredCheckpoint stored) {
        TensorFacts facts = new TensorFacts();
        model.graph().map(GraphModel::graph).ifPresent(facts::read);
        if (stored != null) {
            stored.weights().values().forEach(facts::read);
        }
        return model.tensors().values().stream().map(t -> facts.of(t.spec())).toList();
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
        GatheredTable.of(graph).values().forEach(t -> {
            Tensor codes = constant(graph, t.codes()).orElseThrow();
            Tensor scales = constant(graph, t.scales()).orElseThrow();
            String form = QuantType.INT8 + " " + new Granularity.PerChannel(-2).text() + ", scale " + scales.dtype();
            roles.put(t.codes(), Role.WEIGHT);
            roles.put(t.scales(), Role.SCALE);
            quantized.put(
                    t.codes(),
                    new QuantizedWeight(t.codes(), dims(codes.shape().toArray()), form, List.of(t.scales())));
        });
        for (Node node : graph.nodes()) {
            boolean quantizes = node.is("QuantizeLinear");
            if (quantizes || node.is("DequantizeLinear")) {
                Optional<Tensor> codes = constant(graph, node.input(0));
                Role scale = codes.isPresent() ? Role.SCALE : Role.INPUT_SCALE;
                roles.put(node.input(1), scale);
                roles.put(node.input(2), Role.ZERO_POINT);
                Optional<Tensor> scales = constant(graph, node.input(1));
                if (!quantizes && codes.isPresent() && scales.isPresent()) {
                    roles.put(node.input(0), Role.WEIGHT);
                    quantized.put(node.input(0), weight(node, codes.get(), scales.get()));
                }
            }
        }
    }

    private static QuantizedWeight weight(Node node, Tensor codes, Tensor scale) {
        List<String> names = Stream.of(node.input(1), node.input(2))
                .filter(n -> !n.isEmpty())
                .toList();
        return new QuantizedWeight(
                node.input(0),
                dims(codes.shape().toArray()),
                new DequantizedConstant(node, codes, scale).form(),
                names);
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
