package dev.octet.trainer.dialect;

import java.util.List;
import java.util.Map;
import java.util.Set;

/** The optimizer that a JSON of DeepSpeed names (deepspeed/runtime/engine.py, {@code _configure_basic_optimizer}). */
final class DeepSpeedOptimizer {
    private static final String TYPE = "optimizer.type";
    private static final String PARAMS = "optimizer.params.";
    private static final String HERE = "optimizer.";

    private static final Map<String, String> COMPRESSED =
            Map.of("onebitadam", "Adam", "zerooneadam", "Adam", "onebitlamb", "LAMB");

    private final Draft draft;

    private DeepSpeedOptimizer(Draft draft) {
        this.draft = draft;
    }

    static void read(Draft draft) {
        new DeepSpeedOptimizer(draft).read();
    }

    private void read() {
        if (!draft.has(TYPE)) {
            draft.noEffect(TYPE, "The file names no optimizer: the configuration of the run does, or it is AdamW.");
            rest("The file names no optimizer.");
            return;
        }
        String type = draft.word(TYPE);
        switch (type) {
            case "adam", "adamw" -> adam(type);
            case "sgd" -> {
                named("sgd");
                take(List.of("lr", "momentum", "dampening", "weight_decay"));
                flag("nesterov");
            }
            case "adagrad" -> {
                named("adagrad");
                take(List.of("lr", "lr_decay", "eps", "weight_decay"));
            }
            case "lamb" -> lamb();
            case "lion" -> lion();
            case "muon" -> muon();
            default -> {
                draft.refused(TYPE, refusal(type));
                draft.below("optimizer.params").forEach(key -> draft.noEffect(key, "The optimizer is refused."));
            }
        }
        rest("The optimizer has no such parameter here.");
    }

    /** DeepSpeed's FusedLamb: moments as they are, weight decay inside the trust ratio, coefficients within bounds. */
    private void lamb() {
        draft.mapped(
                TYPE,
                "DeepSpeed's formula: the correction of the moments multiplies the step.",
                draft.setting(HERE + "type", "lamb", TYPE),
                draft.setting(HERE + "formula", "deepspeed", TYPE));
        take(List.of("lr", "betas", "eps", "weight_decay", "max_coeff", "min_coeff"));
        flag("bias_correction");
        must("amsgrad", "false", "There is no amsgrad here.");
        must("eps_inside_sqrt", "false", "eps is added to the root here.");
        implementation("set_grad_none");
    }

    /** DeepSpeed's FusedLion, whose defaults are those of Adam. */
    private void lion() {
        named("lion");
        take(List.of("lr", "betas", "weight_decay"));
        orDefault("lr", "lr", "0.001", "DeepSpeed's Lion starts from 1e-3, that of its authors from 1e-4.");
        orDefault(
                "betas",
                "betas",
                "[0.9, 0.999]",
                "DeepSpeed's Lion has the betas of Adam, that of its authors 0.9 and 0.99.");
        implementation("set_grad_none");
    }

    /** DeepSpeed's MuonWithAuxAdam: matrices whose names have neither embed nor lm_head, AdamW for the rest. */
    private void muon() {
        draft.mapped(
                TYPE,
                "Muon for matrices whose names have neither embed nor lm_head, AdamW for the rest.",
                draft.setting(HERE + "type", "muon", TYPE),
                draft.setting(HERE + "match", "['(?i)^(?!.*(embed|lm_head))']", TYPE));
        boolean all = draft.has(PARAMS + "lr");
        boolean own = draft.has(PARAMS + "muon_lr");
        boolean others = draft.has(PARAMS + "adam_lr");
        if (own) {
            draft.mapped(
                    PARAMS + "muon_lr",
                    "",
                    draft.setting(HERE + "lr", draft.text(PARAMS + "muon_lr"), PARAMS + "muon_lr"));
        }
        if (others) {
            draft.mapped(
                    PARAMS + "adam_lr",
                    "",
                    draft.setting(HERE + "adamw.lr", draft.text(PARAMS + "adam_lr"), PARAMS + "adam_lr"));
        }
        if (all && own && others) {
            draft.noEffect(PARAMS + "lr", "muon_lr and adam_lr are given.");
        } else if (all) {
            String lr = draft.text(PARAMS + "lr");
            Setting muon = draft.setting(HERE + "lr", lr, PARAMS + "lr");
            Setting adam = draft.setting(HERE + "adamw.lr", lr, PARAMS + "lr");
            if (own) {
                draft.mapped(PARAMS + "lr", "Muon has a rate of its own.", adam);
            } else if (others) {
                draft.mapped(PARAMS + "lr", "AdamW has a rate of its own.", muon);
            } else {
                draft.mapped(PARAMS + "lr", "", muon, adam);
            }
        } else if (!own) {
            orDefault(
                    "muon_lr",
                    "lr",
                    "0.02",
                    "Without lr and muon_lr DeepSpeed's code takes 0.02, its documentation says 0.001.");
        }
        take(List.of("momentum"));
        String decay = PARAMS + "weight_decay";
        String value = draft.has(decay) ? draft.text(decay) : "0.0";
        Setting both = new Setting(HERE + "adamw.weight_decay", value, decay, !draft.has(decay));
        draft.mapped(
                decay,
                draft.has(decay) ? "Of both." : "DeepSpeed's Muon does not decay by default.",
                new Setting(
                        HERE + "weight_decay",
                        value,
                        draft.has(decay) ? decay : decay + ", the default",
                        !draft.has(decay)),
                both);
        for (String name : List.of("betas", "eps")) {
            if (draft.has(PARAMS + name)) {
                draft.mapped(
                        PARAMS + name,
                        "Of AdamW.",
                        draft.setting(HERE + "adamw." + name, draft.text(PARAMS + name), PARAMS + name));
            }
        }
        if (draft.has(PARAMS + "ns_method")) {
            draft.noEffect(
                    PARAMS + "ns_method", "gram orders the same products otherwise; results differ by rounding.");
        }
    }

