package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.StoredTensor;
import java.util.Locale;

/** Scales that look like the multiplier of quantisation, not that of dequantisation. */
final class ScaleDirection extends CheckpointRule {
    ScaleDirection() {
        super(
                "scale-direction",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "A stored scale multiplies codes: amax / 448. Its reciprocal makes every weight as large as it was"
                        + " small.",
                "store the reciprocal of the scales",
                "vllm-project/vllm#36297, NVIDIA/TransformerEngine:transformer_engine/pytorch/module/base.py");
    }

    /** Typical scales above this mean weights of 448 times as much: none are. */
    private static final double CERTAIN = 16;

    private static final double SUSPICIOUS = 2;

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.quantized()
                .filter(l -> !l.isPacked())
                .forEach(l -> l.first(LayerTensors.WEIGHT_SCALES).ifPresent(s -> check(s, subject, findings)));
    }

    private void check(StoredTensor scale, CheckpointSubject subject, Findings findings) {
        subject.values(scale).filter(v -> v.typical() > SUSPICIOUS).ifPresent(v -> {
            boolean certain = v.typical() > CERTAIN;
            findings.add(
                    this,
                    certain ? Severity.ERROR : Severity.WARNING,
                    consumers(),
                    certain ? "scales are reciprocals" : "scales are large: they may be reciprocals",
                    scale.name(),
                    String.format(Locale.ROOT, "typically %.4g", v.typical()));
        });
    }
}
