package dev.octet.trainer.dialect;

import dev.octet.trainer.optimizer.ScheduleType;
import dev.octet.trainer.yaml.HjsonFile;
import dev.octet.trainer.yaml.Section;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** The learning-rate schedule of TrainingArguments, as transformers' get_scheduler makes it. */
final class TrainingArgumentsSchedule {
    private static final String SCHEDULE = "lr_scheduler_type";
    private static final String KWARGS = "lr_scheduler_kwargs";

    /** What GreedyLR counts in evaluations; {@code schedule.warmup} counts steps. */
    private static final String GREEDY_WARMUP = "warmup";

    private final Draft draft;
    private final Section file;

    private TrainingArgumentsSchedule(Draft draft, Section file) {
        this.draft = draft;
        this.file = file;
    }

    static void read(Draft draft, Section file) {
        new TrainingArgumentsSchedule(draft, file).schedule();
    }

    private void schedule() {
        String name = draft.word(SCHEDULE);
        String here = name.equals("constant_with_warmup") ? "constant" : name;
        ScheduleType type = ScheduleType.CONSTANT;
        if (!ScheduleType.byName().containsKey(here) || !here.equals(here.toLowerCase(Locale.ROOT))) {
            draft.problem(
                    SCHEDULE,
                    "transformers has no schedule '" + draft.text(SCHEDULE) + "'",
                    "write linear, cosine, constant or polynomial");
        } else {
            draft.applied(SCHEDULE, "schedule.type", here, "");
            type = ScheduleType.byName().get(here);
            options(type);
        }
        if (draft.has(KWARGS) && !draft.decided().contains(KWARGS)) {
            draft.noEffect(KWARGS, "There is no schedule that takes it.");
        }
        String steps = "warmup_steps";
        String ratio = "warmup_ratio";
        if (name.equals("constant") || !type.hasWarmup()) {
            for (String key : List.of(steps, ratio)) {
                if (draft.has(key)) {
                    draft.noEffect(
                            key,
                            "The schedule " + name + " has no warm-up"
                                    + (name.equals("constant") ? "; constant_with_warmup has." : "."));
                }
            }
            return;
        }
        if (draft.has(steps) && draft.isWithin(steps, 0, Integer.MAX_VALUE) && draft.number(steps) > 0) {
            draft.applied(
                    steps,
                    "schedule.warmup",
                    warmup(steps),
                    draft.number(steps) < 1 ? "A share of the run's steps." : "");
            if (draft.has(ratio)) {
                draft.noEffect(ratio, "warmup_steps decides.");
            }
            return;
        }
        if (draft.has(steps) && !draft.isMistaken(steps)) {
            draft.noEffect(steps, "0 is no warm-up.");
        }
        if (draft.has(ratio) && draft.isWithin(ratio, 0, 1)) {
            if (draft.number(ratio) > 0 && draft.number(ratio) < 1) {
                draft.applied(ratio, "schedule.warmup", warmup(ratio), "A share of the run's steps.");
            } else if (draft.number(ratio) == 0) {
                draft.noEffect(ratio, "0 is no warm-up.");
            } else {
                draft.refused(ratio, "The whole run would be warm-up: write warmup_steps.");
            }
        }
    }

    private String warmup(String key) {
        return draft.number(key) >= 1
                ? DeepSpeed.plain(Math.ceil(draft.number(key)))
                : String.valueOf(draft.number(key));
    }

    /** {@code lr_scheduler_kwargs}: an object, or its text as transformers takes it from a command line. */
    private void options(ScheduleType type) {
        if (!draft.has(KWARGS)) {
            return;
        }
        String prefix = KWARGS + ".";
        Map<String, String> all = new LinkedHashMap<>();
        if (draft.isText(KWARGS) && draft.text(KWARGS).startsWith("{")) {
            HjsonFile.parse(draft.text(KWARGS), draft.file()).written().forEach(w -> all.put(w.key(), w.value()));
        } else {
            file.written().stream()
                    .filter(w -> w.key().startsWith(prefix))
                    .forEach(w -> all.put(w.key().substring(prefix.length()), w.value()));
        }
        if (type == ScheduleType.GREEDY) {
            all.remove("verbose"); // it prints
            if (all.containsKey(GREEDY_WARMUP)) {
                all.put("warmup_evaluations", all.remove(GREEDY_WARMUP));
            }
        }
        List<String> unknown =
                all.keySet().stream().filter(k -> type.option(k).isEmpty()).toList();
        if (!unknown.isEmpty()) {
            draft.problem(
                    KWARGS,
                    "the schedule " + type.key() + " has no " + String.join(", ", unknown)
                            + ", and transformers fails with it",
                    "remove it, or choose another lr_scheduler_type");
        } else if (all.isEmpty()) {
            draft.noEffect(KWARGS, "It is empty: the defaults count.");
        } else {
            draft.mapped(
                    KWARGS,
                    "",
                    all.entrySet().stream()
                            .map(e -> draft.setting("schedule." + e.getKey(), e.getValue(), KWARGS))
                            .toArray(Setting[]::new));
        }
    }
}
