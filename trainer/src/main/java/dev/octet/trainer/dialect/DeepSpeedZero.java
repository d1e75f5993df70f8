package dev.octet.trainer.dialect;

import java.util.List;

/** ZeRO, offload and checkpoints of activations in a JSON of DeepSpeed, in one process (deepspeed/runtime/zero/config.py, offload_config.py). */
final class DeepSpeedZero {
    private static final String ZERO = "zero_optimization";
    private static final String STAGE = "zero_optimization.stage";
    private static final String PARAMETERS = ZERO + ".offload_param.";
    private static final String STATES = ZERO + ".offload_optimizer.";
    private static final String CHECKPOINTING = "activation_checkpointing.";

    private final Draft draft;
    private long stage;

    private DeepSpeedZero(Draft draft) {
        this.draft = draft;
    }

    static void read(Draft draft) {
        DeepSpeedZero zero = new DeepSpeedZero(draft);
        zero.stage();
        zero.parameters();
        zero.states();
        zero.activations();
    }

    private void stage() {
        if (draft.has(ZERO)) {
            stage = draft.flag(ZERO) ? 1 : 0;
            draft.noEffect(ZERO, "The deprecated spelling of stage 1; nothing is split in one process.");
        }
        if (!draft.has(STAGE)) {
            return;
        }
        if (draft.number(STAGE) < 0 || draft.number(STAGE) > 3) {
            draft.problem(STAGE, "ZeRO has no stage " + draft.text(STAGE), "write 0, 1, 2 or 3");
            return;
        }
        stage = draft.whole(STAGE);
        draft.noEffect(
                STAGE,
                stage == 0
                        ? "Stage 0 splits nothing."
                        : "Stage " + stage + " splits "
                                + List.of("states", "states and gradients", "states, gradients and weights")
                                        .get((int) stage - 1)
                                + " over processes, and there is one, which keeps all.");
    }

    /** Where weights lie between their uses. */
    private void parameters() {
        String old = ZERO + ".cpu_offload_param";
        String device = PARAMETERS + "device";
        if (draft.has(old)) {
            if (draft.has(device) && draft.flag(old)) {
                both(old, device);
            }
            draft.noEffect(
                    old,
                    draft.flag(old)
                            ? "Weights lie where they are multiplied; only optimizer states can lie elsewhere."
                            : "Weights are not offloaded.");
        }
        if (draft.has(device)) {
            switch (draft.word(device)) {
                case "none" -> draft.noEffect(device, "Weights are not offloaded.");
                case "cpu" ->
                    draft.noEffect(
                            device,
                            stage == 3
                                    ? "One process holds every weight, in the memory of the device that multiplies them."
                                    : "DeepSpeed reads it with stage 3 only.");
                case "nvme" -> {
                    if (stage == 3) {
                        draft.refused(
                                device,
                                "One process holds every weight in memory; optimizer states can lie on a disk, with"
                                        + " offload_optimizer.");
                    } else {
                        draft.noEffect(device, "DeepSpeed reads it with stage 3 only.");
                    }
                }
                default -> unknown(device);
            }
        }
        if (draft.has(PARAMETERS + "nvme_path")) {
            draft.noEffect(PARAMETERS + "nvme_path", "Weights do not go to a disk.");
        }
    }

    /** Where optimizer states and masters lie between steps. */
    private void states() {
        String old = ZERO + ".cpu_offload";
        String device = STATES + "device";
        String path = STATES + "nvme_path";
        if (draft.has(old)) {
            if (draft.has(device) && draft.flag(old)) {
                both(old, device);
            } else if (draft.flag(old)) {
                host(old);
            } else {
                draft.noEffect(old, "States are not offloaded.");
            }
        }
        if (draft.has(device)) {
            switch (draft.word(device)) {
                case "none" -> draft.noEffect(device, "States are not offloaded.");
                case "cpu" -> host(device);
                case "nvme" -> disk(device, path);
                default -> unknown(device);
            }
        }
        if (draft.has(path) && !(draft.has(device) && draft.word(device).equals("nvme") && stage > 0)) {
            draft.noEffect(path, "States do not go to a disk.");
        }
    }

    private void host(String key) {
        if (stage == 0) {
            draft.noEffect(key, "DeepSpeed offloads with stages 1, 2 and 3 only.");
            return;
        }
        draft.mapped(
                key,
                "Moments and masters lie in the memory of the host between steps.",
                draft.setting("offload.states", "host", key));
    }

    private void disk(String device, String path) {
        if (stage == 0) {
            draft.noEffect(device, "DeepSpeed offloads with stages 1, 2 and 3 only.");
            return;
        }
        if (!draft.has(path)) {
            draft.problem(device, "states are to go to a disk, but nvme_path is missing", "add \"nvme_path\": \"FOLDER\"");
            return;
        }
        draft.mapped(
                device,
                "Moments and masters lie in mapped files between steps.",
                draft.setting("offload.states", "disk", device));
        draft.applied(path, "offload.path", quoted(draft.text(path)), "");
    }

    private static String quoted(String path) {
        return path.matches("[A-Za-z0-9_./][A-Za-z0-9_./+-]*") ? path : "'" + path.replace("'", "''") + "'";
    }

    private void both(String old, String current) {
        draft.problem(old, "the deprecated " + old + " and " + current + " are both given", "keep " + current);
    }

    private void unknown(String device) {
        draft.problem(device, "there is no device '" + draft.text(device) + "' to offload to", "write none, cpu or nvme");
    }

    /** The section only tunes checkpoints that a model's code makes; where it asks for any, all layers are recomputed: values are the same. */
    private void activations() {
        String partition = CHECKPOINTING + "partition_activations";
        String number = CHECKPOINTING + "number_checkpoints";
        String host = CHECKPOINTING + "cpu_checkpointing";
        String asks = draft.flag(partition) ? partition : draft.has(number) ? number : draft.flag(host) ? host : "";
        for (String key : List.of(partition, number, host)) {
            if (!draft.has(key)) {
                continue;
            }
            if (key.equals(asks)) {
                draft.mapped(
                        key,
                        "In DeepSpeed the model's code says what is recomputed; here it is every layer, with the same"
                                + " values.",
                        draft.setting("gradient_checkpointing.layers", "all", key));
            } else {
                draft.noEffect(key, asks.isEmpty() ? "It does not ask for recomputation." : "Every layer is recomputed.");
            }
        }
    }
}
