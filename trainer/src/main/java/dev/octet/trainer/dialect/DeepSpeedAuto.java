package dev.octet.trainer.dialect;

import dev.octet.trainer.yaml.Section;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * {@code "auto"} in a JSON of DeepSpeed: what transformers fills it with from TrainingArguments, and which other values contradict these
 * (transformers/integrations/deepspeed.py, {@code trainer_config_process} and {@code trainer_config_finalize}).
 */
final class DeepSpeedAuto {
    /** A key and the arguments it is filled from. */
    private record Source(String key, String arguments, Value value, boolean mustMatch) {}

    /** Computes a value from arguments. */
    private interface Value {
        /** Empty where the length of the run is needed and not known. */
        Optional<String> of(DeepSpeedAuto auto);
    }

    private static final List<Source> SOURCES = List.of(
            source("train_micro_batch_size_per_gpu", "per_device_train_batch_size"),
            source("gradient_accumulation_steps", "gradient_accumulation_steps"),
            new Source(
                    "train_batch_size",
                    "per_device_train_batch_size x gradient_accumulation_steps",
                    a -> Optional.of(DeepSpeed.plain(
                            a.number("per_device_train_batch_size") * a.number("gradient_accumulation_steps"))),
                    true),
            source("gradient_clipping", "max_grad_norm"),
            source("optimizer.params.lr", "learning_rate"),
            new Source(
                    "optimizer.params.betas",
                    "adam_beta1, adam_beta2",
                    a -> Optional.of("[" + a.text("adam_beta1") + ", " + a.text("adam_beta2") + "]"),
                    true),
            source("optimizer.params.eps", "adam_epsilon"),
            source("optimizer.params.weight_decay", "weight_decay"),
            new Source("scheduler.params.warmup_min_lr", "no argument: always 0", _ -> Optional.of("0"), false),
            source("scheduler.params.warmup_max_lr", "learning_rate"),
            new Source(
                    "scheduler.params.total_num_steps",
                    "max_steps",
                    a -> a.steps().stream().mapToObj(String::valueOf).findFirst(),
                    true),
            new Source("scheduler.params.warmup_num_steps", "warmup_steps, warmup_ratio", DeepSpeedAuto::warmup, true),
            new Source("fp16.enabled", "fp16", a -> Optional.of(String.valueOf(a.flag("fp16"))), true),
            new Source("bf16.enabled", "bf16", a -> Optional.of(String.valueOf(a.flag("bf16"))), true));

    private final Section arguments;
    private final Given given;

    private DeepSpeedAuto(Section arguments, Given given) {
        this.arguments = arguments;
        this.given = given;
    }

    private static Source source(String key, String argument) {
        return new Source(key, argument, a -> Optional.of(a.text(argument)), true);
    }

    /** Fills every {@code "auto"}, or says which argument is missing; lists values that contradict the arguments. */
    static void fill(Draft draft, Given given) {
        if (given.arguments().isEmpty()) {
            for (Source source : SOURCES) {
                if (draft.isAuto(source.key())) {
                    draft.problem(
                            source.key(),
                            "\"auto\" of " + source.key() + " has no value: transformers fills it from "
                                    + source.arguments(),
                            "write the value, or give the TrainingArguments with --hf-args FILE");
                }
            }
            return;
        }
        DeepSpeedAuto auto = new DeepSpeedAuto(given.arguments().get(), given);
        for (Source source : SOURCES) {
            if (draft.isAuto(source.key())) {
                Optional<String> value = source.value().of(auto);
                if (value.isPresent()) {
                    draft.fill(source.key(), value.get(), source.arguments());
                } else {
                    draft.problem(
                            source.key(),
                            "\"auto\" of " + source.key() + " needs the number of steps, and max_steps is not given",
                            "write the value, or max_steps into the TrainingArguments");
                }
            } else if (draft.has(source.key()) && source.mustMatch()) {
                source.value()
                        .of(auto)
                        .filter(v -> !new Setting(source.key(), v, "", false).isSame(draft.text(source.key())))
                        .ifPresent(v -> {
                            draft.problem(
                                    source.key(),
                                    source.key() + " is " + draft.text(source.key()) + ", but " + source.arguments()
                                            + " of the" + " TrainingArguments gives " + v,
                                    "write \"auto\", or the same value in both");
                        });
            }
        }
    }

    private String text(String argument) {
        return arguments
                .text(argument)
                .or(() -> Dialect.TRANSFORMERS.keys().rule(argument).map(KeyRule::standard))
                .orElse("");
    }

    private double number(String argument) {
        return KeyType.number(text(argument));
    }

    private boolean flag(String argument) {
        return KeyType.isTrue(text(argument));
    }

    private OptionalLong steps() {
        return number("max_steps") > 0 ? OptionalLong.of((long) number("max_steps")) : given.steps();
    }

    /** {@code get_warmup_steps}, at least 1: a number of steps, or a share of the run's, rounded up. */
    private Optional<String> warmup() {
        double written = number("warmup_steps");
        double ratio = written > 0 && written < 1 ? written : written > 0 ? 0 : number("warmup_ratio");
        if (written >= 1) {
            return Optional.of(DeepSpeed.plain(written));
        }
        if (ratio == 0) {
            return Optional.of("1");
        }
        return steps().stream()
                .mapToObj(s -> DeepSpeed.plain(Math.max(1, Math.ceil(s * ratio))))
                .findFirst();
    }
}
