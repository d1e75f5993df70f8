package dev.octet.trainer.optimizer;

/**
 * The learning rate over a run, as a factor of the highest one. The formulas are those of the transformers library ({@code
 * get_constant_schedule_with_warmup} and its like).
 *
 * @param warmup steps in which the factor rises from 0 in a line; the first step of a warm-up has factor 0
 * @param steps of the whole run
 */
public record Schedule(Shape shape, long warmup, long steps) {
    /** What follows the warm-up. */
    public enum Shape {
        /** 1 to the end. */
        CONSTANT,
        /** Down to 0 in a line. */
        LINEAR,
        /** Down to 0 as half a cosine. */
        COSINE
    }

    /** Factor of the step that follows {@code done} completed ones. */
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
