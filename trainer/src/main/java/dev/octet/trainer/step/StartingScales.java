package dev.octet.trainer.step;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.trainer.data.MicroBatch;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.qat.FakeQuantizer;
import dev.octet.trainer.qat.QuantizedGraph;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/** Where the scales of inputs start: at the ranges of the first micro-batches, as the model in floats computes them. */
public final class StartingScales {
    private static final int SHOWN = 8;

    private final QuantizedGraph quantized;
    private final GraphSource floats;
    private final PrecisionPolicy policy;
    private final Device device;

    /**
     * @param quantized the model in training
     * @param floats the same without fake quantisation
     */
    public StartingScales(QuantizedGraph quantized, GraphSource floats, PrecisionPolicy policy, Device device) {
        this.quantized = quantized;
        this.floats = floats;
        this.policy = policy;
        this.device = device;
    }

    /**
     * Rejects layers that a training program does not execute: nothing would ever be learned about them.
     *
     * @throws InvalidOptionException that names them
     */
    public void requireExecuted(Program program) {
        Set<String> nodes = program.steps().stream().map(Step::node).collect(Collectors.toSet());
        Set<String> idle = new LinkedHashSet<>();
        for (FakeQuantizer q : quantized.quantizers()) {
            if (!q.learned().isEmpty() && !nodes.contains(q.name())) {
                idle.addAll(q.modules());
            }
        }
        if (!idle.isEmpty()) {
            String names = idle.stream().limit(SHOWN).collect(Collectors.joining(", "));
            throw new InvalidOptionException(
                    "the loss does not depend on " + idle.size() + (idle.size() == 1 ? " layer" : " layers")
                            + " with learned scales: " + names
                            + (idle.size() > SHOWN ? " and " + (idle.size() - SHOWN) + " more" : ""),
                    "precision: {mode: qat}",
                    "leave them in floats: precision.layers: [{match: '"
                            + idle.iterator().next() + "', quantize: false}]");
        }
    }

    /**
     * Starting values of the parameters that follow from data.
     *
     * @param batches at least one
     * @param weights of the model, F32, by name
     * @param arena owns what is made
     */
    public Map<String, Tensor> of(List<MicroBatch> batches, Map<String, Tensor> weights, Arena arena) {
        List<FakeQuantizer> inputs = quantized.quantizers().stream()
                .filter(q -> q.tensor() == LinearTensor.INPUT && q.startsFromData())
                .toList();
        Map<String, Tensor> values = new LinkedHashMap<>();
        if (inputs.isEmpty()) {
            return values;
        }
        Set<String> read = new LinkedHashSet<>();
        inputs.forEach(q -> read.add(q.value()));
        Map<String, Tensor> own = new LinkedHashMap<>(weights);
        own.keySet().removeAll(quantized.parameters());
        Map<String, List<float[]>> seen = new LinkedHashMap<>();
        try (ForwardSession session = new ForwardSession(floats, List.copyOf(read), policy, own, Map.of(), device)) {
            for (MicroBatch batch : batches) {
                try (Arena one = Arena.ofConfined()) {
                    session.outputs(batch.tensors(), one)
                            .forEach((name, t) -> seen.computeIfAbsent(name, _ -> new ArrayList<>())
                                    .add(t.toFloats()));
                }
            }
        }
        for (FakeQuantizer q : inputs) {
            values.putAll(q.start(seen.getOrDefault(q.value(), List.of()), arena));
        }
        return values;
    }
}
