package dev.octet.trainer.dialect;

import dev.octet.trainer.yaml.Section;
import java.util.List;

/** What TrainingArguments of transformers really do. */
final class TrainingArguments {
    private final Draft draft;

    private TrainingArguments(Draft draft) {
        this.draft = draft;
    }

    /** @param given what is known besides the file */
    static Reading read(Section file, Given given) {
        Draft draft = new Draft(Dialect.TRANSFORMERS, file);
        TrainingArguments arguments = new TrainingArguments(draft);
        arguments.betas();
        arguments.length();
        arguments.warmup();
        arguments.precision();
        return draft.finish();
    }

    private void betas() {
        String betas = "[" + draft.text("adam_beta1") + ", " + draft.text("adam_beta2") + "]";
        for (String key : List.of("adam_beta1", "adam_beta2")) {
            if (draft.has(key)) {
                draft.mapped(key, "", draft.setting("optimizer.betas", betas, key));
            }
        }
    }

    /** max_steps counts where it is above 0, otherwise epochs do. */
    private void length() {
        boolean steps = draft.number("max_steps") > 0;
        if (steps) {
            draft.applied("max_steps", "steps", DeepSpeed.plain(draft.number("max_steps")), "");
            if (draft.has("num_train_epochs")) {
                draft.noEffect("num_train_epochs", "max_steps is given.");
            }
            return;
        }
        if (draft.has("max_steps")) {
            draft.noEffect("max_steps", "num_train_epochs counts.");
        }
        draft.applied("num_train_epochs", "epochs", draft.text("num_train_epochs"), "");
    }

    private void warmup() {
        String steps = "warmup_steps";
        String ratio = "warmup_ratio";
        boolean counted = draft.number(steps) > 0;
        if (draft.has(steps) && counted) {
            draft.applied(steps, "schedule.warmup", DeepSpeed.plain(draft.number(steps)), "");
        } else if (draft.has(steps)) {
            draft.noEffect(steps, "0 leaves the warm-up to warmup_ratio.");
        }
        if (draft.has(ratio) && (counted || draft.number(ratio) == 0)) {
            draft.noEffect(ratio, counted ? "warmup_steps is given." : "There is no warm-up.");
        } else if (draft.has(ratio)) {
            draft.applied(ratio, "schedule.warmup", draft.text(ratio), "");
        }
    }

    private void precision() {
        for (String key : List.of("bf16", "fp16")) {
            if (draft.has(key) && draft.flag(key)) {
                draft.mapped(
                        key,
                        "torch's autocast.",
                        draft.setting("precision.mode", key, key),
                        draft.setting("precision.autocast", "cuda", key));
            } else if (draft.has(key)) {
                draft.noEffect(key, "It is off.");
            }
        }
    }
}
