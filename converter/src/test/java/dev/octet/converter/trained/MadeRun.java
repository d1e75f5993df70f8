package dev.octet.converter.trained;

import dev.octet.converter.Converter;
import dev.octet.converter.TinyModels;
import dev.octet.converter.TrainedModel;
import dev.octet.converter.plan.LinearScales;
import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;

/** A tiny model with the weights and scales of a training run that never was: every parameter moved a little, inputs within a range. */
final class MadeRun implements AutoCloseable {
    /** Largest input that the made-up run saw; the normalised values of the tiny models stay below. */
    static final float INPUT_AMAX = 8;

    private final ModelFile file;
    private final Arena arena = Arena.ofShared();
    final Converter source;
    final Map<String, Tensor> weights = new LinkedHashMap<>();
    final Map<String, LinearScales> scales = new LinkedHashMap<>();

    /** Every Linear with a scale of its input, weights with scales of their own. */
    MadeRun(String name) throws IOException {
        file = TinyModels.open(name);
        source = Converter.of(file.model());
        SplittableRandom random = new SplittableRandom(11);
        Map<String, Initializer> constants = source.canonical().graph().initializers();
        for (String parameter : CheckpointTensors.parameters(source.canonical(), Set.of())) {
            Initializer constant = constants.get(parameter);
            if (constant != null) {
                Tensor old = constant.tensor().orElseThrow();
                float[] values = old.toFloats();
                for (int i = 0; i < values.length; i++) {
                    values[i] += (float) (random.nextGaussian() * 0.02);
                }
                weights.put(parameter, Tensor.ofFloats(arena, parameter, old.shape(), values));
            }
        }
        linears().forEach(n -> scales.put(n.id(), LinearScales.ofInput(INPUT_AMAX, INPUT_AMAX / 448)));
    }

    List<Node> linears() {
        return source.canonical().graph().nodes().stream()
                .filter(n -> n.isOctet("Linear"))
                .toList();
    }

    Node linear(String weight) {
        return linears().stream()
                .filter(n -> n.input(1).equals(weight))
                .findFirst()
                .orElseThrow();
    }

    TrainedModel trained() {
        return TrainedModel.of(source, weights, scales);
    }

    @Override
    public void close() {
        source.close();
        file.close();
        arena.close();
    }
}
