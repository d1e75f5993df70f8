package dev.octet.trainer.qat;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.calibrate.Calibrator;
import dev.octet.quant.statistics.TensorStatistics;
import java.lang.foreign.Arena;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * What calibration saw of the inputs of layers, from which their scales start: where those of a model quantised with the same statistics are.
 *
 * @param values statistics by the name of a value of the model's canonical graph
 * @param calibrator which part of what was seen codes are to cover
 * @param file of the statistics, for messages
 * @param command that makes it, for messages
 */
public record CalibratedRanges(
        Map<String, TensorStatistics> values, Calibrator calibrator, String file, String command) {
    public CalibratedRanges {
        values = Map.copyOf(values);
    }

    /**
     * Rejects statistics that do not say where the scales of a graph's inputs start.
     *
     * @throws InvalidDataException that names a layer of which they know nothing, or of which nothing follows
     * @throws InvalidOptionException when no input starts from statistics
     */
    public void require(QuantizedGraph graph) {
        List<FakeQuantizer> starting = starting(graph);
        if (starting.isEmpty()) {
            throw new InvalidOptionException(
                    "there are statistics, and no input starts from them",
                    "precision.scales.statistics: " + file,
                    "leave statistics out, or quantise inputs by a method with scales of its own: inputs: {format:"
                            + " int8}");
        }
        List<FakeQuantizer> unknown =
                starting.stream().filter(q -> !values.containsKey(q.value())).toList();
        if (!unknown.isEmpty()) {
            String layer = unknown.getFirst().modules().getFirst();
            String more = unknown.size() == 1 ? "" : " and " + (unknown.size() - 1) + " more";
            throw new InvalidDataException(
                    "the statistics have nothing on the input of '" + layer + "'" + more,
                    file,
                    command + "; or leave the input in floats: precision.layers: [{match: '" + layer
                            + "', inputs: none}]");
        }
        for (FakeQuantizer q : starting) {
            Optional<String> reason = of(q).whyNoScale();
            if (reason.isPresent()) {
                String layer = q.modules().getFirst();
                throw new InvalidDataException(
                        "'" + layer + "' has no scale to start from: " + reason.get(),
                        file,
                        "look at the data and the model, or leave the input in floats: precision.layers: [{match: '"
                                + layer + "', inputs: none}]");
            }
        }
    }

    /**
     * Starting values of the parameters that follow from data.
     *
     * @param graph of which {@link #require} is true
     * @param arena owns what is made
     */
    public Map<String, Tensor> start(QuantizedGraph graph, Arena arena) {
        Map<String, Tensor> start = new LinkedHashMap<>();
        starting(graph).forEach(q -> start.putAll(q.start(of(q).withoutMasks(), calibrator, arena)));
        return start;
    }

    private TensorStatistics of(FakeQuantizer q) {
        return values.getOrDefault(q.value(), TensorStatistics.EMPTY);
    }

    private static List<FakeQuantizer> starting(QuantizedGraph graph) {
        return graph.quantizers().stream().filter(FakeQuantizer::startsFromData).toList();
    }
}
