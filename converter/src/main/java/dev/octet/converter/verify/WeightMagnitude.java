package dev.octet.converter.verify;

import java.util.Locale;

/** Weights whose size no trained weight has. */
final class WeightMagnitude extends WeightRule {
    WeightMagnitude() {
        super(
                "weight-magnitude",
                Severity.WARNING,
                Consumer.OF_CHECKPOINTS,
                "Dequantised weights have a root mean square from 1e-4 to 10.",
                "look at the direction of the scales and of the global scale; compare with --against",
                "modular/modular#6600");
    }

    @Override
    void check(WeightFacts weight, CheckpointSubject subject, Findings findings) {
        double rms = weight.rms();
        if (weight.histogram().distinct() > 1 && (rms < 1e-4 || rms > 10)) {
            findings.add(
                    this,
                    rms > 10 ? "weights are larger than any" : "weights are smaller than any",
                    weight.weight().name(),
                    String.format(Locale.ROOT, "root mean square %.3g", rms));
        }
    }
}
