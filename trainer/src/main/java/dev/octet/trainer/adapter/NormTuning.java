package dev.octet.trainer.adapter;

import dev.octet.formats.peft.PeftKeys;
import dev.octet.formats.peft.PeftRole;

/** LN tuning: the weights and biases of norms are trained, all else is frozen (Zhao et al., arXiv:2312.11420). */
final class NormTuning {
    private NormTuning() {}

    static void apply(Targets targets, AdapterEdit edit) {
        for (String norm : targets.norms()) {
            train(edit, norm + ".weight", PeftKeys.key(norm, PeftRole.NORM_WEIGHT));
            train(edit, norm + ".bias", PeftKeys.key(norm, PeftRole.NORM_BIAS));
        }
    }

    private static void train(AdapterEdit edit, String parameter, String key) {
        if (edit.isConstant(parameter)) {
            edit.trainCopy(parameter, key, edit.readers(parameter));
        }
    }
}
