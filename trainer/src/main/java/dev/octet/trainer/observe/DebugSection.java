package dev.octet.trainer.observe;

import java.util.List;

/**
 * A section of a debug configuration.
 *
 * @param name its key in the file
 * @param where file and line, for messages
 */
public record DebugSection(String name, LayerSelection layers, List<Feature> features, String where) {
    public DebugSection {
        features = List.copyOf(features);
    }
}
