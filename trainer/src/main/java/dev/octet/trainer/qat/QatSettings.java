package dev.octet.trainer.qat;

import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.regex.Pattern;

/**
 * What {@code precision.mode: qat} quantises, and how its scales are learned.
 *
 * @param weights how the weights of Linears are quantised; empty for not
 * @param inputs how their inputs are
 * @param gradientBits of the gradients of results of quantised layers, as DoReFa rounds them; empty for gradients as they are
 * @param exemptFirst whether the first layer of the graph is left alone
 * @param exemptLast whether the last one is
 * @param layers what is different for layers by name; the first that matches counts
 * @param scales how scales are learned
 */
public record QatSettings(
        Optional<QuantizerSettings> weights,
        Optional<QuantizerSettings> inputs,
        OptionalInt gradientBits,
        boolean exemptFirst,
        boolean exemptLast,
        List<LayerOverride> layers,
        ScaleLearning scales) {
    public QatSettings {
        layers = List.copyOf(layers);
    }

    /**
     * What is different for some layers.
     *
     * @param match found in the name of the layer's node or of its weight
     * @param quantize false: these layers stay in floats
     * @param weights empty for not
     * @param inputs empty for not
     */
    public record LayerOverride(
            Pattern match, boolean quantize, Optional<QuantizerSettings> weights, Optional<QuantizerSettings> inputs) {
        boolean matches(String node, String weight) {
            return match.matcher(node).find() || match.matcher(weight).find();
        }
    }
}
