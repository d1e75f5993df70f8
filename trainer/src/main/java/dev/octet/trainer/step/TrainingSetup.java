package dev.octet.trainer.step;

import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.optimizer.Optimizer;
import dev.octet.trainer.precision.LossScaling;
import dev.octet.trainer.precision.PrecisionPolicy;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;

/**
 * What stays the same over all steps of a run.
 *
 * @param source the model
 * @param parameters its weights
 * @param trained those of them that are trained
 * @param noDecay parameters with one of these anywhere in the name have no weight decay
 * @param maxNorm largest norm of all gradients together; infinity for any
 */
public record TrainingSetup(
        GraphSource source,
        Parameters parameters,
        Set<String> trained,
        LossConfig loss,
        PrecisionPolicy policy,
        LossScaling scaling,
        Optimizer optimizer,
        List<Pattern> noDecay,
        double maxNorm) {
    public TrainingSetup {
        trained = new TreeSet<>(trained);
        noDecay = List.copyOf(noDecay);
    }
}
