package dev.octet.trainer.qat;

import dev.octet.formats.graph.GraphModel;
import dev.octet.trainer.qat.FakeQuantizer.Place;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * A canonical graph with fake quantisation in front of the operands of its layers.
 *
 * @param model the graph; the parameters of its quantisers are constants of it, those of weights with the values they start from
 * @param quantizers in the order of the graph
 */
public record QuantizedGraph(GraphModel model, List<FakeQuantizer> quantizers) {
    public QuantizedGraph {
        quantizers = List.copyOf(quantizers);
    }

    /**
     * Quantises a graph.
     *
     * @param model canonical, with concrete or open shapes
     * @param seed of the noise with which gradients are rounded
     * @throws dev.octet.formats.error.InvalidOptionException when settings name no layer, or blocks do not divide a weight
     */
    public static QuantizedGraph of(GraphModel model, QatSettings settings, long seed) {
        return new QuantizingEdit(model, settings).build(seed);
    }

    /** Names of the constants that quantisers read. */
    public Set<String> parameters() {
        Set<String> names = new LinkedHashSet<>();
        quantizers.forEach(q -> names.addAll(q.parameters().values()));
        return names;
    }

    /**
     * What the learning rate is multiplied with for learned parameters, by name.
     *
     * @param normalizes whether the optimizer's steps do not grow with gradients
     */
    public Map<String, Double> rateFactors(ScaleLearning scales, boolean normalizes) {
        Map<String, Double> factors = new TreeMap<>();
        for (FakeQuantizer q : quantizers) {
            if (q.settings().method() == Method.PACT) {
                continue; // α is decayed as weights are, by which the paper regularises it
            }
            for (Place place : q.learned()) {
                double usual = normalizes && place == Place.SCALE
                        ? 1 / (double) q.settings().grid().high()
                        : 1;
                factors.put(q.parameter(place), scales.rateFactor().orElse(usual));
            }
        }
        return factors;
    }

    /** Names of those that training changes. */
    public Set<String> learned() {
        Set<String> names = new LinkedHashSet<>();
        for (FakeQuantizer q : quantizers) {
            q.learned().forEach(place -> names.add(q.parameter(place)));
        }
        return names;
    }
}
