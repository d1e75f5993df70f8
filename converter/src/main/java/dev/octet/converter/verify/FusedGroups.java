package dev.octet.converter.verify;

import dev.octet.converter.checkpoint.LinearNames;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Modules that inference engines load into one matrix: q, k and v; gate and up. */
final class FusedGroups {
    private FusedGroups() {}

    /** Groups of two and more, by the name of the fused module, in the order of the checkpoint. */
    static Map<String, List<LayerTensors>> of(Collection<LayerTensors> layers) {
        Map<String, List<LayerTensors>> groups = new LinkedHashMap<>();
        for (LayerTensors layer : layers) {
            if (layer.weight() != null) {
                LinearNames.fusedGroup(layer.module() + ".weight")
                        .ifPresent(g -> groups.computeIfAbsent(g, k -> new ArrayList<>())
                                .add(layer));
            }
        }
        groups.values().removeIf(g -> g.size() < 2);
        return groups;
    }
}
