package dev.octet.pipeline;

import dev.octet.converter.Converter;
import dev.octet.converter.inspect.QuantizedLayers;
import dev.octet.formats.error.UnsupportedModelException;
import java.nio.file.Path;
import java.util.Optional;

/** Models whose Linears or convolutions were quantised before, so that nothing is left to do with them. */
final class QuantizedAlready {
    private QuantizedAlready() {}

    /** How many Linears have weights in 8 bits or fewer. */
    static int linears(Converter converter) {
        return new QuantizedLayers(converter.canonical().graph()).linears();
    }

    /**
     * Why there is nothing to do in a model without layers in floats; empty where none is quantised.
     *
     * @param verb what was asked for: {@code calibrate}
     */
    static Optional<UnsupportedModelException> refusal(Converter converter, Path model, String verb) {
        QuantizedLayers layers = new QuantizedLayers(converter.canonical().graph());
        int linears = layers.linears();
        int found = linears > 0 ? linears : layers.convolutions();
        return found == 0
                ? Optional.empty()
                : Optional.of(new UnsupportedModelException(
                        "the model is quantised already: " + found + (linears > 0 ? " Linear" : " convolution")
                                + (found == 1 ? " has" : "s have")
                                + " weights in 8 bits or fewer, and there is nothing else to " + verb,
                        model.toString(),
                        verb + " the model in floats that it was made from"));
    }
}
