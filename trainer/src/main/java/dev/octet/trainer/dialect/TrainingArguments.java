package dev.octet.trainer.dialect;

import dev.octet.trainer.optimizer.ScheduleType;
import dev.octet.trainer.yaml.HjsonFile;
import dev.octet.trainer.yaml.Section;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * What TrainingArguments of transformers really do: the keys of {@link TrainingArgumentsKeys} that depend on others. The rules are those of
 * transformers 5.18.0: training_args.py, trainer_optimizer.py, trainer.py and optimization.py, and of version 4 for keys that are gone.
 */
final class TrainingArguments {
    /**
     * Parameters without weight decay as transformers chooses them: biases, and norms by the type of the layer or by its name. {@code ln_1}, {@code
     * ln_f} and the like stand for the type: layers of torch.nn.LayerNorm whose name does not say norm. One pattern, since each must match.
     */
    static final String NO_DECAY =
            "(?i)bias|layernorm|rmsnorm|(?:^|\\.)norm(?:$|\\.)|_norm(?:$|\\.)|(?:^|\\.)ln_?[a-z0-9]+\\.";

    private static final String OPTIM = "optim";
    private static final String TYPE = "optimizer.type";
    private static final String HERE = "optimizer.";
    private static final String EVERY = "checkpoint.every";
    private static final String SCHEDULE = "lr_scheduler_type";
    private static final String KWARGS = "lr_scheduler_kwargs";

    /** Optimizers that are here, with what else they need. */
    private static final Map<String, Map<String, String>> OPTIMIZERS = Map.ofEntries(
            Map.entry("adamw_torch", Map.of(TYPE, "adamw")),
            Map.entry("adamw_hf", Map.of(TYPE, "adamw")),
            Map.entry("adamw_torch_fused", Map.of(TYPE, "adamw")),
            Map.entry("adamw_torch_xla", Map.of(TYPE, "adamw")),
            Map.entry("adamw_torch_npu_fused", Map.of(TYPE, "adamw")),
            Map.entry("adamw_apex_fused", Map.of(TYPE, "adamw")),
            Map.entry("paged_adamw_32bit", Map.of(TYPE, "adamw", "offload.states", "host")),
            Map.entry("adamw_torch_8bit", torchao("8bit")),
            Map.entry("adamw_torch_4bit", torchao("4bit")),
            Map.entry(
                    "adafactor",
                    Map.of(
                            TYPE,
                            "adafactor",
                            "optimizer.scale_parameter",
                            "false",
                            "optimizer.relative_step",
                            "false")),
            Map.entry("sgd", Map.of(TYPE, "sgd")),
            Map.entry("lion_32bit", Map.of(TYPE, "lion")),
            Map.entry("paged_lion_32bit", Map.of(TYPE, "lion", "offload.states", "host")),
            Map.entry("stable_adamw", Map.of(TYPE, "stableadamw")));

    private static final Set<String> BITSANDBYTES = Set.of(
            "adamw_bnb_8bit",
            "adamw_8bit",
            "paged_adamw_8bit",
            "lion_8bit",
            "paged_lion_8bit",
            "rmsprop_bnb_8bit",
            "ademamix_8bit",
            "paged_ademamix_8bit");

    /** The other names that transformers has. */
    private static final Set<String> OTHERS = Set.of(
            "adamw_anyprecision",
            "ademamix",
            "adagrad",
            "paged_ademamix_32bit",
            "rmsprop",
            "rmsprop_bnb",
            "rmsprop_bnb_32bit",
            "galore_adamw",
            "galore_adamw_8bit",
            "galore_adafactor",
            "galore_adamw_layerwise",
            "galore_adamw_8bit_layerwise",
            "galore_adafactor_layerwise",
            "lomo",
            "adalomo",
            "grokadamw",
            "schedule_free_radam",
            "schedule_free_adamw",
            "schedule_free_sgd",
            "apollo_adamw",
            "apollo_adamw_layerwise");

    private final Draft draft;
    private final Section file;
    private final Given given;

    private TrainingArguments(Draft draft, Section file, Given given) {
        this.draft = draft;
        this.file = file;
        this.given = given;
    }

    private static Map<String, String> torchao(String format) {
        return Map.of(TYPE, "adamw", "optimizer.states.engine", "torchao", "optimizer.states.format", format);
    }

