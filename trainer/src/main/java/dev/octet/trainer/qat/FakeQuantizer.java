package dev.octet.trainer.qat;

import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.calibrate.Calibrator;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.statistics.TensorStatistics;
import dev.octet.trainer.op.qat.QuantizeNode;
import dev.octet.trainer.precision.LinearModule;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.ToDoubleFunction;

/**
 * One fake quantisation of a graph: of a weight, or of a value that layers read.
 *
 * @param name of its node; its parameters are named after it: {@code model.layers.0.mlp.up_proj.weight_quantizer}
 * @param layers ids of the nodes whose operand it quantises
 * @param modules the modules that these belong to, in the same order
 * @param tensor WEIGHT or INPUT
 * @param value name of what is quantised: the weight's, or the input's
 * @param settings as configured
 * @param form its node
 * @param parameters names of the constants that it reads, by their place; part of every checkpoint of the run, F32
 * @param shape of what is quantised, as it lies; of an input empty, since it depends on the data
 * @param learned those of its parameters that training changes
 */
public record FakeQuantizer(
        String name,
        List<String> layers,
        List<String> modules,
        LinearTensor tensor,
        String value,
        QuantizerSettings settings,
        QuantizeNode form,
        Map<Place, String> parameters,
        Optional<Shape> shape,
        Set<Place> learned) {
    /** What a parameter is. */
    public enum Place {
        /** What codes are multiplied with. */
        SCALE("scale"),
        /** The largest magnitude; a scale is it divided by the grid's largest number. */
        AMAX("amax"),
        /** The number that code 0 stands for: LSQ+'s β. */
        OFFSET("offset"),
        /** The code of 0. */
        ZERO_POINT("zero_point"),
        /** The largest magnitude by which codes are made, where another one reads them. */
        PRE_AMAX("pre_amax"),
        /** The scale above E4M3 scales of blocks. */
        GLOBAL_SCALE("global_scale");

        private final String suffix;

        Place(String suffix) {
            this.suffix = suffix;
        }

        /** What the name of such a parameter ends with. */
        public String suffix() {
            return suffix;
        }
    }

    public FakeQuantizer {
        layers = List.copyOf(layers);
        modules = List.copyOf(modules);
        parameters = Collections.unmodifiableMap(
                parameters.isEmpty() ? new EnumMap<>(Place.class) : new EnumMap<>(parameters));
        learned = Set.copyOf(learned);
    }

    /**
     * The name of a parameter.
     *
     * @throws IllegalArgumentException when the quantiser has none of it
     */
    public String parameter(Place place) {
        String found = parameters.get(place);
        if (found == null) {
            throw new IllegalArgumentException(this.name + " has no " + place.suffix());
        }
        return found;
    }

    /** Whether some of its parameters start from what is seen of the data. */
    public boolean startsFromData() {
        return tensor == LinearTensor.INPUT
                && !parameters.isEmpty()
                && settings.method() != Method.PACT
                && settings.method() != Method.DOREFA;
    }

    /**
     * Where its parameters start.
     *
     * @param seen elements of what it quantises, of the first micro-batches
     * @param arena owns what is made
     */
    public Map<String, Tensor> start(List<float[]> seen, Arena arena) {
        Range range = Range.NONE;
        for (float[] elements : seen) {
            range = range.and(Range.of(elements));
        }
        Range all = range;
        return start(place -> InitialScales.start(settings, tensor, all, place), arena);
    }

    /**
     * Where its parameters start in a calibrated model: those of an input.
     *
     * @param seen of its values
     * @param arena owns what is made
     */
    public Map<String, Tensor> start(TensorStatistics seen, Calibrator calibrator, Arena arena) {
        CalibratedStart start = CalibratedStart.of(settings, seen, calibrator);
        return start(start::of, arena);
    }

    private Map<String, Tensor> start(ToDoubleFunction<Place> of, Arena arena) {
        Map<String, Tensor> values = new LinkedHashMap<>();
        parameters.forEach((place, parameter) -> values.put(
                parameter, Tensor.ofFloats(arena, parameter, Shape.SCALAR, (float) of.applyAsDouble(place))));
        return values;
    }

    /** This for one more layer. */
    FakeQuantizer with(LinearModule layer) {
        List<String> nodes = new ArrayList<>(layers);
        nodes.add(layer.node());
        List<String> names = new ArrayList<>(modules);
        names.add(layer.name());
        return new FakeQuantizer(name, nodes, names, tensor, value, settings, form, parameters, shape, learned);
    }
}
