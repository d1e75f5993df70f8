package dev.octet.trainer.guard;

import dev.octet.trainer.config.GuardConfig;
import dev.octet.trainer.config.GuardConfig.Level;
import dev.octet.trainer.config.SpikeConfig;
import dev.octet.trainer.data.SkippedBatches;
import dev.octet.trainer.guard.GuardDecision.GaveUp;
import dev.octet.trainer.guard.GuardDecision.LevelChange;
import dev.octet.trainer.guard.GuardDecision.RolledBack;
import dev.octet.trainer.guard.GuardDecision.Spike;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Decides at which level each product is computed and when a run goes back. Its decisions follow from what it was given, in order, so that a
 * resumed run that recalls its state decides alike. Not thread-safe.
 */
public final class Guard {
    private static final String PRODUCT = "product.";
    private static final String SPIKE = "spike.";
    private static final String AMAX = "amax.";

    private final GuardConfig config;

    /** Amaxes of the last measurement, by slot, of operands whose product may become delayed again. */
    private final Map<String, Float> amaxes = new TreeMap<>();

    /** In the order of the graph. */
    private final Map<GuardedProduct, ProductGuard> products = new LinkedHashMap<>();

    private final @Nullable SpikeGuard spikes;

    /**
     * A guard of a new run.
     *
     * @param products those it may demote, in the order in which it decides on them
     */
    public Guard(GuardConfig config, List<GuardedProduct> products) {
        this.config = config;
        products.forEach(p -> this.products.put(p, new ProductGuard(config, p)));
        SpikeConfig spike = config.spike().orElse(null);
        if (spike != null) {
            spikes = new SpikeGuard(spike);
        } else {
            // a replay may repeat rollbacks, of which only the data that they leave out matter
            spikes =
                    config.replay().isPresent() ? new SpikeGuard(new SpikeConfig(0, 0, 4, Long.MAX_VALUE, 1, 1)) : null;
        }
    }

    /** The products it may demote. */
    public List<GuardedProduct> products() {
        return List.copyOf(products.keySet());
    }

    /** Whether to measure all products in a step: at intervals, and in every step that a rollback has made the run repeat. */
    public boolean measures(long step) {
        boolean due = step % Math.max(1, config.every()) == 0 || (spikes != null && step <= spikes.repeatsUntil());
        return config.watchesProducts() && config.replay().isEmpty() && !products.isEmpty() && due;
    }

    /** Whether it looks at the scales of delayed scaling after every step. */
    public boolean watchesScales() {
        return config.watchesProducts()
                && config.replay().isEmpty()
                && products.keySet().stream().anyMatch(GuardedProduct::isDelayed);
    }

    /** The level of a product. */
    public Level level(GuardedProduct product) {
        return state(product).level();
    }

    /** The level that a product is to be measured at in addition to its own: the next one above; empty at the top. */
    public Optional<Level> above(GuardedProduct product) {
        return state(product).above();
    }

    private ProductGuard state(GuardedProduct product) {
        return Objects.requireNonNull(products.get(product), product.id());
    }

    /** Amaxes of the last measurement, by slot, as {@link #keepAmaxes} was given them. */
    public Map<String, Float> amaxes() {
        return Map.copyOf(amaxes);
    }

    /** Keeps the amaxes of a measurement in place of those before. */
    public void keepAmaxes(Map<String, Float> measured) {
        amaxes.clear();
        amaxes.putAll(measured);
    }

    /** Products that are not computed as configured, with their levels. */
    public Map<GuardedProduct, Level> demoted() {
        Map<GuardedProduct, Level> demoted = new LinkedHashMap<>();
        products.forEach((p, g) -> {
            if (g.level() != Level.CONFIGURED) {
                demoted.put(p, g.level());
            }
        });
        return demoted;
    }

    /** Takes the readings of a step; those of the first steps change nothing. */
    public List<LevelChange> judge(long step, List<ProductReading> readings) {
        if (step <= config.warmUp()) {
            return List.of();
        }
        Map<GuardedProduct, List<ProductReading>> byProduct =
                readings.stream().collect(Collectors.groupingBy(ProductReading::product));
        List<LevelChange> changes = new ArrayList<>();
        products.forEach(
                (p, g) -> g.judge(step, byProduct.getOrDefault(p, List.of())).ifPresent(changes::add));
        return changes;
    }

