package dev.octet.trainer.dialect;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The number types that a JSON of DeepSpeed computes in, and its loss scaling. */
final class DeepSpeedPrecision {
    private static final String MODE = "precision.mode";
    private static final String AUTOCAST = "precision.autocast";
    private static final String SCALE = "precision.loss_scale.";
    private static final String OTHER_MODE = "Another mode is on.";
    private static final String OFF = "The mode is off.";
    private static final String WHOLE_MODEL =
            "DeepSpeed casts the whole model, norms and softmax too, and keeps F32 masters; so does this.";

    /** Keys of fp16 that only move a dynamic scale. */
    private static final List<String> DYNAMIC = List.of(
            "initial_scale_power", "loss_scale_window", "hysteresis", "consecutive_hysteresis", "min_loss_scale");

    private static final Map<String, String> TYPES = Map.of(
            "fp16",
            "fp16",
            "float16",
            "fp16",
            "half",
            "fp16",
            "torch.float16",
            "fp16",
            "bf16",
            "bf16",
            "bfloat16",
            "bf16",
            "torch.bfloat16",
            "bf16");

    private final Draft draft;

    private DeepSpeedPrecision(Draft draft) {
        this.draft = draft;
    }

    static void read(Draft draft) {
        new DeepSpeedPrecision(draft).read();
    }

    private void read() {
        // "bfloat16" is read only where there is no "bf16"
        String bf16 = draft.hasSection("bf16") || !draft.hasSection("bfloat16") ? "bf16" : "bfloat16";
        List<String> modes = new ArrayList<>();
        for (String mode : List.of("msamp", "amp", "torch_autocast", "fp16", bf16)) {
            if (draft.flag(mode + ".enabled")) {
                modes.add(mode);
            }
        }
        boolean both = modes.contains("fp16") && modes.contains(bf16);
        if (both || (modes.contains("amp") && modes.size() > 1)) {
            draft.problem(
                    modes.get(1) + ".enabled",
                    String.join(" and ", modes) + " are all enabled, and DeepSpeed refuses that",
                    "enable one of them");
            modes.remove(1);
        }
        String on = modes.isEmpty() ? "" : modes.getFirst();
        switch (on) {
            case "msamp" -> msamp();
            case "amp" -> amp();
            case "torch_autocast" -> autocast();
            case "fp16" -> {
                draft.mapped(
                        "fp16.enabled",
                        WHOLE_MODEL,
                        draft.setting(MODE, "fp16", "fp16.enabled"),
                        draft.setting(AUTOCAST, "all", "fp16.enabled"));
                scaling();
            }
            case "bf16", "bfloat16" ->
                draft.mapped(
                        on + ".enabled",
                        WHOLE_MODEL,
                        draft.setting(MODE, "bf16", on + ".enabled"),
                        draft.setting(AUTOCAST, "all", on + ".enabled"));
            default ->
                draft.mapped(
                        "fp16.enabled",
                        "No mode is enabled: the model computes in its own type, here F32. Older transformers"
                                + " load it in FP16 for ZeRO 3 unless fp16.enabled is written as false.",
                        draft.setting(MODE, "fp32", "fp16.enabled"));
        }
        fp16(on);
        bf16(on, bf16);
        for (String mode : List.of("msamp", "amp", "torch_autocast")) {
            for (String key : draft.below(mode)) {
                if (!mode.equals(on)) {
                    draft.noEffect(key, on.isEmpty() ? OFF : OTHER_MODE);
                }
            }
        }
        types(on);
    }

    private void fp16(String on) {
        for (String key : draft.below("fp16")) {
            String name = key.substring(key.indexOf('.') + 1);
            boolean off = !on.equals("fp16");
            if (name.equals("fp16_master_weights_and_grads") && draft.flag(key)) {
                draft.refused(key, "Masters in FP16 lose small updates; they are F32 here.");
            } else if (name.equals("fp16_master_weights_and_grads")) {
                draft.noEffect(key, "Masters are F32.");
            } else if (name.equals("auto_cast")) {
                draft.noEffect(key, "Inputs are cast with the model.");
            } else if (off && !(name.equals("enabled") && on.isEmpty())) {
                draft.noEffect(key, on.isEmpty() ? OFF : OTHER_MODE);
            }
        }
    }

