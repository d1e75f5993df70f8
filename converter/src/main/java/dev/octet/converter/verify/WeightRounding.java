package dev.octet.converter.verify;

import dev.octet.converter.compare.Nearness;
import dev.octet.converter.compare.TensorDiff;
import java.io.IOException;
import java.util.Locale;

/** Codes that are not the nearest. */
final class WeightRounding extends WeightRule {
    WeightRounding() {
        super(
                "weight-rounding",
                Severity.ADVICE,
                Consumer.OF_CHECKPOINTS,
                "Every code is the one nearest to original over scale, unless weights were rounded with compensation.",
                "nothing where that was meant (GPTQ); else quantise again, rounding to nearest with the scale as"
                        + " stored",
                "microsoft/onnxruntime#16938, vllm-project/vllm#40934");
    }

    /** A bias that neither rounding nor compensation makes: truncation makes 3 % of E4M3, GPTQ to E2M1 up to 4.2 %. */
    private static final double BIAS = 0.045;

    /** Errors so much larger than those of rounding to nearest are more than compensation makes: GPTQ makes 1.2 to 2.6 times as much. */
    private static final double LARGE = 4;

    @Override
    public boolean needsOriginal() {
        return true;
    }

    @Override
    void check(WeightFacts weight, CheckpointSubject subject, Findings findings) throws IOException {
        BesideOriginal beside = subject.besideOriginal();
        TensorDiff pair = beside == null ? null : beside.of(weight.weight().name());
        WeightFacts.Comparison c = weight.comparison();
        if (beside == null
                || pair == null
                || pair.nearness().off() == 0
                || BesideOriginal.relativeError(pair) > WeightFacts.Comparison.ROUNDING
                || (c != null && c.isTransposed())
                || beside.isDamaged(pair.nearness())) {
            return;
        }
        Nearness n = pair.nearness();
        String detail = String.format(
                Locale.ROOT,
                "%d of %d codes, error %.2f times that of the nearest",
                n.off(),
                n.elements(),
                n.rms() / n.nearestRms());
        String name = weight.weight().name();
        if (n.clipped() == 0 && Math.abs(n.gain() - 1) > BIAS) {
            findings.add(
                    this,
                    Severity.WARNING,
                    consumers(),
                    "a weight is too large or too small on the whole: scales do not fit its codes",
                    name,
                    String.format(Locale.ROOT, "the original is %.3f times as large", n.gain()));
        } else if (n.rms() > LARGE * n.nearestRms()) {
            findings.add(
                    this,
                    Severity.WARNING,
                    consumers(),
                    "codes are further from the original than any rounding should bring them",
                    name,
                    detail);
        } else if (n.far() == 0) {
            findings.add(this, "codes are not those nearest to the original, by little: rounded twice", name, detail);
        } else {
            findings.add(
                    this,
                    "codes are not those nearest to the original: rounded with compensation (GPTQ), twice, or with"
                            + " another scale",
                    name,
                    detail);
        }
    }
}
