package dev.octet.trainer.optimizer;

/**
 * The learning rate over a run, as a factor of the peak. The formulas are those of the transformers library
 * ({@code get_constant_schedule_with_warmup} etc.).
 *
 * @param warmup steps over which the factor rises linearly from 0; the first step has factor 0
 * @param steps of the whole run
 */
public record Schedule(Shape shape, long warmup, long steps) {
    /** Shape after the warm-up. */
    public enum Shape {
        /** 1 until the end. */
        CONSTANT,
        /** Linear decay to 0. */
        LINEAR,
        /** Cosine decay to 0 (half a period). */
        COSINE
    }

    /** Factor of the step after {@code done} completed steps. */
    public double factor(long done) {
        if (done < warmup) {
            return (double) done / Math.max(1, warmup);
        }
        double left = Math.max(1, steps - warmup);
        return switch (shape) {
            case CONSTANT -> 1;
            case LINEAR -> Math.max(0, (steps - done) / left);
            case COSINE -> Math.max(0, 0.5 * (1 + Math.cos(Math.PI * ((done - warmup) / left))));
        };
    }
}
