package dev.octet.trainer.dialect;

/** The schedule of learning rates that a JSON of DeepSpeed names (deepspeed/runtime/lr_schedules.py). */
final class DeepSpeedSchedule {
    private static final String TYPE = "scheduler.type";

    private DeepSpeedSchedule() {}

    static void read(Draft draft) {
        if (!draft.has(TYPE)) {
            for (String key : draft.below("scheduler.params")) {
                draft.noEffect(key, "The file names no schedule.");
            }
            return;
        }
        draft.refused(TYPE, "It is not read yet.");
        for (String key : draft.below("scheduler.params")) {
            draft.noEffect(key, "The schedule is refused.");
        }
    }
}
