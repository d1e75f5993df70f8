package dev.octet.trainer.dialect;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** The optimizer of TrainingArguments, as transformers' trainer_optimizer.py makes it. */
final class TrainingArgumentsOptimizer {
    /**
     * Parameters without weight decay as transformers chooses them: biases, and norms by the type of the layer or by its name. {@code ln_1}, {@code
     * ln_f} and the like stand for the type: layers of torch.nn.LayerNorm whose name does not say norm. One pattern, since each must match.
     */
    static final String NO_DECAY =
            "(?i)bias|layernorm|rmsnorm|(?:^|\\.)norm(?:$|\\.)|_norm(?:$|\\.)|(?:^|\\.)ln_?[a-z0-9]+\\.";

    private static final String OPTIM = "optim";
    private static final String TYPE = "optimizer.type";
    private static final String HERE = "optimizer.";
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

    private TrainingArgumentsOptimizer(Draft draft) {
        this.draft = draft;
    }

    static void read(Draft draft) {
        new TrainingArgumentsOptimizer(draft).optimizer();
    }

    private static Map<String, String> torchao(String format) {
        return Map.of(TYPE, "adamw", "optimizer.states.engine", "torchao", "optimizer.states.format", format);
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
        if (draft.isWithin("learning_rate", 0, Double.MAX_VALUE)) {
            draft.applied("learning_rate", HERE + "lr", draft.text("learning_rate"), "");
        }
        moments(type);
        decay(type);
        arguments(type, name);
        if (draft.isWithin("max_grad_norm", 0, Double.MAX_VALUE)) {
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
        if (betas
                && draft.isWithin("adam_beta1", 0, Math.nextDown(1.0))
                && draft.isWithin("adam_beta2", 0, Math.nextDown(1.0))) {
            String both = "[" + draft.text("adam_beta1") + ", " + draft.text("adam_beta2") + "]";
            String from = draft.has("adam_beta1") || !draft.has("adam_beta2") ? "adam_beta1" : "adam_beta2";
            Setting setting = draft.setting(HERE + "betas", both, from);
            draft.mapped(from, "", setting);
            if (draft.has("adam_beta1") && draft.has("adam_beta2")) {
                draft.mapped("adam_beta2", "", setting);
            }
        }
        if (adam && draft.isWithin("adam_epsilon", 0, Double.MAX_VALUE)) {
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
        if (!draft.isWithin(key, 0, Double.MAX_VALUE)) {
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
}