    /** @param given what is known besides the file */
    static Reading read(Section file, Given given) {
        Draft draft = new Draft(Dialect.TRANSFORMERS, file);
        TrainingArguments reading = new TrainingArguments(draft, file, given);
        reading.batch();
        reading.length();
        reading.seed();
        reading.optimizer();
        reading.schedule();
        reading.precision();
        reading.evaluation();
        reading.checkpoints();
        reading.rest();
        return draft.finish();
    }

    /** A number within bounds; otherwise a mistake. */
    private boolean isWithin(String key, double least, double most) {
        if (draft.isMistaken(key)) {
            return false;
        }
        if (draft.number(key) >= least && draft.number(key) <= most) {
            return true;
        }
        draft.problem(
                key,
                key + " is " + draft.text(key),
                "give a number of at least " + DeepSpeed.plain(least)
                        + (most < Integer.MAX_VALUE ? ", at most " + DeepSpeed.plain(most) : ""));
        return false;
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
        if (isWithin(key, 1, Integer.MAX_VALUE)) {
            draft.applied(key, "batch_size", DeepSpeed.plain(draft.number(key)), "");
        }
        if (isWithin("gradient_accumulation_steps", 1, Integer.MAX_VALUE)) {
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

    private void optimizer() {
        String key = draft.has("adafactor") && draft.flag("adafactor") && !draft.has(OPTIM) ? "adafactor" : OPTIM;
        String name = key.equals(OPTIM) ? draft.word(OPTIM) : "adafactor";
        if (draft.has("adafactor") && key.equals(OPTIM)) {
            if (draft.flag("adafactor") && !name.equals("adafactor")) {
                draft.problem("adafactor", "adafactor is true, but optim is " + name, "write optim: adafactor alone");
            } else {
                draft.noEffect("adafactor", "optim decides.");
            }
        }
        Map<String, String> settings = OPTIMIZERS.get(name);
        if (settings == null) {
            unknown(name);
            settings = Map.of();
        } else {
            draft.mapped(
                    key,
                    name.startsWith("paged")
                            ? "Moments lie in host memory between their uses, where the device is another."
                            : "",
                    new TreeMap<>(settings)
                            .entrySet().stream()
                                    .map(e -> draft.setting(e.getKey(), e.getValue(), key))
                                    .toArray(Setting[]::new));
        }
        String type = settings.getOrDefault(TYPE, "");
        if (isWithin("learning_rate", 0, Double.MAX_VALUE)) {
            draft.applied("learning_rate", HERE + "lr", draft.text("learning_rate"), "");
        }
        moments(type);
        decay(type);
        arguments(type, name);
        if (isWithin("max_grad_norm", 0, Double.MAX_VALUE)) {
            if (draft.number("max_grad_norm") > 0) {
                draft.applied("max_grad_norm", "clip_grad_norm", draft.text("max_grad_norm"), "");
            } else {
                draft.noEffect("max_grad_norm", "With 0 gradients are not clipped.");
            }
        }
    }

    private void unknown(String name) {
        if (BITSANDBYTES.contains(name)) {
            draft.refused(
                    OPTIM,
                    name.contains("adamw")
                            ? "bitsandbytes' code of 8 bits is not here; adamw_torch_8bit is torchao's, with blocks of"
                                    + " 256."
                            : "bitsandbytes' code of 8 bits is not here; lion_32bit and adamw_torch_8bit are.");
        } else if (OTHERS.contains(name)) {
            draft.refused(
                    OPTIM,
                    "It is not here: adamw_torch, adamw_torch_8bit, adafactor, lion_32bit, stable_adamw and sgd are.");
        } else {
            draft.problem(
                    OPTIM,
                    "transformers has no optimizer '" + draft.text(OPTIM) + "'",
                    "write adamw_torch, adafactor, lion_32bit or sgd");
        }
    }

    /** The betas and epsilon of Adam; Lion takes its betas from the same arguments. */
    private void moments(String type) {
        boolean adam = type.startsWith("adam") || type.equals("stableadamw");
        boolean betas = adam || type.equals("lion");
        if (betas && isWithin("adam_beta1", 0, Math.nextDown(1.0)) && isWithin("adam_beta2", 0, Math.nextDown(1.0))) {
            String both = "[" + draft.text("adam_beta1") + ", " + draft.text("adam_beta2") + "]";
            String from = draft.has("adam_beta1") || !draft.has("adam_beta2") ? "adam_beta1" : "adam_beta2";
            Setting setting = draft.setting(HERE + "betas", both, from);
            draft.mapped(from, "", setting);
            if (draft.has("adam_beta1") && draft.has("adam_beta2")) {
                draft.mapped("adam_beta2", "", setting);
            }
        }
        if (adam && isWithin("adam_epsilon", 0, Double.MAX_VALUE)) {
            draft.applied("adam_epsilon", HERE + "eps", draft.text("adam_epsilon"), "");
        }
        for (String key : List.of("adam_beta1", "adam_beta2", "adam_epsilon")) {
            if (draft.has(key) && !draft.decided().contains(key)) {
                draft.noEffect(key, "The optimizer has no such argument.");
            }
        }
    }

    private void decay(String type) {
        String key = "weight_decay";
        if (!isWithin(key, 0, Double.MAX_VALUE)) {
            return;
        }
        if (draft.number(key) > 0 && !type.isEmpty()) {
            draft.mapped(
                    key,
                    "Biases and norms do not decay, as in the Trainer's parameter groups.",
                    draft.setting(HERE + key, draft.text(key), key),
                    draft.setting(HERE + "no_decay", "'" + NO_DECAY + "'", key));
        } else {
            draft.applied(key, HERE + key, draft.text(key), "");
        }
    }

    /** {@code optim_args}: name=value, with commas. */
    private void arguments(String type, String name) {
        String key = "optim_args";
        if (!draft.has(key)) {
            return;
        }
        Map<String, String> all = new LinkedHashMap<>();
        for (String each : draft.text(key).replace(" ", "").split(",", -1)) {
            String[] pair = each.split("=", -1);
            if (pair.length != 2) {
                draft.problem(
                        key,
                        "'" + each + "' of optim_args is not name=value",
                        "write momentum=0.9,nesterov=true, for example");
                return;
            }
            all.put(pair[0], pair[1]);
        }
        Map<String, String> taken = type.equals("sgd")
                ? Map.of("momentum", "momentum", "dampening", "dampening", "nesterov", "nesterov")
                : name.startsWith("adamw_torch_") && name.endsWith("bit")
                        ? Map.of("bf16_stochastic_round", "states.bf16_stochastic_round")
                        : Map.of();
        Setting[] settings = all.entrySet().stream()
                .filter(e -> taken.containsKey(e.getKey()))
                .map(e -> draft.setting(HERE + taken.get(e.getKey()), value(e.getValue()), key))
                .toArray(Setting[]::new);
        List<String> left =
                all.keySet().stream().filter(n -> !taken.containsKey(n)).toList();
        if (!left.isEmpty()) {
            draft.refused(key, "Of these arguments there is nothing here: " + String.join(", ", left) + ".");
        } else {
            draft.mapped(key, "", settings);
        }
    }

    /** A value of Python's. */
    private static String value(String text) {
        return text.equalsIgnoreCase("true") || text.equalsIgnoreCase("yes")
                ? "true"
                : text.equalsIgnoreCase("false") || text.equalsIgnoreCase("no") ? "false" : text;
    }

    private void schedule() {
        String name = draft.word(SCHEDULE);
        String refused = ScheduleType.REFUSED.get(name);
        String here = name.equals("constant_with_warmup") ? "constant" : name;
        if (refused != null) {
            draft.refused(SCHEDULE, refused.substring(0, 1).toUpperCase(Locale.ROOT) + refused.substring(1) + ".");
        } else if (!ScheduleType.byName().containsKey(here) || !here.equals(here.toLowerCase(Locale.ROOT))) {
            draft.problem(
                    SCHEDULE,
                    "transformers has no schedule '" + draft.text(SCHEDULE) + "'",
                    "write linear, cosine, constant or polynomial");
        } else {
            draft.applied(SCHEDULE, "schedule.type", here, "");
            options(ScheduleType.byName().get(here));
        }
        if (draft.has(KWARGS) && !draft.decided().contains(KWARGS)) {
            draft.noEffect(KWARGS, "There is no schedule that takes it.");
        }
        String steps = "warmup_steps";
        String ratio = "warmup_ratio";
        if (name.equals("constant")) {
            for (String key : List.of(steps, ratio)) {
                if (draft.has(key)) {
                    draft.noEffect(key, "The schedule constant has no warm-up; constant_with_warmup has.");
                }
            }
            return;
        }
        if (draft.has(steps) && isWithin(steps, 0, Integer.MAX_VALUE) && draft.number(steps) > 0) {
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
        if (draft.has(ratio) && isWithin(ratio, 0, 1)) {
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
        if (isText(KWARGS) && draft.text(KWARGS).startsWith("{")) {
            HjsonFile.parse(draft.text(KWARGS), draft.file()).written().forEach(w -> all.put(w.key(), w.value()));
        } else {
            file.written().stream()
                    .filter(w -> w.key().startsWith(prefix))
                    .forEach(w -> all.put(w.key().substring(prefix.length()), w.value()));
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

    /** Whether a key's value is text. */
    private boolean isText(String key) {
        return file.written().stream().anyMatch(w -> w.key().equals(key) && w.kind() == Section.Kind.TEXT);
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
        if (steps() == 0) {
            draft.refused(key, "A share of the run's steps needs max_steps, or steps in --config.");
            return 0;
        }
        return (long) Math.ceil(steps() * number);
    }

    private void evaluation() {
        String key = draft.has("eval_strategy") ? "eval_strategy" : "evaluation_strategy";
        if (!draft.has(key) && draft.has("evaluate_during_training") && draft.flag("evaluate_during_training")) {
            key = "evaluate_during_training";
        }
        String strategy = key.equals("evaluate_during_training") ? "steps" : draft.word(key);
        if (draft.has("evaluation_strategy") && !key.equals("evaluation_strategy")) {
            draft.noEffect("evaluation_strategy", "The older name of eval_strategy, which is there too.");
        }
        if (draft.has("evaluate_during_training") && !key.equals("evaluate_during_training")) {
            draft.noEffect("evaluate_during_training", "The older name of eval_strategy: steps.");
        }
        switch (strategy) {
            case "no" -> {
                if (draft.has(key)) {
                    draft.noEffect(key, "With data.eval there is one evaluation, after the last step.");
                }
            }
            case "steps" -> {
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
            case "epoch" ->
                draft.refused(
                        key, "How many steps an epoch has is known with the data only: write steps and eval_steps.");
            default ->
                draft.problem(key, "there is no " + key + " '" + draft.text(key) + "'", "write no, steps or epoch");
        }
        if (draft.has("eval_steps") && !draft.decided().contains("eval_steps")) {
            draft.noEffect("eval_steps", "It counts with eval_strategy: steps only.");
        }
        boolean best = draft.flag("load_best_model_at_end");
        for (String each : List.of("load_best_model_at_end", "metric_for_best_model", "greater_is_better")) {
            if (draft.has(each) && best && each.equals("load_best_model_at_end")) {
                draft.refused(each, "A run ends with its last weights; octet export --step N takes others.");
            } else if (draft.has(each)) {
                draft.noEffect(
                        each, best ? "It is part of load_best_model_at_end." : "No checkpoint is chosen by a measure.");
            }
        }
    }

    private void checkpoints() {
        String key = "save_strategy";
        String strategy = draft.word(key);
        switch (strategy) {
            case "steps" -> {
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
            case "no" -> draft.mapped(key, "The last step always writes one.", draft.setting(EVERY, "0", key));
            case "epoch" ->
                draft.refused(
                        key, "How many steps an epoch has is known with the data only: write steps and save_steps.");
            case "best" -> draft.refused(key, "No checkpoint is chosen by a measure: write steps and save_steps.");
            default ->
                draft.problem(key, "there is no save_strategy '" + draft.text(key) + "'", "write no, steps or epoch");
        }
        if (draft.has("save_steps") && !draft.decided().contains("save_steps")) {
            draft.noEffect("save_steps", "It counts with save_strategy: steps only.");
        }
        if (draft.has("save_total_limit") && isWithin("save_total_limit", 1, Integer.MAX_VALUE)) {
            draft.applied("save_total_limit", "checkpoint.keep", DeepSpeed.plain(draft.number("save_total_limit")), "");
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
            if (isText(deepspeed) && !draft.text(deepspeed).startsWith("{")) {
                Chained.read(draft, deepspeed, given.withArguments(file));
            } else {
                draft.refused(
                        deepspeed,
                        "Write the DeepSpeed JSON into a file and name it here, or give it with --deepspeed.");
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
