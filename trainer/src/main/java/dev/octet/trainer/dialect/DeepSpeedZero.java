package dev.octet.trainer.dialect;

import java.util.List;

/** ZeRO, offload and checkpoints of activations in a JSON of DeepSpeed (deepspeed/runtime/zero/config.py, offload_config.py). */
final class DeepSpeedZero {
    private static final String ZERO = "zero_optimization";
    private static final String STAGE = "zero_optimization.stage";
    private static final String BUCKET = ZERO + ".reduce_bucket_size";
    private static final String PARAMETERS = ZERO + ".offload_param.";
    private static final String STATES = ZERO + ".offload_optimizer.";
    private static final String CHECKPOINTING = "activation_checkpointing.";

    private final Draft draft;
    private final boolean onGpu;
    private long stage;

    private DeepSpeedZero(Draft draft, boolean onGpu) {
        this.draft = draft;
        this.onGpu = onGpu;
    }

    static void read(Draft draft, Given given) {
        DeepSpeedZero zero = new DeepSpeedZero(draft, given.onGpu());
        zero.stage();
        zero.offload("weights", ZERO + ".cpu_offload_param", PARAMETERS, "offload.parameters", 3);
        zero.offload("moments and masters", ZERO + ".cpu_offload", STATES, "offload.states", 1);
        zero.activations();
    }

    private void stage() {
        if (draft.has(ZERO)) {
            stage = draft.flag(ZERO) ? 1 : 0;
            chosen(ZERO, "The deprecated spelling of stage 1. ");
        }
        if (!draft.has(STAGE)) {
            return;
        }
        if (draft.number(STAGE) < 0 || draft.number(STAGE) > 3) {
            draft.problem(STAGE, "ZeRO has no stage " + draft.text(STAGE), "write 0, 1, 2 or 3");
            return;
        }
        stage = draft.whole(STAGE);
        chosen(STAGE, "");
    }

    /** What ranks share out, and in which portions: DeepSpeed counts numbers where {@code distributed.bucket_size} counts bytes of F32. */
    private void chosen(String key, String before) {
        if (stage == 0) {
            draft.noEffect(key, before + "Stage 0 splits nothing.");
            return;
        }
        draft.mapped(
                key,
                before + "Processes share out "
                        + List.of("states", "states and gradients", "states, gradients and weights")
                                .get((int) stage - 1)
                        + "; one alone keeps all.",
                draft.setting("distributed.zero", String.valueOf(stage), key));
        if (draft.has(BUCKET) && draft.number(BUCKET) >= 1) {
            long bytes = (long) Math.min(Long.MAX_VALUE, draft.number(BUCKET) * Float.BYTES);
            draft.mapped(
                    BUCKET,
                    "As many numbers in F32, in bytes.",
                    draft.setting("distributed.bucket_size", String.valueOf(bytes), BUCKET));
        }
    }

    /**
     * Where weights lie between their uses, with stage 3, and states and masters, with stages 1 to 3.
     *
     * @param what is offloaded, for reasons
     * @param old the deprecated flag for host memory
     * @param section that replaced it
     * @param here the key of a run
     * @param least stage that DeepSpeed reads it with
     */
    private void offload(String what, String old, String section, String here, int least) {
        String device = section + "device";
        String path = section + "nvme_path";
        boolean isRead = stage >= least;
        String idle = "DeepSpeed reads it with stage " + (least == 3 ? "3 only." : "1, 2 or 3 only.");
        if (draft.has(old)) {
            if (draft.has(device) && draft.flag(old)) {
                draft.problem(old, "the deprecated " + old + " and " + device + " are both given", "keep " + device);
            } else if (draft.flag(old) && isRead) {
                host(old, what, here);
            } else {
                draft.noEffect(old, draft.flag(old) ? idle : "Nothing is offloaded.");
            }
        }
        boolean disk = draft.has(device) && draft.word(device).equals("nvme") && isRead;
        boolean files = disk && !onGpu;
        if (draft.has(device)) {
            switch (draft.word(device)) {
                case "none" -> draft.noEffect(device, "Nothing is offloaded.");
                case "cpu", "nvme" -> {
                    if (!isRead) {
                        draft.noEffect(device, idle);
                    } else if (!disk) {
                        host(device, what, here);
                    } else if (!draft.has(path)) {
                        draft.problem(
                                device,
                                what + " are to go to a disk, but nvme_path is missing",
                                "add \"nvme_path\": \"FOLDER\"");
                    } else if (onGpu) {
                        draft.refused(device, "On a GPU they go to the memory of the host, not to a disk: write cpu.");
                    } else {
                        draft.mapped(
                                device,
                                Character.toUpperCase(what.charAt(0)) + what.substring(1)
                                        + " lie in mapped files between their uses.",
                                draft.setting(here, "disk", device));
                    }
                }
                default ->
                    draft.problem(
                            device,
                            "there is no device '" + draft.text(device) + "' to offload to",
                            "write none, cpu or nvme");
            }
        }
        if (draft.has(path) && files) {
            draft.applied(path, "offload.path", quoted(draft.text(path)), "");
        } else if (draft.has(path)) {
            draft.noEffect(path, "Nothing of it goes to a disk.");
        }
    }

    private void host(String key, String what, String here) {
        if (!onGpu) {
            draft.noEffect(
                    key,
                    "On a processor they lie in the memory of the host anyway; on a GPU it is " + here + ": host.");
            return;
        }
        draft.mapped(
                key,
                Character.toUpperCase(what.charAt(0)) + what.substring(1)
                        + " lie in the memory of the host between their uses.",
                draft.setting(here, "host", key));
    }

    private static String quoted(String path) {
        return path.matches("[A-Za-z0-9_./][A-Za-z0-9_./+-]*") ? path : "'" + path.replace("'", "''") + "'";
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
            Setting layers = draft.setting("gradient_checkpointing.layers", "all", key);
            boolean away = key.equals(host) && draft.flag(host);
            if (away && onGpu) {
                Setting activations = draft.setting("offload.activations", "host", key);
                String why = "What is kept between forward and backward lies in the memory of the host.";
                if (key.equals(asks)) {
                    draft.mapped(key, why + " Every layer is recomputed.", activations, layers);
                } else {
                    draft.mapped(key, why, activations);
                }
            } else if (key.equals(asks)) {
                draft.mapped(
                        key,
                        "In DeepSpeed the model's code says what is recomputed; here it is every layer, with the same"
                                + " values."
                                + (away ? " On a GPU it is offload.activations: host, too." : ""),
                        layers);
            } else if (away) {
                draft.noEffect(
                        key,
                        "On a processor they lie in the memory of the host anyway; on a GPU it is offload.activations:"
                                + " host.");
            } else {
                draft.noEffect(
                        key, asks.isEmpty() ? "It does not ask for recomputation." : "Every layer is recomputed.");
            }
        }
    }
}
