package dev.octet.trainer.dialect;

import dev.octet.trainer.optimizer.ScheduleOption;
import dev.octet.trainer.optimizer.ScheduleType;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * The schedule of learning rates that a JSON of DeepSpeed names: one of its own (deepspeed/runtime/lr_schedules.py), or else one of
 * torch.optim.lr_scheduler (engine.py, {@code _scheduler_from_config}); those of the same name here.
 */
final class DeepSpeedSchedule {
    private static final String TYPE = "scheduler.type";
    private static final String PARAMS = "scheduler.params.";
    private static final String HERE = "schedule.";
    private static final String WARMUP_TYPE = PARAMS + "warmup_type";

    /** Schedules by the names that DeepSpeed knows. */
    private static final Map<String, ScheduleType> TYPES = Arrays.stream(ScheduleType.values())
            .filter(t -> Character.isUpperCase(t.key().charAt(0)))
            .collect(Collectors.toMap(ScheduleType::key, t -> t));

    /** Those of them that DeepSpeed itself has; the others are torch's. */
    private static final Set<ScheduleType> OWN = EnumSet.of(
            ScheduleType.WARMUP_LR,
            ScheduleType.WARMUP_DECAY_LR,
            ScheduleType.WARMUP_COSINE_LR,
            ScheduleType.ONE_CYCLE,
            ScheduleType.LR_RANGE_TEST);

    /** torch's other schedules: why a JSON cannot have them. */
    private static final Map<String, String> OF_PROGRAMS = Map.of(
            "LambdaLR", "It takes a function, which no JSON holds.",
            "MultiplicativeLR", "It takes a function, which no JSON holds.",
            "SequentialLR", "It takes schedules of a program, which no JSON holds.",
            "ChainedScheduler", "It takes schedules of a program, which no JSON holds.",
            "ReduceLROnPlateau",
                    "DeepSpeed gives it the batch size as its measure; write schedule: {type: reduce_lr_on_plateau}"
                            + " into the run's configuration.");

