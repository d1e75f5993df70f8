package dev.octet.trainer.config;

import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.trainer.observe.DebugSettings;
import dev.octet.trainer.observe.Feature;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.Fp8Settings.LayerOverride;
import dev.octet.trainer.yaml.Section;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * How a run watches itself and what it does about what it sees: key {@code guard}.
 *
 * @param every steps between two measurements of all products
 * @param warmUp steps at the start in which nothing is decided
 * @param sample rows and columns of each product that {@code castError} is computed for
 * @param demote levels below the configured one, in order: a product takes the next one when it is demoted
 * @param quiet steps without a reading above its promotion limit after which a product is promoted by one level
 * @param maxQuiet largest number of quiet steps; each relapse doubles a product's own up to it
 * @param clipped limits of the share of an operand's elements that its cast clips
 * @param underflowed limits of the share of an operand's elements that its cast makes 0
 * @param amaxJump limits of an operand's amax over the largest magnitude that its delayed scale has room for
 * @param castError limits of the relative error of a product of quantised operands, in the Frobenius norm over the sampled elements
 * @param scaleAge steps that a delayed scale may stay the same while it does not fit, see {@code scaleDrift}
 * @param scaleDrift ratio of the largest magnitude that a scale has room for and the amax, either way, from which it does not fit
 * @param spike what happens when the loss or the gradient norm leaves its band; empty: nothing
 * @param replay {@code guard.jsonl} of another run, whose decisions are repeated; nothing is measured then
 */
