package dev.octet.trainer.config;

import dev.octet.trainer.yaml.Section;

/**
 * When to stop a diverging run.
 *
 * @param factor stop when the loss exceeds its running mean by this factor; 0 for never
 * @param patience for this many steps in a row
 */
public record DivergenceConfig(double factor, int patience) {
    static DivergenceConfig read(Section s) {
        DivergenceConfig divergence = new DivergenceConfig(
                s.number("factor", 0, 0, Double.MAX_VALUE), (int) s.whole("patience", 1, 1, Integer.MAX_VALUE));
        if (divergence.factor != 0 && divergence.factor <= 1) {
            throw s.error("factor", "a loss at its mean would end the run", "give a factor above 1, or 0 for never");
        }
        return divergence;
    }
}
