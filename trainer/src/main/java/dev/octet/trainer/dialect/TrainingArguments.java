package dev.octet.trainer.dialect;

import dev.octet.trainer.yaml.Section;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/**
 * What TrainingArguments of transformers really do: the keys of {@link TrainingArgumentsKeys} that depend on others; those of the optimizer, the
 * schedule, and evaluations and checkpoints have a class each. The rules are those of transformers 5.18.0: training_args.py,
 * trainer_optimizer.py, trainer.py and optimization.py, and of version 4 for keys that are gone.
 */
final class TrainingArguments {

    private final Draft draft;
    private final Section file;
    private final Given given;

    private TrainingArguments(Draft draft, Section file, Given given) {
        this.draft = draft;
        this.file = file;
        this.given = given;
    }

    /** @param given what is known besides the file */
    static Reading read(Section file, Given given) {
        Draft draft = new Draft(Dialect.TRANSFORMERS, file);
        TrainingArguments reading = new TrainingArguments(draft, file, given);
        reading.batch();
        reading.length();
        reading.seed();
        TrainingArgumentsOptimizer.read(draft);
        TrainingArgumentsSchedule.read(draft, file);
        reading.loss();
        reading.precision();
        TrainingArgumentsEvents.read(draft, reading.steps());
        draft.ranks(
                "parallelism_config.tp_size",
                "distributed.tensor",
                "Layers are found in the graph, whatever the plan.");
        reading.rest();
        return draft.finish();
    }

    private void batch() {
        String old = "per_gpu_train_batch_size";
        String key = "per_device_train_batch_size";
        if (draft.has(old)) {
            if (draft.has(key)) {
                draft.noEffect(key, "The older " + old + " counts where both are given.");
            }
            key = old;
        }
        if (draft.isWithin(key, 1, Integer.MAX_VALUE)) {
            draft.applied(key, "batch_size", DeepSpeed.plain(draft.number(key)), "");
        }
        if (draft.isWithin("gradient_accumulation_steps", 1, Integer.MAX_VALUE)) {
            draft.applied(
                    "gradient_accumulation_steps",
                    "gradient_accumulation",
                    DeepSpeed.plain(draft.number("gradient_accumulation_steps")),
                    "");
        }
    }

    private long steps() {
        return !draft.isMistaken("max_steps") && draft.number("max_steps") > 0
                ? draft.whole("max_steps")
                : given.steps().orElse(0);
    }

    private void length() {
        String epochs = "num_train_epochs";
        if (draft.has("max_steps") && draft.number("max_steps") > 0) {
            draft.applied("max_steps", "steps", DeepSpeed.plain(draft.number("max_steps")), "");
            if (draft.has(epochs)) {
                draft.noEffect(epochs, "max_steps decides.");
            }
            return;
        }
        if (draft.has("max_steps")) {
            draft.noEffect("max_steps", "num_train_epochs decides.");
        }
        if (!draft.has(epochs) && given.steps().isPresent()) {
            return; // the run's own configuration has steps
        }
        if (!draft.isMistaken(epochs) && draft.number(epochs) > 0 && draft.number(epochs) <= Integer.MAX_VALUE) {
            draft.applied(epochs, "epochs", draft.text(epochs), "");
        } else if (!draft.isMistaken(epochs)) {
            draft.problem(epochs, epochs + " is " + draft.text(epochs), "give a number above 0");
        }
    }

    private void seed() {
        String key = draft.has("data_seed") ? "data_seed" : "seed";
        String order = "It decides the order of samples, which is another than torch's for the same number.";
        if (!draft.isMistaken(key)) {
            draft.applied(key, "seed", DeepSpeed.plain(draft.number(key)), draft.has(key) ? order : "");
        }
        if (draft.has("data_seed") && draft.has("seed")) {
            draft.noEffect("seed", "data_seed decides the order of samples, and nothing else is random.");
        }
    }

    private void loss() {
        String key = "label_smoothing_factor";
        if (!draft.has(key) || !draft.isWithin(key, 0, 1)) {
            return;
        }
        if (draft.number(key) > 0) {
            draft.applied(key, "loss.label_smoothing", draft.text(key), "Evaluations have it too, as in the Trainer.");
        } else {
            draft.noEffect(key, "With 0 labels are not smoothed.");
        }
    }