    /** DeepSpeed's loss scaling: fixed where loss_scale is not 0, otherwise dynamic. */
    private void scaling() {
        String key = "fp16.loss_scale";
        if (draft.number(key) < 0) {
            draft.problem(key, key + " is negative", "give 0 for a dynamic scale, or the scale");
            return;
        }
        if (draft.number(key) > 0) {
            draft.mapped(
                    key,
                    "The scale does not move.",
                    draft.setting(SCALE + "type", "fixed", key),
                    draft.setting(SCALE + "scale", draft.text(key), key));
            DYNAMIC.stream()
                    .map("fp16."::concat)
                    .filter(draft::has)
                    .forEach(k -> draft.noEffect(k, "The scale does not move."));
            return;
        }
        draft.mapped(key, "0 is a dynamic scale.", draft.setting(SCALE + "type", "deepspeed", key));
        for (String name : DYNAMIC) {
            String each = "fp16." + name;
            boolean positive = !name.equals("consecutive_hysteresis") && !name.equals("initial_scale_power");
            boolean idle = !hasHysteresis() && name.endsWith("hysteresis");
            if (draft.has(each) && positive && draft.number(each) <= 0) {
                draft.problem(each, each + " is " + draft.text(each), "give a number above 0");
            } else if (draft.has(each) && !idle) {
                draft.applied(each, SCALE + name, value(each), "");
            }
        }
        if (!draft.has("fp16.initial_scale_power")) {
            draft.applied("fp16.initial_scale_power", SCALE + "initial_scale_power", "16", "The first scale is 2^16.");
        }
        hysteresis();
    }

    private String value(String key) {
        return key.endsWith("consecutive_hysteresis")
                ? String.valueOf(draft.flag(key))
                : DeepSpeed.plain(draft.number(key));
    }

    /** ZeRO's scaler has hysteresis; FP16_Optimizer, which works without ZeRO, halves the scale at every overflow. */
    private void hysteresis() {
        String key = "fp16.hysteresis";
        if (hasHysteresis()) {
            if (!draft.has(key)) {
                draft.applied(
                        key,
                        SCALE + "hysteresis",
                        "2",
                        "The first overflow only uses up hysteresis, the second halves the scale.");
            }
            return;
        }
        draft.mapped(
                key,
                "Without ZeRO DeepSpeed has no hysteresis, whatever is written: every overflow halves the scale.",
                draft.setting(SCALE + "hysteresis", "1", key));
        if (draft.has("fp16.consecutive_hysteresis")) {
            draft.noEffect("fp16.consecutive_hysteresis", "Without ZeRO DeepSpeed has no hysteresis.");
        }
    }

    private boolean hasHysteresis() {
        return draft.number("zero_optimization.stage") >= 1 || draft.flag("zero_optimization");
    }

    private void bf16(String on, String name) {
        for (String key : draft.below("bf16")) {
            bf16Key(key, on.equals("bf16"), on);
        }
        for (String key : draft.below("bfloat16")) {
            if (name.equals("bf16")) {
                draft.noEffect(key, "DeepSpeed does not read bfloat16 where there is bf16.");
            } else {
                bf16Key(key, on.equals("bfloat16"), on);
            }
        }
    }

    private void bf16Key(String key, boolean isOn, String on) {
        String name = key.substring(key.indexOf('.') + 1);
        switch (name) {
            case "enabled" -> {
                if (!isOn) {
                    draft.noEffect(key, on.isEmpty() ? OFF : OTHER_MODE);
                }
            }
            case "immediate_grad_update" ->
                draft.noEffect(key, "It is about when gradients are copied, not what they are.");
            case "check_grad_overflow" ->
                draft.noEffect(key, "A step whose gradients are not finite is skipped here in any case.");
            default -> states(key, isOn);
        }
    }

    /** Masters and moments in BF16: both or none; DeepSpeed with F32 moments needs its Adam on the processor. */
    private void states(String key, boolean isOn) {
        String section = key.substring(0, key.indexOf('.') + 1);
        boolean masters = draft.flag(section + "bf16_master_weights_and_grads");
        boolean moments = draft.flag(section + "bf16_optimizer_states");
        if (!isOn || !draft.flag(key)) {
            draft.noEffect(key, isOn ? "It stays F32." : OFF);
        } else if (!masters) {
            draft.problem(
                    key, key + " needs " + section + "bf16_master_weights_and_grads", "set both to true, or neither");
        } else if (draft.number("zero_optimization.stage") < 1) {
            draft.problem(key, "DeepSpeed refuses " + key + " without ZeRO", "add a stage from 1 to 3, or remove it");
        } else if (!moments) {
            draft.refused(key, "Masters in BF16 are kept with moments in BF16 only: add bf16_optimizer_states.");
        } else if (key.endsWith("states")) {
            draft.mapped(
                    key,
                    "Moments are rounded to the nearest BF16 after each step.",
                    draft.setting("optimizer.states.engine", "bf16", key),
                    draft.setting("optimizer.states.rounding", "nearest", key));
        } else {
            draft.mapped(
                    key,
                    "The only copy of a weight is BF16: updates below half its last bit are lost.",
                    draft.setting("optimizer.states.masters", "bf16", key));
        }
    }

