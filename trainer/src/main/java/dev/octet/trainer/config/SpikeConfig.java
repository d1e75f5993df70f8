package dev.octet.trainer.config;

import dev.octet.trainer.yaml.Section;

/**
 * When a step counts as a spike, and how the run goes back: key {@code guard.spike}. A band reaches up to the median of the last
 * {@code window} steps plus a multiple of their median absolute deviation.
 *
 * @param loss multiple for the loss; 0: the loss is not watched
 * @param gradNorm multiple for the gradient norm; 0: it is not watched
 * @param window steps that a band is computed from; it takes at least half of them
 * @param snapshotEvery steps between two snapshots that the run can go back to
 * @param skip batches left out with the first rollback, the spike's last; each further one from the same snapshot doubles them
 * @param retries rollbacks to the same snapshot before the run stops
 */
public record SpikeConfig(double loss, double gradNorm, int window, long snapshotEvery, int skip, int retries) {
    private static final double USUAL_MULTIPLE = 12;

    static SpikeConfig read(Section s) {
        SpikeConfig spike = new SpikeConfig(
                s.number("loss", USUAL_MULTIPLE, 0, Double.MAX_VALUE),
                s.number("grad_norm", USUAL_MULTIPLE, 0, Double.MAX_VALUE),
                (int) s.whole("window", 50, 4, 100_000),
                s.whole("snapshot_every", 50, 1, Long.MAX_VALUE),
                (int) s.whole("skip", 2, 1, 1_000_000),
                (int) s.whole("retries", 3, 1, 1000));
        if (spike.loss == 0 && spike.gradNorm == 0) {
            throw s.error(
                    "loss", "neither the loss nor the gradient norm is watched", "give one of them a multiple above 0");
        }
        return spike;
    }
}