    private void precision() {
        String backend = draft.has("half_precision_backend") ? "half_precision_backend" : "fp16_backend";
        boolean apex = draft.word(backend).equals("apex");
        boolean fp16 = draft.flag("fp16");
        if (fp16 && draft.flag("bf16")) {
            draft.problem("bf16", "fp16 and bf16 are both true, and transformers refuses that", "keep one of them");
        }
        // DeepSpeed casts the whole model
        String list = draft.has("deepspeed") ? "all" : draft.flag("use_cpu") || draft.flag("no_cuda") ? "cpu" : "cuda";
        for (String key : List.of("bf16", "fp16")) {
            if (draft.has(key) && draft.flag(key)) {
                if (apex && fp16) {
                    draft.mapped(
                            key,
                            "Apex's level.",
                            draft.setting(
                                    "precision.mode",
                                    draft.text("fp16_opt_level").toUpperCase(Locale.ROOT),
                                    key));
                } else {
                    draft.mapped(
                            key,
                            key.equals("fp16")
                                    ? "torch's autocast, with its gradient scaler."
                                    : "torch's autocast; there is no loss scale.",
                            draft.setting("precision.mode", key, key),
                            draft.setting("precision.autocast", list, key));
                }
            } else if (draft.has(key)) {
                draft.noEffect(key, "It is off.");
            }
        }
        String level = "fp16_opt_level";
        if (draft.has(level)) {
            if (!draft.text(level).matches("(?i)O[0-3]")) {
                draft.problem(level, "Apex has no level '" + draft.text(level) + "'", "write O0, O1, O2 or O3");
            } else if (apex && fp16) {
                draft.applied(level, "precision.mode", draft.text(level).toUpperCase(Locale.ROOT), "");
            } else {
                draft.noEffect(level, "It counts with fp16 and half_precision_backend: apex only.");
            }
        }
        for (String key : List.of("half_precision_backend", "fp16_backend")) {
            if (draft.has(key) && !draft.word(key).matches("auto|cuda_amp|cpu_amp|amp|apex")) {
                draft.problem(
                        key, "there is no backend '" + draft.text(key) + "'", "write auto, cpu_amp, cuda_amp or apex");
            } else if (draft.has(key) && draft.word(key).equals("apex") && fp16) {
                draft.mapped(key, "fp16 becomes Apex's level of fp16_opt_level.");
            } else if (draft.has(key)) {
                draft.noEffect(key, "torch's autocast and scaler are the default.");
            }
        }
    }

    private void rest() {
        String checkpointing = "gradient_checkpointing";
        String sharded = "fsdp_config.activation_checkpointing";
        for (String key : List.of(checkpointing, sharded)) {
            if (draft.has(key) && draft.flag(key)) {
                draft.mapped(
                        key,
                        "Every layer is computed again in backward, with the same bits.",
                        draft.setting("gradient_checkpointing.layers", "all", key));
            } else if (draft.has(key)) {
                draft.noEffect(key, "It is off.");
            }
        }
        String resume = "resume_from_checkpoint";
        if (draft.has(resume)) {
            if (draft.word(resume).equals("false")) {
                draft.noEffect(resume, "It is off.");
            } else {
                draft.refused(resume, "A run goes on with octet train --resume RUN.");
            }
        }
        labels();
        String sampling = "train_sampling_strategy";
        if (draft.has(sampling)) {
            switch (draft.word(sampling)) {
                case "random" -> draft.mapped(sampling, "", draft.setting("data.shuffle", "true", sampling));
                case "sequential" -> draft.mapped(sampling, "", draft.setting("data.shuffle", "false", sampling));
                case "group_by_length" -> draft.refused(sampling, "The order of samples follows from the seed alone.");
                default ->
                    draft.problem(
                            sampling,
                            "there is no " + sampling + " '" + draft.text(sampling) + "'",
                            "write random or sequential");
            }
        }
        String deepspeed = "deepspeed";
        if (draft.has(deepspeed)) {
            Given arguments = given.withArguments(file);
            if (file.isSection(deepspeed)) {
                Chained.inline(draft, deepspeed, file.section(deepspeed).alone(), arguments);
            } else if (draft.text(deepspeed).startsWith("{")) {
                Chained.inline(draft, deepspeed, arguments);
            } else {
                Chained.read(draft, deepspeed, arguments);
            }
        }
    }

    private void labels() {
        String key = "label_names";
        if (!draft.has(key)) {
            return;
        }
        List<String> names = Arrays.stream(
                        draft.text(key).replaceAll("[\\[\\]\" ]", "").split(","))
                .filter(n -> !n.isEmpty())
                .toList();
        if (names.isEmpty()) {
            draft.noEffect(key, "It is empty: the labels are called labels.");
        } else if (names.size() == 1 && names.getFirst().matches("[A-Za-z0-9_]+")) {
            draft.mapped(key, "", draft.setting("loss.labels", names.getFirst(), key));
        } else {
            draft.refused(key, "A loss here reads one array of labels.");
        }
    }
}