    private void autocast() {
        String dtype = "torch_autocast.dtype";
        String type = TYPES.get(draft.word(dtype));
        if (type == null) {
            draft.problem(dtype, "torch_autocast has no type '" + draft.text(dtype) + "'", "write bfloat16 or float16");
            return;
        }
        draft.mapped(
                "torch_autocast.enabled",
                "torch's lists for CUDA devices decide which operators are narrow.",
                draft.setting(MODE, type, "torch_autocast.enabled"),
                draft.setting(AUTOCAST, "cuda", "torch_autocast.enabled"));
        if (draft.has(dtype)) {
            draft.mapped(dtype, "", draft.setting(MODE, type, "torch_autocast.enabled"));
        }
        if (draft.has("torch_autocast.lower_precision_safe_modules")) {
            draft.noEffect(
                    "torch_autocast.lower_precision_safe_modules",
                    "It names modules whose gradients are sent in the narrow type; the lists of autocast stay.");
        }
    }

    private void amp() {
        String level = "amp.opt_level";
        String name = draft.text(level);
        if (!name.matches("O[0-3]")) {
            draft.problem(level, "Apex has no level '" + name + "'", "write O0, O1, O2 or O3");
            return;
        }
        draft.mapped("amp.enabled", "Apex's level.", draft.setting(MODE, name, level));
        for (String key : draft.below("amp")) {
            String value = draft.text(key);
            switch (key) {
                case "amp.enabled" -> {}
                case "amp.opt_level" -> draft.applied(key, MODE, name, "");
                case "amp.loss_scale" -> {
                    if (value.equals("dynamic")) {
                        draft.mapped(key, "", draft.setting(SCALE + "type", "apex", key));
                    } else {
                        draft.mapped(
                                key,
                                "The scale does not move.",
                                draft.setting(SCALE + "type", "fixed", key),
                                draft.setting(SCALE + "scale", value, key));
                    }
                }
                case "amp.max_loss_scale" ->
                    draft.applied(key, SCALE + "max_loss_scale", DeepSpeed.plain(draft.number(key)), "");
                case "amp.keep_batchnorm_fp32" -> {
                    if (draft.has(key)) {
                        draft.applied(key, "precision.keep_batchnorm_fp32", String.valueOf(draft.flag(key)), "");
                    }
                }
                case "amp.master_weights" -> draft.noEffect(key, "Masters are F32 at every level here.");
                case "amp.verbosity", "amp.num_losses" ->
                    draft.noEffect(key, "Nothing that is computed depends on it.");
                case "amp.min_loss_scale" -> draft.refused(key, "Apex's scale has no lower bound here; leave it out.");
                default -> draft.refused(key, "The level decides it here; leave it out.");
            }
        }
    }

    private void msamp() {
        draft.mapped("msamp.enabled", "", draft.setting(MODE, "msamp", "msamp.enabled"));
        draft.applied("msamp.opt_level", "precision.opt_level", draft.text("msamp.opt_level"), "");
        if (draft.has("msamp.use_te")) {
            draft.applied("msamp.use_te", "precision.use_te", String.valueOf(draft.flag("msamp.use_te")), "");
        }
    }

    /** Types of gradients, parameters and buffers that must fit the mode. */
    private void types(String on) {
        String mode = on.equals("fp16") ? "fp16" : on.startsWith("bf") ? "bf16" : "fp32";
        String accumulated = "data_types.grad_accum_dtype";
        if (draft.has(accumulated)) {
            if (draft.word(accumulated).matches("fp32|float32|float|torch.float32")) {
                draft.noEffect(accumulated, "Gradients are summed in F32 here.");
            } else {
                draft.refused(accumulated, "Gradients are summed in F32 here, and a narrow sum has other losses.");
            }
        }
        String parameters = "data_types.param_dtype";
        if (draft.has(parameters)) {
            String wanted = TYPES.getOrDefault(draft.word(parameters), "fp32");
            if (wanted.equals(mode)) {
                draft.noEffect(parameters, "It is the type of the mode that is on.");
            } else {
                draft.problem(
                        parameters,
                        parameters + " is " + draft.text(parameters) + ", but the model computes in " + mode,
                        "leave it out, or enable the mode of this type");
            }
        }
        if (draft.has("data_types.buffer_dtype")) {
            draft.noEffect(
                    "data_types.buffer_dtype",
                    "Buffers of a graph are constants and take the type of the operator that reads them.");
        }
    }
}
