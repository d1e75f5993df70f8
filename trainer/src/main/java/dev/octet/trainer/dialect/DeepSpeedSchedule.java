package dev.octet.trainer.dialect;

import dev.octet.trainer.optimizer.ScheduleOption;
import dev.octet.trainer.optimizer.ScheduleType;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;

/** The schedule of learning rates that a JSON of DeepSpeed names (deepspeed/runtime/lr_schedules.py): those of the same name here. */
final class DeepSpeedSchedule {
    private static final String TYPE = "scheduler.type";
    private static final String PARAMS = "scheduler.params.";
    private static final String HERE = "schedule.";
    private static final String WARMUP_TYPE = PARAMS + "warmup_type";

    /** DeepSpeed's schedules by name. */
    private static final Map<String, ScheduleType> TYPES = Arrays.stream(ScheduleType.values())
            .filter(t -> Character.isUpperCase(t.key().charAt(0)))
            .collect(Collectors.toMap(ScheduleType::key, t -> t));

    /** Parameters without a default. */
    private static final Map<ScheduleType, List<String>> REQUIRED = Map.of(
            ScheduleType.WARMUP_DECAY_LR, List.of("total_num_steps"),
            ScheduleType.WARMUP_COSINE_LR, List.of("total_num_steps"),
            ScheduleType.ONE_CYCLE, List.of("cycle_min_lr", "cycle_max_lr"));

    private final Draft draft;

    private DeepSpeedSchedule(Draft draft) {
        this.draft = draft;
    }

    static void read(Draft draft) {
        new DeepSpeedSchedule(draft).read();
    }

    private void read() {
        if (!draft.has(TYPE)) {
            if (draft.hasSection("scheduler")) {
                draft.problem(
                        TYPE, "the scheduler has no type", "write \"type\": \"WarmupLR\", or remove the scheduler");
            }
            draft.below("scheduler.params").forEach(key -> draft.noEffect(key, "The schedule has no type."));
            return;
        }
        ScheduleType type = TYPES.get(draft.text(TYPE));
        if (type == null) {
            draft.refused(
                    TYPE,
                    "DeepSpeed has " + TYPES.keySet().stream().sorted().collect(Collectors.joining(", "))
                            + "; those of torch have other parameters: write schedule: into the run's configuration.");
            draft.below("scheduler.params").forEach(key -> draft.noEffect(key, "The schedule is refused."));
            return;
        }
        draft.mapped(TYPE, quirk(type), draft.setting(HERE + "type", type.key(), TYPE));
        for (String name : REQUIRED.getOrDefault(type, List.of())) {
            if (!draft.has(PARAMS + name) && !draft.isAuto(PARAMS + name)) {
                draft.problem(PARAMS + name, type.key() + " needs " + name, "add \"" + name + "\" to scheduler.params");
            }
        }
        for (String key : draft.below("scheduler.params")) {
            if (draft.has(key)) {
                parameter(type, key);
            }
        }
    }

    private void parameter(ScheduleType type, String key) {
        String name = key.substring(PARAMS.length());
        Optional<ScheduleOption> option = type.option(name);
        if (name.equals("last_batch_iteration")) {
            if (draft.number(key) == -1) {
                draft.noEffect(key, "A run starts with its first step.");
            } else {
                draft.refused(key, "A run starts with its first step; --resume goes on with a schedule.");
            }
        } else if (option.isEmpty()) {
            draft.problem(
                    key,
                    type.key() + " has no " + name,
                    "remove it; " + type.key() + " has "
                            + type.options().stream()
                                    .map(ScheduleOption::name)
                                    .filter(n -> !n.equals("delayed"))
                                    .collect(Collectors.joining(", ")));
        } else if (key.equals(WARMUP_TYPE) && !List.of("log", "linear").contains(draft.text(key))) {
            draft.mapped(key, "DeepSpeed takes an unknown type for log.", draft.setting(HERE + name, "log", key));
        } else if (option.get().kind() != ScheduleOption.Kind.CHOICE
                && draft.number(key) < option.get().least()) {
            draft.problem(
                    key,
                    key + " is " + draft.text(key),
                    "give a number of at least " + DeepSpeed.plain(option.get().least()));
        } else {
            draft.applied(key, HERE + name, value(key, option.get()), "");
        }
    }

    private String value(String key, ScheduleOption option) {
        return switch (option.kind()) {
            case NUMBER -> draft.text(key);
            case WHOLE -> DeepSpeed.plain(draft.number(key));
            case CHOICE -> draft.word(key);
        };
    }

    private static String quirk(ScheduleType type) {
        return switch (type) {
            case WARMUP_LR, WARMUP_DECAY_LR, WARMUP_COSINE_LR ->
                "As in DeepSpeed the first two steps have the least rate: it counts from the second.";
            default -> "";
        };
    }
}
