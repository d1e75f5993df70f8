package dev.octet.trainer.dialect;

import dev.octet.trainer.yaml.Section;

/** What a configuration of Accelerate really does. */
final class Accelerate {
    private Accelerate() {}

    /** @param given what is known besides the file */
    static Reading read(Section file, Given given) {
        Draft draft = new Draft(Dialect.ACCELERATE, file);
        if (draft.has("mixed_precision")) {
            String mode = draft.word("mixed_precision").equals("no") ? "fp32" : draft.word("mixed_precision");
            draft.mapped("mixed_precision", "", draft.setting("precision.mode", mode, "mixed_precision"));
        }
        return draft.finish();
    }
}
