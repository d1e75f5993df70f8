package dev.octet.trainer.guard;

import dev.octet.trainer.config.SpikeConfig;
import dev.octet.trainer.data.SkippedBatches;
import dev.octet.trainer.guard.GuardDecision.RolledBack;
import dev.octet.trainer.guard.GuardDecision.Spike;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/** The bands of loss and gradient norm, the rollbacks so far, and what they leave out of the data. */
final class SpikeGuard {
    private static final String LOSS = "loss";
    private static final String NORM = "grad_norm";
    private static final String ATTEMPTS = "attempts";
    private static final String SPIKE = "spike";
    private static final String SKIPPED = "skipped";
    private static final String ENDS = "end.";

    private final SpikeConfig config;
    private final RobustBand loss;
    private final RobustBand norm;
    private int attempts;

    /** The last step that was a spike; 0 for none. */
    private long lastSpike;

    /** The ends of the bands at that spike: they hold for the steps that are repeated, too. */
    private Ends ends = Ends.NONE;

    private SkippedBatches skipped = SkippedBatches.NONE;

    /** Ends of both bands. */
    record Ends(double loss, double norm) {
        private static final Ends NONE = new Ends(Double.POSITIVE_INFINITY, Double.POSITIVE_INFINITY);
    }

    SpikeGuard(SpikeConfig config) {
        this.config = config;
        this.loss = new RobustBand(config.loss(), config.window());
        this.norm = new RobustBand(config.gradNorm(), config.window());
    }

    /**
     * Takes the numbers of a step.
     *
     * @param overflowed whether the step was skipped by dynamic loss scaling, which finds its scale so
     */
    Optional<Spike> judge(long step, double stepLoss, double gradNorm, boolean overflowed) {
        Ends now = step <= repeatsUntil() ? ends() : new Ends(loss.end(), norm.end());
        if (config.loss() > 0 && !(stepLoss <= now.loss())) {
            return Optional.of(new Spike(step, "loss", stepLoss, now.loss()));
        }
        if (config.gradNorm() > 0 && !overflowed && !(gradNorm <= now.norm())) {
            return Optional.of(new Spike(step, "gradient norm", gradNorm, now.norm()));
        }
        loss.add(stepLoss);
        if (!overflowed) {
            norm.add(gradNorm);
        }
        return Optional.empty();
    }

    /** Where the bands end now, the steps that are repeated being no better than those before. */
    Ends ends() {
        return new Ends(Math.min(ends.loss(), loss.end()), Math.min(ends.norm(), norm.end()));
    }

    /** Whether to take a snapshot after a step without a spike: in time, and not before the last spike has been passed. */
    boolean wantsSnapshot(long step, boolean hasOne) {
        return !hasOne || (step % config.snapshotEvery() == 0 && step > lastSpike);
    }

    /** After a snapshot: rollbacks to earlier ones no longer count. */
    void snapshotTaken() {
        attempts = 0;
        ends = Ends.NONE;
    }

    boolean mayRetry() {
        return attempts < config.retries();
    }

    int attempts() {
        return attempts;
    }

    /** The step up to which the steps after a rollback repeat earlier ones; 0 when they don't. */
    long repeatsUntil() {
        return attempts == 0 ? 0 : lastSpike;
    }

    /**
     * Goes back.
     *
     * @param snapshot its step
     * @param before rollbacks to the snapshot so far
     * @param atSpike ends of the bands at the spike
     */
    RolledBack rollBack(long snapshot, Spike spike, int before, Ends atSpike) {
        ends = atSpike;
        long count = (long) config.skip() << Math.min(before, 40);
        long from = Math.max(snapshot + 1, spike.step() - Math.min(count, spike.step()) + 1);
        RolledBack decision = new RolledBack(snapshot, spike, before + 1, from);
        repeat(decision);
        return decision;
    }

    /** Repeats a recorded rollback, as far as it concerns the data. */
    void repeat(RolledBack decision) {
        attempts = decision.attempt();
        lastSpike = decision.spike().step();
        skipped = skipped.withoutSteps(decision.skippedFrom(), decision.spike().step());
    }

    SkippedBatches skipped() {
        return skipped;
    }

    Map<String, String> remembered() {
        Map<String, String> all = new TreeMap<>();
        all.put(LOSS, loss.remembered());
        all.put(NORM, norm.remembered());
        all.put(ATTEMPTS, Integer.toString(attempts));
        all.put(SPIKE, Long.toString(lastSpike));
        all.put(SKIPPED, skipped.text());
        all.put(ENDS + LOSS, Double.toString(ends.loss()));
        all.put(ENDS + NORM, Double.toString(ends.norm()));
        return all;
    }

    void recall(Map<String, String> remembered) {
        loss.recall(remembered.getOrDefault(LOSS, ""));
        norm.recall(remembered.getOrDefault(NORM, ""));
        attempts = Integer.parseInt(remembered.getOrDefault(ATTEMPTS, "0"));
        lastSpike = Long.parseLong(remembered.getOrDefault(SPIKE, "0"));
        ends = new Ends(end(remembered, LOSS), end(remembered, NORM));
        skipped = SkippedBatches.parse(remembered.getOrDefault(SKIPPED, ""));
    }

    private static double end(Map<String, String> remembered, String band) {
        return Double.parseDouble(remembered.getOrDefault(ENDS + band, "Infinity"));
    }
}