public record GuardConfig(
        long every,
        long warmUp,
        int sample,
        List<Level> demote,
        long quiet,
        long maxQuiet,
        Limit clipped,
        Limit underflowed,
        Limit amaxJump,
        Limit castError,
        long scaleAge,
        double scaleDrift,
        Optional<SpikeConfig> spike,
        Optional<Path> replay) {
    /** The key of a configuration. */
    public static final String KEY = "guard";

    private static final String SPIKE = "spike";
    private static final String REPLAY = "replay";
    private static final String DEMOTE = "demote";
    private static final String PROMOTE = "promote";
    private static final String QUIET = "quiet";
    private static final String MAX_QUIET = "max_quiet";
    private static final String EVERY = "every";

    private static final long USUAL_EVERY = 10;
    private static final long USUAL_WARM_UP = 20;
    private static final long USUAL_SAMPLE = 16;
    private static final long USUAL_QUIET = 100;
    private static final long USUAL_BACK_OFF = 16;
    private static final Limit USUAL_CLIPPED = new Limit(0.01, 0.001);
    /** Shares of underflowed elements, when nothing else is asked for. */
    public static final Limit USUAL_UNDERFLOWED = new Limit(0.5, 0.25);

    private static final Limit USUAL_AMAX_JUMP = new Limit(16, 2);
    private static final Limit USUAL_CAST_ERROR = new Limit(0.25, 0.125);
    private static final long USUAL_SCALE_AGE = 1000;
    private static final double USUAL_SCALE_DRIFT = 16;

    private static final Limit NO_LIMIT = new Limit(Double.MAX_VALUE, 0);

    /** A run that is not guarded. */
    public static final GuardConfig NONE = ofRun(Optional.empty(), Optional.empty());

    /** How a product is computed. */
    public enum Level {
        /** As the recipe says. */
        CONFIGURED,
        /** Both operands by per-tensor current scaling instead of delayed scaling. */
        CURRENT,
        /** Both operands unquantised, in the narrow type. */
        HIGH_PRECISION;

        /** Its name in configurations and files. */
        public String key() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    /** What a product is demoted for. */
    public enum Trigger {
        /** Share of elements that a cast clips. */
        CLIPPED,
        /** Share of elements other than 0 that a cast makes 0. */
        UNDERFLOWED,
        /** Amax over the largest magnitude that a delayed scale has room for. */
        AMAX_JUMP,
        /** Relative error of the product of quantised operands. */
        CAST_ERROR,
        /** Steps that a delayed scale which does not fit has stayed the same. */
        SCALE_AGE;

        /** Its name in configurations and files. */
        public String key() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    /**
     * Two limits of one trigger.
     *
     * @param demote a reading above it demotes
     * @param promote a reading up to it is quiet; below {@code demote}
     */
    public record Limit(double demote, double promote) {}

    public GuardConfig {
        demote = List.copyOf(demote);
    }

    /** A guard that watches no product. */
    private static GuardConfig ofRun(Optional<SpikeConfig> spike, Optional<Path> replay) {
        return new GuardConfig(0, 0, 1, List.of(), 1, 1, NO_LIMIT, NO_LIMIT, NO_LIMIT, NO_LIMIT, 1, 1, spike, replay);
    }

    /** Whether anything is watched or repeated. */
    public boolean isOn() {
        return watchesProducts() || spike.isPresent() || replay.isPresent();
    }

    /** The limits of a trigger. */
    public Limit limit(Trigger trigger) {
        return switch (trigger) {
            case CLIPPED -> clipped;
            case UNDERFLOWED -> underflowed;
            case AMAX_JUMP -> amaxJump;
            case CAST_ERROR -> castError;
            case SCALE_AGE -> new Limit(scaleAge, 0);
        };
    }

    /** Whether products of Linears are measured and may be demoted. */
    public boolean watchesProducts() {
        return every > 0;
    }

    /**
     * Reads the key from a whole configuration; {@link #NONE} where it is not given.
     *
     * @param folder base of relative paths
     * @throws dev.octet.formats.error.InvalidOptionException for rules that contradict each other; the message has the line number
     */
    static GuardConfig read(Section run, PrecisionConfig precision, NonFinitePolicy onNonFinite, Path folder) {
        if (!run.has(KEY)) {
            return NONE;
        }
        GuardConfig config = run.section(KEY).read(s -> read(s, precision, folder));
        if (config.spike.isPresent() && onNonFinite == NonFinitePolicy.STOP) {
            throw run.error(
                    "on_non_finite",
                    "guard.spike would roll back a step that is not finite, and stop would end the run at it",
                    "leave out on_non_finite, or guard.spike");
        }
        return config;
    }

    private static GuardConfig read(Section s, PrecisionConfig precision, Path folder) {
        Optional<Path> replay = s.path(REPLAY, folder);
        if (replay.isPresent()) {
            s.written().stream()
                    .map(w -> w.key().substring(KEY.length() + 1))
                    .filter(k -> !k.equals(REPLAY) && !k.contains("."))
                    .findFirst()
                    .ifPresent(k -> {
                        throw s.error(
                                k,
                                "replay repeats the decisions of another run and measures nothing, so " + k
                                        + " has no effect",
                                "leave out " + k + ", or replay");
                    });
        }
        Optional<SpikeConfig> spike =
                s.has(SPIKE) ? Optional.of(s.section(SPIKE).read(SpikeConfig::read)) : Optional.empty();
        if (!precision.isFp8()) {
            return withoutFp8(s, precision, spike, replay);
        }
        long every = s.whole(EVERY, USUAL_EVERY, 1, Long.MAX_VALUE);
        long quiet = s.whole(QUIET, Math.max(every, USUAL_QUIET), 1, Long.MAX_VALUE);
        if (quiet < every) {
            throw s.error(
                    s.has(QUIET) ? QUIET : EVERY,
                    "quiet: " + quiet + " promotes a product before it is measured again: every: " + every,
                    "give quiet of at least " + every + ", or a smaller every");
        }
        long usualMax = quiet > Long.MAX_VALUE / USUAL_BACK_OFF ? Long.MAX_VALUE : USUAL_BACK_OFF * quiet;
        long maxQuiet = s.whole(MAX_QUIET, usualMax, 1, Long.MAX_VALUE);
        if (maxQuiet < quiet) {
            throw s.error(MAX_QUIET, "max_quiet is below quiet: " + quiet, "give at least " + quiet);
        }
        return new GuardConfig(
                every,
                s.whole("warm_up", USUAL_WARM_UP, 0, Long.MAX_VALUE),
                (int) s.whole("sample", USUAL_SAMPLE, 1, 4096),
                levels(s, (Fp8Policy) precision.policy()),
                quiet,
                maxQuiet,
                limit(s, "clipped", USUAL_CLIPPED, 1),
                limit(s, "underflowed", USUAL_UNDERFLOWED, 1),
                limit(s, "amax_jump", USUAL_AMAX_JUMP, Double.MAX_VALUE),
                limit(s, "cast_error", USUAL_CAST_ERROR, Double.MAX_VALUE),
                s.whole("scale_age", USUAL_SCALE_AGE, 1, Long.MAX_VALUE),
                s.number("scale_drift", USUAL_SCALE_DRIFT, 1, Double.MAX_VALUE),
                spike,
                replay);
    }

    /**
     * Refuses debug features that say how products are scaled or rounded, while the guard would change that. A product that debug takes out of
     * FP8 leaves nothing to the guard.
     */
    void requireFree(Section run, DebugSettings debug) {
        boolean fixed = debug.sections().stream()
                .flatMap(d -> d.features().stream())
                .anyMatch(f -> f instanceof Feature.PerTensorScaling || f instanceof Feature.FakeQuant);
        if (fixed && (watchesProducts() || replay.isPresent())) {
            throw run.error(
                    KEY,
                    "debug fixes how products are computed, with PerTensorScaling or FakeQuant, and guard would change"
                            + " that",
                    "leave out these features, or guard");
        }
    }

    /** A guard of the whole run alone: nothing is cast, so there is no product to demote. */
    private static GuardConfig withoutFp8(
            Section s, PrecisionConfig precision, Optional<SpikeConfig> spike, Optional<Path> replay) {
        String what = precision.msamp().isPresent()
                ? "mode msamp has no level to demote a product to: its weights are there in few bits only"
                : "mode " + precision.mode() + " casts nothing to FP8, so no product can be demoted";
        String fix = "keep only guard: {spike: ...}, or choose precision: {mode: fp8}";
        s.written().stream()
                .map(w -> w.key().substring(KEY.length() + 1))
                .filter(k -> !k.contains(".") && !k.equals(SPIKE) && !k.equals(REPLAY))
                .findFirst()
                .ifPresent(k -> {
                    throw s.error(k, what, fix);
                });
        if (spike.isEmpty() && replay.isEmpty()) {
            throw s.error(SPIKE, what, fix);
        }
        return ofRun(spike, replay);
    }

    private static List<Level> levels(Section s, Fp8Policy policy) {
        boolean delayed = policy.settings().recipe().isDelayed()
                || policy.settings().overrides().stream()
                        .map(LayerOverride::recipe)
                        .filter(Objects::nonNull)
                        .anyMatch(GuardConfig::isDelayed);
        if (!s.has(DEMOTE)) {
            return delayed ? List.of(Level.CURRENT, Level.HIGH_PRECISION) : List.of(Level.HIGH_PRECISION);
        }
        Map<String, Level> names = new LinkedHashMap<>();
        names.put(Level.CURRENT.key(), Level.CURRENT);
        names.put(Level.HIGH_PRECISION.key(), Level.HIGH_PRECISION);
        List<Level> levels = new ArrayList<>();
        for (String name : s.texts(DEMOTE)) {
            Level level = names.get(name);
            if (level == null) {
                throw s.error(DEMOTE, "unknown level '" + name + "'", "valid: " + String.join(", ", names.keySet()));
            }
            if (level == Level.CURRENT && !delayed) {
                throw s.error(
                        DEMOTE,
                        "recipe " + policy.settings().recipe().name()
                                + " has no delayed scale that current scaling could replace",
                        "demote: [high_precision]");
            }
            if (!levels.isEmpty() && levels.getLast().compareTo(level) >= 0) {
                throw s.error(
                        DEMOTE,
                        "'" + name + "' is not below '" + levels.getLast().key() + "'",
                        "as in " + DEMOTE + ": [current, high_precision]");
            }
            levels.add(level);
        }
        if (levels.isEmpty()) {
            throw s.error(DEMOTE, "no level is left to demote to", "leave demote out, or give [high_precision]");
        }
        return levels;
    }

    private static boolean isDelayed(@Nullable TrainingRecipe recipe) {
        return recipe != null && recipe.isDelayed();
    }

    private static Limit limit(Section s, String key, Limit usual, double max) {
        if (!s.has(key)) {
            return usual;
        }
        return s.section(key).read(l -> {
            double demote = l.number(DEMOTE, usual.demote(), 0, max);
            double promote = l.number(PROMOTE, Math.min(usual.promote(), demote / 2), 0, max);
            if (promote >= demote) {
                throw l.error(
                        l.has(PROMOTE) ? PROMOTE : DEMOTE,
                        "a product promoted at up to " + promote + " would be demoted again: demote is " + demote,
                        "give a promote below demote");
            }
            return new Limit(demote, promote);
        });
    }
}
