package dev.octet.trainer.dialect;

import java.util.List;

/** When a run of TrainingArguments evaluates and writes checkpoints, and which of them counts, as training_args.py and trainer.py have it. */
final class TrainingArgumentsEvents {
    private static final String EVERY = "checkpoint.every";
    private static final String BEST_HERE = "checkpoint.best";
    private static final String GREATER_HERE = "checkpoint.greater_is_better";
    private static final String AT_END = "load_best_model_at_end";
    private static final String METRIC = "metric_for_best_model";
    private static final String GREATER = "greater_is_better";
    private static final String SAVE = "save_strategy";
    private static final String NO = "no";
    private static final String STEPS = "steps";
    private static final String EPOCH = "epoch";
    private static final String BEST = "best";

    /** What evaluations of a run measure. */
    private static final List<String> MEASURES = List.of("loss", "perplexity");

    private final Draft draft;
    private final long steps;

    private TrainingArgumentsEvents(Draft draft, long steps) {
        this.draft = draft;
        this.steps = steps;
    }

    /** @param steps of the run; 0 where they are not known */
    static void read(Draft draft, long steps) {
        TrainingArgumentsEvents reading = new TrainingArgumentsEvents(draft, steps);
        reading.evaluation();
        reading.checkpoints();
        reading.best();
    }

    /** Steps between two events: a number, or below 1 a share of the run's; 0 where it needs the run's length and that is not known. */
    private long every(String key, String from) {
        double number = KeyType.number(draft.text(from));
        if (number >= 1) {
            if (number != Math.rint(number) || number > Integer.MAX_VALUE) {
                draft.problem(key, key + " is " + draft.text(from), "give a whole number of steps, or a share below 1");
                return 0;
            }
            return (long) number;
        }
        if (number < 0 || number == 0) {
            draft.problem(key, key + " is " + draft.text(from), "give a number of steps, or a share below 1");
            return 0;
        }
        if (steps == 0) {
            draft.refused(key, "A share of the run's steps needs max_steps, or steps in --config.");
            return 0;
        }
        return (long) Math.ceil(steps * number);
    }

    /** What evaluations are asked for by {@code eval_strategy} or an older name of it. */
    private String strategy() {
        return draft.has("eval_strategy")
                ? draft.word("eval_strategy")
                : draft.has("evaluation_strategy")
                        ? draft.word("evaluation_strategy")
                        : draft.has("evaluate_during_training") && draft.flag("evaluate_during_training") ? STEPS : NO;
    }

    private void evaluation() {
        String key = draft.has("eval_strategy") ? "eval_strategy" : "evaluation_strategy";
        if (!draft.has(key) && draft.has("evaluate_during_training") && draft.flag("evaluate_during_training")) {
            key = "evaluate_during_training";
        }
        String strategy = strategy();
        if (draft.has("evaluation_strategy") && !key.equals("evaluation_strategy")) {
            draft.noEffect("evaluation_strategy", "The older name of eval_strategy, which is there too.");
        }
        if (draft.has("evaluate_during_training") && !key.equals("evaluate_during_training")) {
            draft.noEffect("evaluate_during_training", "The older name of eval_strategy: steps.");
        }
        switch (strategy) {
            case NO -> {
                if (draft.has(key)) {
                    draft.noEffect(key, "With data.eval there is one evaluation, after the last step.");
                }
            }
            case STEPS -> {
                boolean own = draft.has("eval_steps") && draft.number("eval_steps") != 0;
                String from = own ? "eval_steps" : "logging_steps";
                long every = draft.isMistaken(from)
                        ? 0
                        : every(own ? "eval_steps" : key, draft.has(from) ? from : "save_steps");
                if (every > 0) {
                    Setting setting = draft.setting("eval_every", String.valueOf(every), own ? "eval_steps" : key);
                    draft.mapped(key, own ? "" : "Without eval_steps logging_steps counts.", setting);
                    if (own) {
                        draft.mapped(
                                "eval_steps",
                                draft.number("eval_steps") < 1 ? "A share of the run's steps." : "",
                                setting);
                    }
                } else if (!draft.decided().contains(key)) {
                    draft.mapped(key, "Evaluations come every eval_steps.");
                }
            }
            case EPOCH -> draft.mapped(key, "", draft.setting("eval_every", EPOCH, key));
            default ->
                draft.problem(key, "there is no " + key + " '" + draft.text(key) + "'", "write no, steps or epoch");
        }
        if (draft.has("eval_steps") && !draft.decided().contains("eval_steps")) {
            draft.noEffect("eval_steps", "It counts with eval_strategy: steps only.");
        }
        delay(strategy);
        start();
    }

    private void delay(String strategy) {
        String key = "eval_delay";
        if (!draft.has(key)) {
            return;
        }
        if (draft.number(key) <= 0) {
            draft.noEffect(key, "0 is no delay.");
        } else if (strategy.equals(NO)) {
            draft.noEffect(key, "It counts with eval_strategy: steps or epoch only.");
        } else {
            draft.applied(
                    key, key, draft.text(key), "Here the last step is evaluated in any case, and counts for the best.");
        }
    }

    private void start() {
        String key = "eval_on_start";
        if (draft.has(key) && draft.flag(key)) {
            draft.applied(key, key, "true", "A resumed run does not repeat it.");
        } else if (draft.has(key)) {
            draft.noEffect(key, "It is off.");
        }
    }

