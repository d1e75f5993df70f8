package dev.octet.trainer.step;

import dev.octet.trainer.activation.ActivationSettings;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.optimizer.Optimizer;
import dev.octet.trainer.optimizer.OwnRate;
import dev.octet.trainer.optimizer.WeightAveraging;
import dev.octet.trainer.precision.LossScaling;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.reduction.RankSettings;
import dev.octet.trainer.shard.ShardSettings;
import dev.octet.trainer.state.StateForms;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;

/**
 * The fixed parts of a run, the same in every step.
 *
 * @param source the model
 * @param parameters its weights, but for those in {@code stored}
 * @param stored names of frozen weights that stay in the bytes they are stored in
 * @param trained names of the parameters to train
 * @param noDecay parameters that match one of these patterns (anywhere in the name) get no weight decay
 * @param maxNorm largest allowed global gradient norm; infinity for no clipping
 * @param averages of the weights, kept besides them
 * @param states how parameters, gradients and the optimizer's memory are kept from step to step
 * @param activations what a step keeps between forward and backward
 * @param ranks data-parallel ranks that are simulated
 * @param ownRate parameters that are updated at a multiple of the learning rate
 * @param shards what several ranks share out
 */
public record TrainingSetup(
        GraphSource source,
        Parameters parameters,
        Set<String> stored,
        Set<String> trained,
        LossConfig loss,
        PrecisionPolicy policy,
        LossScaling scaling,
        Optimizer optimizer,
        List<Pattern> noDecay,
        double maxNorm,
        List<WeightAveraging> averages,
        StateForms states,
        ActivationSettings activations,
        RankSettings ranks,
        OwnRate ownRate,
        ShardSettings shards) {
    public TrainingSetup {
        stored = Set.copyOf(stored);
        trained = new TreeSet<>(trained);
        noDecay = List.copyOf(noDecay);
        averages = List.copyOf(averages);
    }

    /** With all weights in F32. */
    public TrainingSetup(
            GraphSource source,
            Parameters parameters,
            Set<String> trained,
            LossConfig loss,
            PrecisionPolicy policy,
            LossScaling scaling,
            Optimizer optimizer,
            List<Pattern> noDecay,
            double maxNorm,
            List<WeightAveraging> averages) {
        this(
                source,
                parameters,
                Set.of(),
                trained,
                loss,
                policy,
                scaling,
                optimizer,
                noDecay,
                maxNorm,
                averages,
                StateForms.F32,
                ActivationSettings.NONE,
                RankSettings.NONE,
                OwnRate.NONE,
                ShardSettings.NONE);
    }

    /** This setup with tensors kept in other forms. */
    public TrainingSetup withStates(StateForms forms) {
        return with(forms, activations, ranks);
    }

    /** This setup with steps that keep something else. */
    public TrainingSetup withActivations(ActivationSettings settings) {
        return with(states, settings, ranks);
    }

    /** This setup on simulated ranks. */
    public TrainingSetup withRanks(RankSettings settings) {
        return with(states, activations, settings);
    }

    private TrainingSetup with(StateForms forms, ActivationSettings settings, RankSettings newRanks) {
        return new TrainingSetup(
                source,
                parameters,
                stored,
                trained,
                loss,
                policy,
                scaling,
                optimizer,
                noDecay,
                maxNorm,
                averages,
                forms,
                settings,
                newRanks,
                ownRate,
                shards);
    }
}
