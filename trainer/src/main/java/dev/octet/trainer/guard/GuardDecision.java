package dev.octet.trainer.guard;

import dev.octet.trainer.config.GuardConfig.Level;
import dev.octet.trainer.config.GuardConfig.Trigger;
import java.util.Collections;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/** What a guard decided. It holds from the step after {@link #step()} on. */
public sealed interface GuardDecision {
    /** The completed step that the run is at. */
    long step();

    /** One line for people, without the step. */
    String sentence();

    /** A product is computed at another level from now on. */
    sealed interface LevelChange extends GuardDecision {
        GuardedProduct product();

        /** The level until now. */
        Level from();

        /** The level from now on. */
        Level to();
    }

    /**
     * A product goes down.
     *
     * @param seen the step of the reading; after {@code step} when a rollback has gone back behind it
     * @param value what was read
     * @param limit what it exceeds
     * @param quiet quiet steps that the product needs to be promoted
     * @param expert module of the expert that the value is of; empty for a product of one Linear
     */
    record Demoted(
            long step,
            GuardedProduct product,
            Level from,
            Level to,
            Trigger trigger,
            long seen,
            double value,
            double limit,
            long quiet,
            String expert)
            implements LevelChange {
        @Override
        public String sentence() {
            String back = seen > step ? ", seen at step " + seen + " before the rollback" : "";
            return String.format(
                    Locale.ROOT,
                    "%s demoted from %s to %s: %s %.3g above %.3g%s%s",
                    product.name(),
                    name(from, product),
                    name(to, product),
                    trigger.key().replace('_', ' '),
                    value,
                    limit,
                    expert.isEmpty() ? "" : " in " + expert,
                    back);
        }
    }

    /**
     * A product goes up.
     *
     * @param quiet quiet steps that it has had
     * @param seeds amaxes that delayed scales start again from, by slot; those that another product keeps up to date are missing
     */
    record Promoted(long step, GuardedProduct product, Level from, Level to, long quiet, Map<String, Float> seeds)
            implements LevelChange {
        public Promoted {
            seeds = Collections.unmodifiableMap(new TreeMap<>(seeds));
        }

        /** This with other seeds. */
        public Promoted withSeeds(Map<String, Float> other) {
            return new Promoted(step, product, from, to, quiet, other);
        }

        @Override
        public String sentence() {
            return product.name() + " promoted from " + name(from, product) + " to " + name(to, product) + " after "
                    + quiet + " quiet steps";
        }
    }

    /**
     * The run is back at a snapshot.
     *
     * @param step the snapshot's
     * @param spike what made it go back
     * @param attempt from 1, since the snapshot
     * @param skippedFrom first of the steps whose batches are left out from now on; the spike's is the last
     */
    record RolledBack(long step, Spike spike, int attempt, long skippedFrom) implements GuardDecision {
        @Override
        public String sentence() {
            String skipped = skippedFrom == spike.step()
                    ? "the batches of step " + spike.step() + " are"
                    : "the batches of steps " + skippedFrom + " to " + spike.step() + " are";
            return "rolled back to step " + step + ", attempt " + attempt + ", since the " + spike.sentence() + "; "
                    + skipped + " skipped";
        }
    }

    /**
     * The run ends, since rollbacks did not help.
     *
     * @param step the spike's
     * @param attempts rollbacks to the last snapshot
     * @param snapshot step of that snapshot
     */
    record GaveUp(long step, Spike spike, int attempts, long snapshot) implements GuardDecision {
        @Override
        public String sentence() {
            return "the " + spike.sentence() + ", also after " + attempts + " rollbacks to step " + snapshot
                    + "; guard.spike.retries allows no more";
        }
    }

    /**
     * A step whose loss or gradient norm is above its band.
     *
     * @param what {@code loss} or {@code gradient norm}
     * @param limit end of the band; infinite where only a number that is not finite counts
     */
    record Spike(long step, String what, double value, double limit) {
        /** What happened, with numbers. */
        public String sentence() {
            return Double.isFinite(value)
                    ? String.format(Locale.ROOT, "%s %.4g at step %d is above its band, %.4g", what, value, step, limit)
                    : what + " at step " + step + " is not finite";
        }
    }

    /** How a level is called for a product. */
    static String name(Level level, GuardedProduct product) {
        return level == Level.CONFIGURED ? product.scaling() : level.key();
    }
}
