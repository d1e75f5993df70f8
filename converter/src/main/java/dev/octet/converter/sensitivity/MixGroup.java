package dev.octet.converter.sensitivity;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import java.util.function.ToDoubleFunction;
import org.jspecify.annotations.Nullable;

/**
 * Linears that share a format, because engines fuse them into one product, and what each format costs them.
 *
 * @param name {@link LinearLayer#group}
 * @param layers in the graph's order
 * @param choices {@link #KEPT} first
 */
public record MixGroup(String name, List<LinearLayer> layers, List<Choice> choices) {
    /** The format of layers that stay as they are. */
    public static final String KEPT = "kept";

    public MixGroup {
        layers = List.copyOf(layers);
        choices = List.copyOf(choices);
    }

    /**
     * One format for the whole group.
     *
     * @param format its name, or {@link #KEPT}
     * @param bits of all weights, scales included
     * @param loss predicted, at least 0
     */
    public record Choice(String format, long bits, double loss) {}

    /**
     * The groups of a model. The loss of a layer in a format is that of the layer alone, times the ratio of the loss of all layers to the sum of
     * the layers' own: so the prediction is exact where everything has one format, and losses that grow or cancel along the model count as
     * they do there.
     *
     * @param losses of the formats to choose from
     * @param measure which number of a loss; negative values count as 0
     * @param refusal why a layer cannot have a format, by layer; those that {@link LayerLoss#refusal} names are refused anyway
     */
    public static List<MixGroup> of(
            Losses losses, ToDoubleFunction<OutputLoss> measure, Function<LayerLoss, Optional<String>> refusal) {
        Map<String, List<LinearLayer>> members = new LinkedHashMap<>();
        losses.formats()
                .getFirst()
                .layers()
                .forEach(l -> members.computeIfAbsent(l.layer().group(), _ -> new ArrayList<>())
                        .add(l.layer()));
        List<MixGroup> groups = new ArrayList<>();
        for (Map.Entry<String, List<LinearLayer>> group : members.entrySet()) {
            List<Choice> choices = new ArrayList<>();
            long kept = group.getValue().stream()
                    .mapToLong(l -> l.elements() * l.storedBits())
                    .sum();
            choices.add(new Choice(KEPT, kept, 0));
            for (FormatLoss format : losses.formats()) {
                Choice choice = choice(format, group.getValue(), measure, refusal);
                if (choice != null) {
                    choices.add(choice);
                }
            }
            groups.add(new MixGroup(group.getKey(), group.getValue(), choices));
        }
        return List.copyOf(groups);
    }

    private static @Nullable Choice choice(
            FormatLoss format,
            List<LinearLayer> members,
            ToDoubleFunction<OutputLoss> measure,
            Function<LayerLoss, Optional<String>> refusal) {
        double ratio = ratio(format, measure);
        long bits = 0;
        double loss = 0;
        for (LayerLoss layer : format.layers()) {
            if (!members.contains(layer.layer())) {
                continue;
            }
            if (!layer.possible() || refusal.apply(layer).isPresent()) {
                return null;
            }
            bits += layer.bits();
            loss += ratio * positive(measure.applyAsDouble(layer.alone()));
        }
        return new Choice(format.format().name(), bits, loss);
    }

    /** Loss of all layers over the sum of the layers' own; 1 where nothing is lost. */
    static double ratio(FormatLoss format, ToDoubleFunction<OutputLoss> measure) {
        double sum = format.layers().stream()
                .mapToDouble(l -> positive(measure.applyAsDouble(l.alone())))
                .sum();
        double all = positive(measure.applyAsDouble(format.all()));
        return sum > 0 && all > 0 && Double.isFinite(all / sum) ? all / sum : 1;
    }

    /** A NaN is the largest loss there is: a model that gives NaN is never chosen. */
    private static double positive(double loss) {
        return Double.isNaN(loss) ? Double.POSITIVE_INFINITY : Math.max(0, loss);
    }
}
