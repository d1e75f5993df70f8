package dev.octet.trainer.hook;

import dev.octet.trainer.observe.TensorReport;
import java.util.List;

/**
 * Statistics that {@code debug:} asked for in a step.
 *
 * @param step from 1
 * @param iteration the same step as Transformer Engine's files count it
 * @param tensors in the order of the model's layers
 */
public record ObservationReport(long step, long iteration, List<TensorReport> tensors) {
    public ObservationReport {
        tensors = List.copyOf(tensors);
    }
}
