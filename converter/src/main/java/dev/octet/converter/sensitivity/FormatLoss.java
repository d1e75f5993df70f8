package dev.octet.converter.sensitivity;

import java.util.List;

/**
 * What the Linears cost in one format.
 *
 * @param format the format
 * @param all loss when every Linear that can have the format is quantised
 * @param layers in the graph's order
 */
public record FormatLoss(LinearFormat format, OutputLoss all, List<LayerLoss> layers) {
    public FormatLoss {
        layers = List.copyOf(layers);
    }
}
