package dev.octet.trainer.dialect;

import java.util.List;

/** ZeRO and offload in a JSON of DeepSpeed, in one process (deepspeed/runtime/zero/config.py, offload_config.py). */
final class DeepSpeedZero {
    private static final String ZERO = "zero_optimization";
    private static final String STAGE = "zero_optimization.stage";

    private DeepSpeedZero() {}

    static void read(Draft draft) {
        if (draft.has(ZERO)) {
            draft.noEffect(ZERO, "Deprecated: true is stage 1. Nothing is split in one process.");
        }
        if (draft.has(STAGE)) {
            if (draft.number(STAGE) < 0 || draft.number(STAGE) > 3) {
                draft.problem(STAGE, "ZeRO has no stage " + draft.text(STAGE), "write 0, 1, 2 or 3");
            } else {
                draft.noEffect(STAGE, "States, gradients and weights are split over processes, and there is one.");
            }
        }
        for (String where : List.of("offload_param", "offload_optimizer")) {
            String device = ZERO + "." + where + ".device";
            if (draft.has(device)) {
                draft.refused(device, "It is not read yet.");
            }
            if (draft.has(ZERO + "." + where + ".nvme_path")) {
                draft.noEffect(ZERO + "." + where + ".nvme_path", "It is not read yet.");
            }
        }
        for (String key : List.of(ZERO + ".cpu_offload", ZERO + ".cpu_offload_param")) {
            if (draft.has(key)) {
                draft.refused(key, "It is not read yet.");
            }
        }
        for (String key : draft.below("activation_checkpointing")) {
            if (!draft.isByTable(key)) {
                draft.noEffect(key, "It is not read yet.");
            }
        }
    }
}