    /** Parameters without a default. */
    private static final Map<ScheduleType, List<String>> REQUIRED = Map.of(
            ScheduleType.WARMUP_DECAY_LR, List.of("total_num_steps"),
            ScheduleType.WARMUP_COSINE_LR, List.of("total_num_steps"),
            ScheduleType.ONE_CYCLE, List.of("cycle_min_lr", "cycle_max_lr"),
            ScheduleType.STEP_LR, List.of("step_size"),
            ScheduleType.MULTI_STEP_LR, List.of("milestones"),
            ScheduleType.EXPONENTIAL_LR, List.of("gamma"),
            ScheduleType.COSINE_ANNEALING_LR, List.of("T_max"),
            ScheduleType.COSINE_ANNEALING_WARM_RESTARTS, List.of("T_0"),
            ScheduleType.CYCLIC_LR, List.of("base_lr", "max_lr"),
            ScheduleType.ONE_CYCLE_LR, List.of("max_lr"));

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
            String name = draft.text(TYPE);
            String reason = OF_PROGRAMS.get(name);
            if (reason == null) {
                draft.problem(
                        TYPE,
                        "neither DeepSpeed nor torch has a schedule '" + name + "'",
                        "write one of " + TYPES.keySet().stream().sorted().collect(Collectors.joining(", ")));
            } else {
                draft.refused(TYPE, reason);
            }
            draft.below("scheduler.params")
                    .forEach(key -> draft.noEffect(
                            key, reason == null ? "The schedule is a mistake." : "The schedule is refused."));
            return;
        }
        draft.mapped(
                TYPE, OWN.contains(type) ? quirk(type) : wrapped(), draft.setting(HERE + "type", type.key(), TYPE));
        for (String name : REQUIRED.getOrDefault(type, List.of())) {
            if (!draft.has(PARAMS + name) && !draft.isAuto(PARAMS + name)) {
                draft.problem(PARAMS + name, type.key() + " needs " + name, "add \"" + name + "\" to scheduler.params");
            }
        }
        if (type == ScheduleType.ONE_CYCLE_LR) {
            length();
        }
        for (String key : draft.below("scheduler.params")) {
            if (draft.has(key) && !draft.decided().contains(key)) {
                parameter(type, key);
            }
        }
    }

    /** OneCycleLR's length: total_steps, else epochs times steps_per_epoch. */
    private void length() {
        String total = PARAMS + "total_steps";
        List<String> factors = List.of(PARAMS + "epochs", PARAMS + "steps_per_epoch");
        if (draft.has(total) || draft.isAuto(total)) {
            for (String key : factors) {
                if (draft.has(key)) {
                    draft.noEffect(key, "total_steps decides.");
                }
            }
        } else if (factors.stream().allMatch(draft::has)) {
            if (factors.stream().allMatch(key -> draft.isWithin(key, 1, Integer.MAX_VALUE))) {
                long steps = draft.whole(factors.getFirst()) * draft.whole(factors.getLast());
                Setting setting = draft.setting(HERE + "total_steps", String.valueOf(steps), factors.getFirst());
                factors.forEach(key -> draft.mapped(key, "", setting));
            }
        } else {
            draft.problem(
                    total,
                    "OneCycleLR needs total_steps, or epochs and steps_per_epoch",
                    "add \"total_steps\" to scheduler.params");
            for (String key : factors) {
                if (draft.has(key)) {
                    draft.noEffect(key, "It counts with the other one only.");
                }
            }
        }
    }

    /** Where DeepSpeed's own optimizer stands before torch's, torch's schedules fail. */
    private String wrapped() {
        boolean wraps = (draft.has("fp16.enabled") && draft.flag("fp16.enabled"))
                || (draft.has("bf16.enabled") && draft.flag("bf16.enabled"))
                || (draft.has("zero_optimization.stage") && draft.number("zero_optimization.stage") > 0);
        return wraps
                ? "torch's. DeepSpeed fails with it and fp16, bf16 or ZeRO, whose optimizers are none of torch's."
                : "torch's: DeepSpeed takes those by name that it does not have.";
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
        } else if (name.equals("last_epoch") && !OWN.contains(type)) {
            if (draft.number(key) == -1) {
                draft.noEffect(key, "A run starts with its first step.");
            } else {
                draft.refused(key, "A run starts with its first step; --resume goes on with a schedule.");
            }
        } else if (name.equals("scale_fn") && type == ScheduleType.CYCLIC_LR) {
            draft.refused(key, "It is a function, which no JSON holds.");
        } else if (name.equals("scale_mode") && type == ScheduleType.CYCLIC_LR) {
            draft.noEffect(key, "It counts with scale_fn only.");
        } else if (option.isEmpty() || name.equals("delayed")) {
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
        } else if (option.get().kind() == ScheduleOption.Kind.WHOLES) {
            list(key, option.get());
        } else if (option.get().kind() != ScheduleOption.Kind.CHOICE) {
            if (draft.isWithin(key, option.get().least(), Math.min(option.get().most(), Integer.MAX_VALUE))) {
                draft.applied(key, HERE + name, value(key, option.get()), "");
            }
        } else if (!OWN.contains(type) && !option.get().choices().contains(truth(draft.word(key), option.get()))) {
            draft.problem(
                    key,
                    type.key() + " has no " + name + " '" + draft.text(key) + "', and torch fails with it",
                    "write " + String.join(", ", option.get().choices()));
        } else {
            draft.applied(key, HERE + name, value(key, option.get()), "");
        }
    }

    /** A list of whole numbers. */
    private void list(String key, ScheduleOption option) {
        String numbers = draft.text(key).replaceAll("[\\[\\] ]", "");
        if (numbers.matches("[0-9]{1,9}(,[0-9]{1,9})*")) {
            draft.applied(key, HERE + option.name(), "[" + numbers.replace(",", ", ") + "]", "");
        } else {
            draft.problem(key, key + " is " + draft.text(key), "give whole numbers, as [30, 60]");
        }
    }

    private String value(String key, ScheduleOption option) {
        return switch (option.kind()) {
            case NUMBER -> draft.text(key);
            case WHOLE -> DeepSpeed.plain(draft.number(key));
            case CHOICE -> truth(draft.word(key), option);
            case WHOLES -> throw new IllegalStateException("a list of " + option.name());
        };
    }

    /** A word as a choice has it: truths have several spellings. */
    private static String truth(String word, ScheduleOption option) {
        return option.choices().contains("true") ? String.valueOf(KeyType.isTrue(word)) : word;
    }

    private static String quirk(ScheduleType type) {
        return switch (type) {
            case WARMUP_LR, WARMUP_DECAY_LR, WARMUP_COSINE_LR ->
                "As in DeepSpeed the first two steps have the least rate: it counts from the second.";
            default -> "";
        };
    }
}
