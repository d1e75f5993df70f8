package dev.octet.trainer.dialect;

import java.util.List;
import java.util.Map;
import java.util.Set;

/** The optimizer that a JSON of DeepSpeed names (deepspeed/runtime/engine.py, {@code _configure_basic_optimizer}). */
final class DeepSpeedOptimizer {
    private static final String TYPE = "optimizer.type";
    private static final String PARAMS = "optimizer.params.";
    private static final String HERE = "optimizer.";

    private static final Map<String, String> COMPRESSED = Map.of(
            "onebitadam", "Adam", "zerooneadam", "Adam", "onebitlamb", "LAMB");

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
                take(List.of("lr", "momentum", "dampening", "weight_decay", "nesterov"));
            }
            default -> {
                draft.refused(TYPE, refusal(type));
                rest("The optimizer is refused.");
            }
        }
        rest("The optimizer has no such parameter.");
    }

    private static String refusal(String type) {
        if (COMPRESSED.containsKey(type)) {
            return "It compresses what processes send each other; one process would train with " + COMPRESSED.get(type)
                    + ": write that.";
        }
        if (type.startsWith("mu") && !type.equals("muon")) {
            return "It scales learning rates by the width that the package mup notes in a model; a graph has no such notes.";
        }
        return "A run has sgd, adam, adamw and stableadamw.";
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
                    torch && decoupled ? "torch's AdamW decays by 0.01 by default." : "DeepSpeed's Adam does not decay by default, torch's AdamW by 0.01.",
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
        if (draft.has(PARAMS + "set_grad_none")) {
            draft.noEffect(PARAMS + "set_grad_none", "Gradients start from nothing in each step.");
        }
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
                continue;
            }
            if (key.equals(PARAMS + "max_grad_norm")) {
                draft.problem(key, "DeepSpeed refuses max_grad_norm as a parameter of the optimizer", "write \"gradient_clipping\"");
            } else if (draft.isByTable(key)) {
                continue;
            } else if (draft.has(TYPE)) {
                draft.refused(key, reason);
            } else {
                draft.noEffect(key, reason);
            }
        }
    }
}
