package dev.octet.trainer;

import dev.octet.trainer.precision.LossScaling;
import java.util.Map;

/** The loss-scaling state as the {@code numbers} of a checkpoint. */
final class ScaleText {
    private static final String SCALE = "loss_scale.scale";
    private static final String CLEAN = "loss_scale.clean";
    private static final String HYSTERESIS = "loss_scale.hysteresis";
    private static final String STEPS = "loss_scale.steps";
    private static final String LAST_OVERFLOW = "loss_scale.last_overflow";

    private ScaleText() {}

    static Map<String, String> of(LossScaling.State state) {
        return Map.of(
                SCALE, Float.toString(state.scale()),
                CLEAN, Integer.toString(state.clean()),
                HYSTERESIS, Integer.toString(state.hysteresis()),
                STEPS, Long.toString(state.steps()),
                LAST_OVERFLOW, Long.toString(state.lastOverflow()));
    }

    static LossScaling.State read(Map<String, String> numbers) {
        return new LossScaling.State(
                Float.parseFloat(numbers.getOrDefault(SCALE, "1")),
                Integer.parseInt(numbers.getOrDefault(CLEAN, "0")),
                Integer.parseInt(numbers.getOrDefault(HYSTERESIS, "0")),
                Long.parseLong(numbers.getOrDefault(STEPS, "0")),
                Long.parseLong(numbers.getOrDefault(LAST_OVERFLOW, "-1")));
    }
}