    private void checkpoints() {
        String key = "save_strategy";
        String strategy = draft.word(key);
        switch (strategy) {
            case STEPS -> {
                if (!draft.isMistaken("save_steps")) {
                    long every = every("save_steps", "save_steps");
                    if (every > 0) {
                        Setting setting = draft.setting(
                                EVERY, String.valueOf(every), draft.has("save_steps") ? "save_steps" : key);
                        if (draft.has("save_steps")) {
                            draft.mapped(
                                    "save_steps",
                                    draft.number("save_steps") < 1 ? "A share of the run's steps." : "",
                                    setting);
                        }
                        if (draft.has(key)) {
                            draft.mapped(key, "", setting);
                        }
                    } else if (draft.has(key)) {
                        draft.mapped(key, "Checkpoints come every save_steps.");
                    }
                } else if (draft.has(key)) {
                    draft.mapped(key, "Checkpoints come every save_steps.");
                }
            }
            case NO -> draft.mapped(key, "The last step always writes one.", draft.setting(EVERY, "0", key));
            case EPOCH -> draft.mapped(key, "", draft.setting(EVERY, EPOCH, key));
            case BEST -> {
                if (!draft.has(METRIC)) {
                    draft.problem(
                            key,
                            "save_strategy is best, but metric_for_best_model is missing, and transformers refuses"
                                    + " that",
                            "add \"metric_for_best_model\": \"loss\"");
                } else {
                    draft.mapped(
                            key, "Each evaluation that is the best so far writes one.", draft.setting(EVERY, "0", key));
                }
            }
            default ->
                draft.problem(
                        key, "there is no save_strategy '" + draft.text(key) + "'", "write no, steps, epoch or best");
        }
        if (draft.has("save_steps") && !draft.decided().contains("save_steps")) {
            draft.noEffect("save_steps", "It counts with save_strategy: steps only.");
        }
        if (draft.has("save_total_limit") && draft.isWithin("save_total_limit", 1, Integer.MAX_VALUE)) {
            draft.applied("save_total_limit", "checkpoint.keep", DeepSpeed.plain(draft.number("save_total_limit")), "");
        }
    }

    /** {@code load_best_model_at_end} and what belongs to it: the best checkpoint, and the measure that some schedules follow. */
    private void best() {
        boolean atEnd = draft.flag(AT_END);
        boolean saved = draft.word(SAVE).equals(BEST);
        String schedule = draft.word("lr_scheduler_type");
        boolean follows = schedule.equals("reduce_lr_on_plateau") || schedule.equals("greedy");
        if (follows && strategy().equals(NO)) {
            draft.problem(
                    "lr_scheduler_type",
                    schedule + " follows evaluations, and eval_strategy is no; transformers refuses that",
                    "write \"eval_strategy\": \"epoch\"");
        }
        if (saved && strategy().equals(NO)) {
            draft.problem(SAVE, "save_strategy is best, but eval_strategy is no", "write \"eval_strategy\": \"epoch\"");
        }
        boolean counts = atEnd || saved || (follows && draft.has(METRIC));
        if (atEnd && !saved && !matches()) {
            undecided("load_best_model_at_end is a mistake as it is.");
            return;
        }
        if (!counts || (strategy().equals(NO) && !follows)) {
            undecided(
                    atEnd
                            ? "Without evaluations there is no best checkpoint: the last weights stay."
                            : "No checkpoint is chosen by a measure.");
            return;
        }
        String metric = draft.has(METRIC) ? draft.text(METRIC).replaceFirst("^eval_", "") : "loss";
        if (!MEASURES.contains(metric)) {
            draft.refused(
                    METRIC,
                    "Evaluations here measure " + String.join(", ", MEASURES)
                            + "; what compute_metrics of a program measures is not here.");
            undecided("It is about metric_for_best_model, which is refused.");
            return;
        }
        Setting best = draft.setting(BEST_HERE, metric, draft.has(METRIC) ? METRIC : AT_END);
        if (draft.has(AT_END) && atEnd) {
            draft.mapped(AT_END, "The run's folder keeps it: octet export RUN --step best.", best);
        } else if (draft.has(AT_END)) {
            draft.noEffect(AT_END, "It is off.");
        }
        // transformers: greater is better but for names that end as loss
        String greater = draft.has(GREATER) ? draft.word(GREATER) : String.valueOf(!metric.endsWith("loss"));
        String flag = String.valueOf(KeyType.isTrue(greater));
        Setting compares = draft.setting(GREATER_HERE, flag, draft.has(GREATER) ? GREATER : METRIC);
        if (draft.has(METRIC)) {
            draft.mapped(METRIC, follows ? "The schedule follows it, too." : "", best, compares);
        }
        if (draft.has(GREATER)) {
            draft.mapped(GREATER, "", compares);
        }
    }

    /** Says of the keys that nothing was said of yet that they have no effect. */
    private void undecided(String reason) {
        for (String key : List.of(AT_END, METRIC, GREATER)) {
            if (draft.has(key) && !draft.decided().contains(key)) {
                draft.noEffect(key, reason);
            }
        }
    }

    /** Whether evaluations and checkpoints come together, as transformers demands of {@code load_best_model_at_end}; otherwise a mistake. */
    private boolean matches() {
        String save = draft.word(SAVE);
        if (!save.equals(strategy())) {
            draft.problem(
                    AT_END,
                    "load_best_model_at_end needs the same strategy for both, but eval_strategy is " + strategy()
                            + " and save_strategy " + save + "; transformers refuses that",
                    "write \"eval_strategy\": \"" + (save.equals(NO) ? EPOCH : save) + "\"");
            return false;
        }
        if (save.equals(STEPS) && draft.has("eval_steps") && draft.number("eval_steps") > 0) {
            double ratio = draft.number("save_steps") / draft.number("eval_steps");
            if (Math.abs(ratio - Math.rint(ratio)) > 1e-9) {
                draft.problem(
                        AT_END,
                        "save_steps " + draft.text("save_steps") + " is no multiple of eval_steps "
                                + draft.text("eval_steps") + "; transformers refuses that",
                        "make it one");
                return false;
            }
        }
        return true;
    }
}
