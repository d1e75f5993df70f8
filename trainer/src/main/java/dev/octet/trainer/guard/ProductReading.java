package dev.octet.trainer.guard;

import dev.octet.trainer.config.GuardConfig.Level;
import dev.octet.trainer.config.GuardConfig.Trigger;
import java.util.EnumMap;
import java.util.Map;

/**
 * What was seen of a product in one step; of experts that are computed as one, the worst.
 *
 * @param level how its operands were cast; or would have been, for a product that is computed at a lower level
 * @param values by trigger, each that was looked at
 * @param experts by trigger, the module of the expert that the value is of; empty for a product of one Linear
 */
public record ProductReading(
        GuardedProduct product, Level level, Map<Trigger, Double> values, Map<Trigger, String> experts) {
    public ProductReading {
        values = Map.copyOf(values);
        experts = Map.copyOf(experts);
    }

    /** A reading of one Linear. */
    public ProductReading(GuardedProduct product, Level level, Map<Trigger, Double> values) {
        this(product, level, values, Map.of());
    }

    /** Of each trigger the larger value of the two; what is no number counts as the largest. */
    public ProductReading worst(ProductReading other) {
        Map<Trigger, Double> both = new EnumMap<>(Trigger.class);
        both.putAll(values);
        Map<Trigger, String> of = new EnumMap<>(Trigger.class);
        of.putAll(experts);
        other.values.forEach((trigger, value) -> {
            Double mine = both.get(trigger);
            if (mine == null || Double.compare(value, mine) > 0) { // puts NaN above all
                both.put(trigger, value);
                String expert = other.experts.get(trigger);
                if (expert != null) {
                    of.put(trigger, expert);
                }
            }
        });
        return new ProductReading(product, level, both, of);
    }
}
