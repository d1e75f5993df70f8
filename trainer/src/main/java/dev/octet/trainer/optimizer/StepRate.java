package dev.octet.trainer.optimizer;

import java.util.OptionalDouble;

/**
 * What a schedule says for one step.
 *
 * @param lr learning rate
 * @param beta1 of Adam, where the schedule moves it
 */
public record StepRate(double lr, OptionalDouble beta1) {
    /** A learning rate alone. */
    public static StepRate of(double lr) {
        return new StepRate(lr, OptionalDouble.empty());
    }
}
