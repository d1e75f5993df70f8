package dev.octet.trainer.dialect;

import dev.octet.trainer.yaml.Section;

/** What TrainingArguments of transformers really do. */
final class TrainingArguments {
    private TrainingArguments() {}

    /** @param given what is known besides the file */
    static Reading read(Section file, Given given) {
        Draft draft = new Draft(Dialect.TRANSFORMERS, file);
        for (String key : java.util.List.of("adam_beta1", "adam_beta2", "num_train_epochs", "max_steps", "warmup_steps", "warmup_ratio", "bf16", "fp16")) {
            if (draft.has(key)) {
                draft.refused(key, "It is not read yet.");
            }
        }
        return draft.finish();
    }
}
