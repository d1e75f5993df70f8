package dev.octet.trainer.config;

import dev.octet.trainer.yaml.Section;

/**
 * How often to measure what FP8 casts lose.
 *
 * @param every steps between two measurements; 0 for never
 */
public record Fp8HealthConfig(long every) {
    private static final String KEY = "fp8_health";
    private static final long USUAL = 100;

    /** Reads the key from a whole configuration; only FP8 runs may have it. */
    static Fp8HealthConfig read(Section run, PrecisionConfig precision) {
        if (precision.isFp8()) {
            return run.section(KEY).read(s -> new Fp8HealthConfig(s.whole("every", USUAL, 0, Long.MAX_VALUE)));
        }
        if (run.has(KEY)) {
            throw run.error(
                    KEY,
                    precision.msamp().isPresent()
                            ? "mode msamp casts weights from scaled F16, which these measurements do not read"
                            : "mode " + precision.mode() + " casts nothing to FP8, so there is nothing to measure",
                    "leave the key out, or choose precision: {mode: fp8}");
        }
        return new Fp8HealthConfig(0);
    }
}
