package dev.octet.trainer.guard;

import dev.octet.trainer.config.GuardConfig.Level;
import dev.octet.trainer.config.GuardConfig.Trigger;
import java.util.Map;

/**
 * What was seen of a product in one step.
 *
 * @param level how its operands were cast; or would have been, for a product that is computed at a lower level
 * @param values by trigger, each that was looked at
 */
public record ProductReading(GuardedProduct product, Level level, Map<Trigger, Double> values) {
    public ProductReading {
        values = Map.copyOf(values);
    }
}
