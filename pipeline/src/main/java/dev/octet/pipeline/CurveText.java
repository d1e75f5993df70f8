package dev.octet.pipeline;

import dev.octet.pipeline.doctor.Spike;
import dev.octet.pipeline.doctor.Symptom;
import dev.octet.pipeline.doctor.Triage;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** What curves show, in a sentence. */
final class CurveText {
    private CurveText() {}

    /**
     * The sentence.
     *
     * @param t null where no curves were compared
     * @param base what the run was compared with, in words
     */
    static String of(Symptom symptom, @Nullable Triage t, String base) {
        if (t == null) {
            return symptom.text();
        }
        return switch (symptom) {
            case NONE ->
                String.format(
                        Locale.ROOT,
                        "healthy: over %d steps the loss stays within %s of that of %s",
                        t.steps(),
                        percent(Math.max(Math.abs(t.gap()), t.threshold())),
                        base);
            case SHARED_SPIKE ->
                t.spikes().isEmpty()
                        ? "not FP8's fault: the reference jumps as FP8 does"
                        : "not FP8's fault: " + spike(t.spikes().getFirst()) + " is in " + base
                                + " too, and both recover";
            case SHARED_DIVERGENCE ->
                "not FP8's fault: from step " + t.onset() + " on the loss rises in " + base
                        + " too, and neither recovers";
            case OWN_SPIKE -> "FP8: " + spike(t.spikes().getFirst()) + " is not in " + base;
            case EARLY_MISMATCH ->
                "FP8: from the first steps on the loss is above that of " + base + ", in the end by "
                        + percent(t.gap());
            case LATE_DIVERGENCE ->
                "FP8: from step " + t.onset() + " on the loss rises above that of " + base + ", in the end by "
                        + percent(t.gap());
            case NOT_FINITE ->
                "FP8: from step " + t.onset() + " on the loss is not finite, and that of " + base + " is";
            case REPLAYS, DOWNSTREAM -> symptom.text();
        };
    }

    private static String percent(double share) {
        return String.format(Locale.ROOT, "%.2g %%", 100 * share);
    }

    private static String spike(Spike spike) {
        return String.format(
                Locale.ROOT,
                "the spike at %s (loss %s over %.3g)",
                spike.first() == spike.last()
                        ? "step " + spike.first()
                        : "steps " + spike.first() + " to " + spike.last(),
                Double.isFinite(spike.peak()) ? String.format(Locale.ROOT, "%.3g", spike.peak()) : "not finite",
                spike.before());
    }
}
