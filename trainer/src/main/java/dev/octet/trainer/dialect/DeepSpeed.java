package dev.octet.trainer.dialect;

import dev.octet.trainer.yaml.Section;
import java.util.List;
import java.util.Locale;

/**
 * What a JSON of DeepSpeed really does in one process: the keys of {@link DeepSpeedKeys} that depend on others. Rules are those of
 * deepspeed/runtime/config.py, engine.py and precision_config.py.
 */
final class DeepSpeed {
    private static final String TRAIN = "train_batch_size";
    private static final String MICRO = "train_micro_batch_size_per_gpu";
    private static final String ACCUMULATION = "gradient_accumulation_steps";
    private static final String CLIPPING = "gradient_clipping";

    /** The version whose default of gradient_clipping became 1.0 (#8068). */
    private static final List<Integer> CLIPS_BY_DEFAULT = List.of(0, 19, 3);

    private final Draft draft;
    private final Given given;

    private DeepSpeed(Draft draft, Given given) {
        this.draft = draft;
        this.given = given;
    }

    /** @param given what is known besides the file */
    static Reading read(Section file, Given given) {
        Draft draft = new Draft(Dialect.DEEPSPEED, file);
        // the sections that pydantic checks take numbers in quotes, the rest of DeepSpeed fails with them
        for (String key : draft.quotedNumbers()) {
            if (key.indexOf('.') < 0 || key.startsWith("optimizer.params.") || key.startsWith("scheduler.params.")) {
                draft.problem(
                        key,
                        "'" + key + "' is the text \"" + draft.text(key) + "\", not a number",
                        "remove the quotes");
            }
        }
        DeepSpeedAuto.fill(draft, given);
        DeepSpeed reading = new DeepSpeed(draft, given);
        reading.batch();
        reading.clipping();
        DeepSpeedPrecision.read(draft);
        DeepSpeedOptimizer.read(draft);
        DeepSpeedSchedule.read(draft);
        DeepSpeedZero.read(draft, given);
        DeepSpeedMesh.read(draft);
        return draft.finish();
    }

    /**
     * The solver of batch sizes, with world size 1: two of the three keys give the third by integer division, one alone is both batch and micro-batch;
     * the result must be positive and multiply exactly.
     */
    private void batch() {
        for (String key : List.of(TRAIN, MICRO, ACCUMULATION)) {
            if (draft.has(key) && (draft.number(key) < 1 || draft.number(key) > Integer.MAX_VALUE)) {
                draft.problem(key, key + " is " + draft.text(key), "give a whole number of at least 1");
            }
        }
        boolean train = draft.has(TRAIN);
        boolean micro = draft.has(MICRO);
        boolean accumulation = draft.has(ACCUMULATION);
        if (!train && !micro) {
            if (!draft.isMistaken(TRAIN) && !draft.isMistaken(MICRO)) {
                draft.problem(
                        TRAIN,
                        "neither " + TRAIN + " nor " + MICRO + " is given",
                        "add \"" + MICRO + "\": 8, or another number of samples");
            }
            unsolved();
            return;
        }
        long batch = train ? draft.whole(TRAIN) : 0;
        long steps = accumulation ? draft.whole(ACCUMULATION) : train && micro ? batch / draft.whole(MICRO) : 1;
        long samples = micro ? draft.whole(MICRO) : batch / steps;
        batch = train ? batch : samples * steps;
        if (steps < 1 || samples < 1 || samples * steps != batch) {
            draft.problem(
                    train ? TRAIN : MICRO,
                    TRAIN + " " + batch + " is not " + MICRO + " " + samples + " x " + ACCUMULATION + " " + steps
                            + " x 1 process",
                    "give two of the three, so that they multiply");
            unsolved();
            return;
        }
        Setting size = draft.setting("batch_size", String.valueOf(samples), micro ? MICRO : TRAIN);
        Setting often =
                draft.setting("gradient_accumulation", String.valueOf(steps), accumulation ? ACCUMULATION : TRAIN);
        if (micro) {
            draft.mapped(MICRO, "Samples of a micro-batch; there is one process.", size);
        }
        if (accumulation) {
            draft.mapped(ACCUMULATION, "", often);
        }
        if (train) {
            String reason = micro || accumulation
                    ? "Samples of a step: " + samples + " x " + steps + "."
                    : "Alone it is the size of one micro-batch.";
            if (micro && accumulation) {
                draft.mapped(TRAIN, reason);
            } else if (micro) {
                draft.mapped(TRAIN, reason, often);
            } else if (accumulation) {
                draft.mapped(TRAIN, reason, size);
            } else {
                draft.mapped(TRAIN, reason, size, often);
            }
        }
    }

    /** The other keys of a batch size that cannot be used. */
    private void unsolved() {
        List.of(TRAIN, MICRO, ACCUMULATION).stream()
                .filter(draft::has)
                .forEach(key -> draft.noEffect(key, "The batch sizes of the file cannot be used."));
    }

    /** The largest norm of the gradients, whose default depends on the version of DeepSpeed. */
    private void clipping() {
        if (draft.has(CLIPPING)) {
            clipped("");
            return;
        }
        boolean clips = given.version().map(v -> isAtLeast(v, CLIPS_BY_DEFAULT)).orElse(true);
        String rule = "The default is 1.0 from DeepSpeed 0.19.3 on (June 2026); before it was 0, no clipping";
        if (clips) {
            clipped(rule + (given.version().isPresent() ? "." : ". --deepspeed-version says which counts."));
        } else {
            draft.noEffect(CLIPPING, rule + ": DeepSpeed " + given.version().orElseThrow() + " does not clip.");
        }
    }

    private void clipped(String reason) {
        if (draft.number(CLIPPING) > 0) {
            draft.applied(CLIPPING, "clip_grad_norm", draft.text(CLIPPING), reason);
        } else {
            draft.noEffect(CLIPPING, "With 0 gradients are not clipped.");
        }
    }

    private static boolean isAtLeast(String version, List<Integer> least) {
        String[] parts = version.split("[^0-9]+", -1);
        for (int i = 0; i < least.size(); i++) {
            int part = i < parts.length && parts[i].matches("[0-9]{1,6}") ? Integer.parseInt(parts[i]) : 0;
            if (part != least.get(i)) {
                return part > least.get(i);
            }
        }
        return true;
    }

    /** A number without digits that say nothing: 1.0, 5.0E-5 and 1e3 as 1.0, 5.0e-5 and 1000. */
    static String plain(double number) {
        return number == Math.rint(number) && Math.abs(number) < 1e9
                ? String.valueOf((long) number)
                : String.valueOf(number).toLowerCase(Locale.ROOT);
    }
}
