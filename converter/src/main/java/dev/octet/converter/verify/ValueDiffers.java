package dev.octet.converter.verify;

import dev.octet.converter.compare.ModelDiff;
import dev.octet.converter.compare.Nearness;
import dev.octet.converter.compare.TensorDiff;
import java.io.IOException;
import java.util.Locale;
import java.util.Set;

/** Tensors that are not quantised and not those of the original. */
final class ValueDiffers extends CheckpointRule {
    ValueDiffers() {
        super(
                "value-differs",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "A tensor that is not quantised holds the original's values: the same bits in the same number type,"
                        + " each rounded once in another.",
                "export again; where weights were changed on purpose, compare with the model after that change",
                "vllm-project/vime#133, amd/Quark#42");
    }

    @Override
    public boolean deep() {
        return true;
    }

    @Override
    public boolean needsOriginal() {
        return true;
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) throws IOException {
        BesideOriginal beside = subject.besideOriginal();
        if (beside == null) {
            return;
        }
        Set<String> quantized = subject.stored().weights().keySet();
        for (TensorDiff pair : beside.pairs()) {
            if (!quantized.contains(pair.b())) {
                check(pair, findings);
            }
        }
        for (ModelDiff.Uncomparable tensor : beside.uncomparable()) {
            // another shape, or a missing scale, is what other rules tell
            if (!quantized.contains(tensor.b())
                    && subject.stored().plain().containsKey(tensor.b())
                    && !tensor.reason().startsWith("shapes differ")) {
                findings.add(
                        this,
                        Severity.WARNING,
                        consumers(),
                        "a tensor cannot be compared with the original's",
                        tensor.b(),
                        tensor.reason());
            }
        }
    }

    private void check(TensorDiff pair, Findings findings) {
        boolean sameType = pair.schemeA().equals(pair.schemeB());
        Nearness n = pair.nearness();
        long changed = sameType ? pair.differing() + pair.zeroSigns() : n.off() + n.clipped();
        if (changed + pair.notFiniteApart() > 0) {
            findings.add(
                    this,
                    "a tensor that is not quantised is not the original's",
                    pair.b(),
                    String.format(
                            Locale.ROOT,
                            "%d of %d elements, by up to %.3g",
                            changed + pair.notFiniteApart(),
                            pair.elements(),
                            pair.maxAbsError()));
        }
    }
}
