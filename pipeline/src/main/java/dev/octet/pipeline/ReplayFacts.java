package dev.octet.pipeline;

import dev.octet.trainer.replay.Culprit;
import dev.octet.trainer.replay.Deviation;
import dev.octet.trainer.replay.Diagnosis;
import dev.octet.trainer.replay.Evidence;
import dev.octet.trainer.replay.Experiment;
import dev.octet.trainer.replay.LayerProduct;
import java.util.Locale;

/** A diagnosis by replays as the doctor's answer has it: names and numbers, without the trainer's types. */
final class ReplayFacts {
    private ReplayFacts() {}

    /** The facts of a diagnosis. */
    static Doctor.Replays of(Diagnosis d) {
        return new Doctor.Replays(
                d.steps().getFirst(),
                d.steps().getLast(),
                d.layers(),
                d.verdict().name(),
                d.sentence(),
                d.evidence().experiments().stream().map(ReplayFacts::trial).toList(),
                d.evidence().cells().stream().map(ReplayFacts::cell).toList(),
                d.culprits().stream().map(ReplayFacts::guilty).toList(),
                d.suspects().stream().map(LayerProduct::toString).toList(),
                d.proof().map(ReplayFacts::trial).orElse(null),
                d.toFind());
    }

    private static Doctor.Trial trial(Experiment e) {
        Deviation d = e.deviation();
        return new Doctor.Trial(
                e.what(),
                d.excess(),
                d.by(),
                d.loss(),
                d.cosine(),
                d.update(),
                d.isSick(),
                e.reused(),
                e.replay().seconds(),
                e.replay().losses());
    }

    private static Doctor.Cell cell(Evidence.Cell c) {
        return new Doctor.Cell(c.product().module(), lower(c.product().product()), c.excess(), c.together());
    }

    private static Doctor.Guilty guilty(Culprit c) {
        return new Doctor.Guilty(
                c.products().stream().map(LayerProduct::toString).toList(),
                c.operands().stream().sorted().map(ReplayFacts::lower).toList(),
                lower(c.remedy()).replace('_', ' '));
    }

    private static String lower(Enum<?> name) {
        return name.name().toLowerCase(Locale.ROOT);
    }
}