    /** A default that differs from the one here. */
    private void orDefault(String name, String here, String value, String reason) {
        String key = PARAMS + name;
        if (!draft.has(key)) {
            draft.mapped(key, reason, new Setting(HERE + here, value, key + ", the default", true));
        }
    }

    private void flag(String name) {
        String key = PARAMS + name;
        if (draft.has(key)) {
            draft.applied(key, HERE + name, String.valueOf(draft.flag(key)), "");
        }
    }

    private void implementation(String name) {
        if (draft.has(PARAMS + name)) {
            draft.noEffect(PARAMS + name, "Gradients start from nothing in each step.");
        }
    }

    private static String refusal(String type) {
        if (COMPRESSED.containsKey(type)) {
            return "It compresses what processes send each other; one process would train with " + COMPRESSED.get(type)
                    + ": write that.";
        }
        if (type.startsWith("mu") && !type.equals("muon")) {
            return "It scales learning rates by the width that the package mup notes in a model; a graph has no such"
                    + " notes.";
        }
        return "A run has adagrad, adam, adamw, lamb, lion, muon and sgd, and others that DeepSpeed has no name for.";
    }

    private void named(String here) {
        draft.mapped(TYPE, "", draft.setting(HERE + "type", here, TYPE));
    }

    /** Adam of DeepSpeed decays weights as AdamW unless adam_w_mode is false; its weight decay is 0 by default, but that of torch's AdamW is 0.01. */
    private void adam(String type) {
        boolean decoupled = type.equals("adamw") || draft.flag(PARAMS + "adam_w_mode");
        boolean torch = draft.flag(PARAMS + "torch_adam");
        draft.mapped(
                TYPE,
                type.equals("adam") && decoupled ? "DeepSpeed's Adam is AdamW unless adam_w_mode is false." : "",
                draft.setting(HERE + "type", decoupled ? "adamw" : "adam", TYPE));
        take(List.of("lr", "eps", "betas"));
        String decay = PARAMS + "weight_decay";
        if (draft.has(decay)) {
            draft.applied(decay, HERE + "weight_decay", draft.text(decay), "");
        } else {
            String value = torch && decoupled ? "0.01" : "0.0";
            draft.mapped(
                    decay,
                    torch && decoupled
                            ? "torch's AdamW decays by 0.01 by default."
                            : "DeepSpeed's Adam does not decay by default, torch's AdamW by 0.01.",
                    new Setting(HERE + "weight_decay", value, decay + ", the default", true));
        }
        if (draft.has(PARAMS + "adam_w_mode")) {
            draft.mapped(PARAMS + "adam_w_mode", type.equals("adamw") ? "AdamW decays so in any case." : "");
        }
        if (draft.has(PARAMS + "torch_adam")) {
            draft.noEffect(PARAMS + "torch_adam", "torch's and DeepSpeed's Adam compute the same.");
        }
        must("bias_correction", "true", "Moments are corrected for their bias here.");
        must("amsgrad", "false", "There is no amsgrad here.");
        must("eps_inside_sqrt", "false", "eps is added to the root here.");
        must("maximize", "false", "Losses are minimised here.");
        implementation("set_grad_none");
    }

    /** Parameters that have the same name and meaning here. */
    private void take(List<String> names) {
        for (String name : names) {
            if (draft.has(PARAMS + name)) {
                draft.applied(PARAMS + name, HERE + name, draft.text(PARAMS + name), "");
            }
        }
    }

    /** A parameter that is refused unless it has the only value there is here. */
    private void must(String name, String only, String reason) {
        String key = PARAMS + name;
        if (!draft.has(key)) {
            return;
        }
        if (String.valueOf(draft.flag(key)).equals(only)) {
            draft.noEffect(key, reason);
        } else {
            draft.refused(key, reason);
        }
    }

    /** What is left of the parameters. */
    private void rest(String reason) {
        Set<String> done = draft.decided();
        for (String key : draft.below("optimizer.params")) {
            if (done.contains(key) || draft.isAuto(key)) {
                // it has a fate or a mistake, or gets one for want of a value
            } else if (key.equals(PARAMS + "max_grad_norm")) {
                draft.problem(
                        key,
                        "DeepSpeed refuses max_grad_norm as a parameter of the optimizer",
                        "write \"gradient_clipping\"");
            } else if (draft.isByTable(key)) {
                // a row of the table says it
            } else if (draft.has(TYPE)) {
                draft.refused(key, reason);
            } else {
                draft.noEffect(key, reason);
            }
        }
    }
}
