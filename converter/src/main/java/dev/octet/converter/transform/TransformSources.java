package dev.octet.converter.transform;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.quant.merge.WeightGrid;
import java.util.Optional;
import java.util.function.Function;

/**
 * What transforms are solved from.
 *
 * @param where the model, for messages
 * @param weights of the model
 * @param statistics of its activations
 * @param grids the numbers that a weight will be rounded to, by its name; empty where it stays in floats
 * @param threads of the work on one weight
 */
public record TransformSources(
        String where,
        WeightSource weights,
        InputStatistics statistics,
        Function<String, Optional<WeightGrid>> grids,
        int threads) {
    float[] requireAmax(String module, int channels) {
        float[] amax = statistics.amax(module).orElseThrow(() -> lacks("channels", module));
        if (amax.length != channels) {
            throw new InvalidDataException(
                    "the statistics have " + amax.length + " channels, the weight has " + channels,
                    "module '" + module + "'",
                    "calibrate this model: octet calibrate MODEL -o FILE --data DATA");
        }
        return amax;
    }

    /** For statistics that lack what a transform needs. */
    InvalidDataException lacks(String what, String module) {
        return new InvalidDataException(
                "the statistics have no " + what + " of the input of '" + module + "', from which the factors follow",
                where,
                "take statistics of this model, which have them: octet calibrate MODEL -o FILE --data DATA"
                        + (what.equals("channels") ? "" : " --second-moments"));
    }
}
