package dev.octet.pipeline;

import dev.octet.converter.plan.Decision;
import dev.octet.converter.plan.LayerKind;
import dev.octet.converter.plan.Plan;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * How many layers of a kind were converted.
 *
 * @param kind as in the plan
 * @param converted those that are what {@code means} says
 * @param total all of the kind
 * @param means {@code in FP8}, or {@code handing on FP8} of norms, whose own numbers stay as they are
 */
public record LayerCount(String kind, int converted, int total, String means) {
    /** A layer that stayed as it was. */
    public record Kept(String node, String kind, String reason) {}

    /** One count for each kind that the model has. */
    static List<LayerCount> of(Plan plan) {
        List<LayerCount> counts = new ArrayList<>();
        for (LayerKind kind : LayerKind.values()) {
            if (plan.count(kind) > 0) {
                counts.add(new LayerCount(
                        kind.label(), plan.converted(kind).size(), plan.count(kind), kind.convertedMeans(plan)));
            }
        }
        return counts;
    }

    /** The layers that stay as they are, with their reasons; first control flow, which is the reason of all in its bodies. */
    static List<Kept> kept(Plan plan) {
        List<Decision.Kept> ordered = new ArrayList<>(plan.kept());
        ordered.sort(Comparator.comparing(k -> k.kind() != LayerKind.CONTROL_FLOW)); // false comes first
        return ordered.stream()
                .map(k -> new Kept(k.node(), k.kind().label(), k.reason()))
                .toList();
    }

    /** As {@code 36 of 36 Linear in FP8}. */
    @Override
    public String toString() {
        return converted + " of " + total + " " + kind + " " + means;
    }
}