    /**
     * Takes the loss and gradient norm of a step.
     *
     * @param overflowed whether dynamic loss scaling skipped the step
     * @return a spike, if the step is one
     */
    public Optional<Spike> judge(long step, double loss, double gradNorm, boolean overflowed) {
        return spikes == null || config.spike().isEmpty()
                ? Optional.empty()
                : spikes.judge(step, loss, gradNorm, overflowed);
    }

    /** Whether the run should keep what it is after this step, to go back to it. */
    public boolean wantsSnapshot(long step, boolean hasOne) {
        return spikes != null && config.spike().isPresent() && spikes.wantsSnapshot(step, hasOne);
    }

    /** After a snapshot was taken. */
    public void snapshotTaken() {
        if (spikes != null) {
            spikes.snapshotTaken();
        }
    }

    /** The end of a run whose rollbacks are used up; empty while another one is allowed. */
    public Optional<GaveUp> giveUp(Spike spike, long snapshot) {
        SpikeGuard s = Objects.requireNonNull(spikes);
        return s.mayRetry() ? Optional.empty() : Optional.of(new GaveUp(spike.step(), spike, s.attempts(), snapshot));
    }

    /**
     * Goes back to a snapshot: recalls its state, leaves out the batches of the spike, and keeps what was demoted since.
     *
     * @param snapshot its step
     * @param then what {@link #remembered} gave at the snapshot
     * @return the rollback, then the demotions that are kept
     */
    public List<GuardDecision> rollBack(Spike spike, long snapshot, Map<String, String> then) {
        SpikeGuard s = Objects.requireNonNull(spikes);
        int before = s.attempts();
        SpikeGuard.Ends ends = s.ends();
        Map<GuardedProduct, ProductGuard> later = new LinkedHashMap<>();
        products.forEach((p, g) -> {
            ProductGuard copy = new ProductGuard(config, p);
            copy.recall(g.remembered());
            later.put(p, copy);
        });
        recall(then);
        List<GuardDecision> decisions = new ArrayList<>();
        RolledBack back = s.rollBack(snapshot, spike, before, ends);
        decisions.add(back);
        products.forEach((p, g) -> decisions.addAll(g.keep(snapshot, Objects.requireNonNull(later.get(p)))));
        return decisions;
    }

    /** Repeats a recorded decision. */
    public void repeat(GuardDecision decision) {
        switch (decision) {
            case LevelChange c -> state(c.product()).repeat(c);
            case RolledBack b -> Objects.requireNonNull(spikes).repeat(b);
            case GaveUp _ -> {}
        }
    }

    /** The batches that the run leaves out. */
    public SkippedBatches skipped() {
        return spikes == null ? SkippedBatches.NONE : spikes.skipped();
    }

    /** Its state, for a checkpoint. */
    public Map<String, String> remembered() {
        Map<String, String> all = new TreeMap<>();
        products.forEach((p, g) -> {
            if (!g.isAsConfigured()) {
                all.put(PRODUCT + p.id(), g.remembered());
            }
        });
        amaxes.forEach((slot, amax) -> all.put(AMAX + slot, Float.toString(amax)));
        if (spikes != null) {
            spikes.remembered().forEach((key, value) -> all.put(SPIKE + key, value));
        }
        return all;
    }

    /**
     * Restores its state.
     *
     * @throws NumberFormatException when a value is not what {@link #remembered} gives
     */
    public void recall(Map<String, String> remembered) {
        products.replaceAll((p, _) -> {
            ProductGuard fresh = new ProductGuard(config, p);
            String text = remembered.get(PRODUCT + p.id());
            if (text != null) {
                fresh.recall(text);
            }
            return fresh;
        });
        amaxes.clear();
        remembered.forEach((key, value) -> {
            if (key.startsWith(AMAX)) {
                amaxes.put(key.substring(AMAX.length()), Float.parseFloat(value));
            }
        });
        if (spikes != null) {
            Map<String, String> own = new TreeMap<>();
            remembered.forEach((key, value) -> {
                if (key.startsWith(SPIKE)) {
                    own.put(key.substring(SPIKE.length()), value);
                }
            });
            spikes.recall(own);
        }
    }
}
