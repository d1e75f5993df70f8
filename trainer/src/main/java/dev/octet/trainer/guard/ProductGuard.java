package dev.octet.trainer.guard;

import dev.octet.trainer.config.GuardConfig;
import dev.octet.trainer.config.GuardConfig.Level;
import dev.octet.trainer.config.GuardConfig.Trigger;
import dev.octet.trainer.guard.GuardDecision.Demoted;
import dev.octet.trainer.guard.GuardDecision.LevelChange;
import dev.octet.trainer.guard.GuardDecision.Promoted;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * The level of one product. A reading of its level above a demotion limit takes it one level down. Readings of the level above, each up to the
 * promotion limits for as many steps as it needs, take it one level up. A demotion after a promotion is a relapse: the product then needs twice
 * as many quiet steps.
 */
final class ProductGuard {
    /** Words of a state with the reason of the last demotion; an expert's name may follow. */
    private static final int WITH_REASON = 12;

    private final GuardConfig config;
    private final GuardedProduct product;
    private final List<Level> levels;

    private int at;

    /** The step from which on it has been quiet. */
    private long quietFrom;

    /** How many quiet steps it needs. */
    private long quiet;

    private boolean wasPromoted;

    private @Nullable Demoted last;

    ProductGuard(GuardConfig config, GuardedProduct product) {
        this.config = config;
        this.product = product;
        this.levels = levels(config, product);
        this.quiet = config.quiet();
    }

    private static List<Level> levels(GuardConfig config, GuardedProduct product) {
        List<Level> levels = new ArrayList<>(List.of(Level.CONFIGURED));
        config.demote().stream()
                .filter(l -> l != Level.CURRENT || product.isDelayed())
                .forEach(levels::add);
        return levels;
    }

    GuardedProduct product() {
        return product;
    }

    Level level() {
        return levels.get(at);
    }

    /** The level that readings must be quiet at for a promotion; empty at the top. */
    Optional<Level> above() {
        return at == 0 ? Optional.empty() : Optional.of(levels.get(at - 1));
    }

    /** Why it is where it is; null at the top unless it was promoted. */
    @Nullable
    Demoted lastDemotion() {
        return last;
    }

    /** Takes the readings of a step. */
    Optional<LevelChange> judge(long step, List<ProductReading> readings) {
        for (ProductReading r : readings) {
            if (r.level() == level() && at + 1 < levels.size()) {
                Optional<Trigger> worst = exceeded(r.values());
                if (worst.isPresent()) {
                    return Optional.of(demote(
                            step,
                            step,
                            worst.get(),
                            r.values().getOrDefault(worst.get(), 0.0),
                            r.experts().getOrDefault(worst.get(), "")));
                }
            }
        }
        Level above = above().orElse(null);
        boolean calm = false;
        for (ProductReading r : readings) {
            if (r.level() == above) {
                calm = r.values().entrySet().stream().noneMatch(e -> isLoud(e.getKey(), e.getValue()));
                quietFrom = calm ? quietFrom : step;
            }
        }
        return calm && step - quietFrom >= quiet ? Optional.of(promote(step)) : Optional.empty();
    }

    /** The trigger that exceeds its demotion limit by the largest factor. */
    private Optional<Trigger> exceeded(Map<Trigger, Double> values) {
        Trigger worst = null;
        double most = 1;
        for (Trigger t : Trigger.values()) {
            double value = values.getOrDefault(t, 0.0);
            double limit = config.limit(t).demote();
            // negated, so that NaN exceeds
            if (!(value <= limit)) {
                double factor = Double.isNaN(value) || limit == 0 ? Double.POSITIVE_INFINITY : value / limit;
                if (worst == null || factor > most) {
                    worst = t;
                    most = factor;
                }
            }
        }
        return Optional.ofNullable(worst);
    }

    private boolean isLoud(Trigger trigger, double value) {
        return !(value <= config.limit(trigger).promote());
    }

    private Demoted demote(long step, long seen, Trigger trigger, double value, String expert) {
        if (wasPromoted) {
            quiet = quiet > config.maxQuiet() / 2 ? config.maxQuiet() : 2 * quiet;
            wasPromoted = false;
        }
        Level from = level();
        at++;
        quietFrom = step;
        Demoted demoted = new Demoted(
                step,
                product,
                from,
                level(),
                trigger,
                seen,
                value,
                config.limit(trigger).demote(),
                quiet,
                expert);
        last = demoted;
        return demoted;
    }

    private Promoted promote(long step) {
        Level from = level();
        at--;
        wasPromoted = true;
        Promoted promoted = new Promoted(step, product, from, level(), step - quietFrom, Map.of());
        quietFrom = step;
        return promoted;
    }

    /** Takes over what a later state of the product, which a rollback undoes, was demoted for. */
    List<LevelChange> keep(long step, ProductGuard later) {
        List<LevelChange> kept = new ArrayList<>();
        Demoted why = later.last;
        while (why != null && at < later.at) {
            kept.add(demote(step, why.seen(), why.trigger(), why.value(), why.expert()));
        }
        quiet = Math.max(quiet, later.quiet);
        return kept;
    }

    /** Repeats a recorded decision. */
    void repeat(LevelChange change) {
        at = Math.max(0, levels.indexOf(change.to()));
        if (change instanceof Demoted d) {
            last = d;
        }
    }

    boolean isAsConfigured() {
        return at == 0 && !wasPromoted && quiet == config.quiet() && last == null;
    }

    /** Its state as text: level, quiet steps needed and since when, whether it was promoted, why it was demoted. */
    String remembered() {
        String state = level().key() + " " + quiet + " " + quietFrom + " " + wasPromoted;
        Demoted d = last;
        return d == null
                ? state
                : state + " " + d.step() + " " + d.from().key() + " " + d.to().key() + " "
                        + d.trigger().key() + " " + d.seen() + " " + d.value() + " " + d.limit() + " " + d.quiet()
                        + (d.expert().isEmpty() ? "" : " " + d.expert());
    }

    /** @throws NumberFormatException when the text is not what {@link #remembered} gives */
    void recall(String remembered) {
        String[] t = remembered.split(" ", -1);
        if (t.length != 4 && t.length != WITH_REASON && t.length != WITH_REASON + 1) {
            throw new NumberFormatException(remembered);
        }
        at = levels.indexOf(level(t[0]));
        if (at < 0) {
            throw new NumberFormatException(remembered);
        }
        quiet = Long.parseLong(t[1]);
        quietFrom = Long.parseLong(t[2]);
        wasPromoted = Boolean.parseBoolean(t[3]);
        last = t.length == 4
                ? null
                : new Demoted(
                        Long.parseLong(t[4]),
                        product,
                        level(t[5]),
                        level(t[6]),
                        trigger(t[7]),
                        Long.parseLong(t[8]),
                        Double.parseDouble(t[9]),
                        Double.parseDouble(t[10]),
                        Long.parseLong(t[11]),
                        t.length == WITH_REASON ? "" : t[WITH_REASON]);
    }

    private static Level level(String key) {
        for (Level l : Level.values()) {
            if (l.key().equals(key)) {
                return l;
            }
        }
        throw new NumberFormatException(key);
    }

    private static Trigger trigger(String key) {
        for (Trigger t : Trigger.values()) {
            if (t.key().equals(key)) {
                return t;
            }
        }
        throw new NumberFormatException(key);
    }
}
