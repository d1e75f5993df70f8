package dev.octet.trainer.rule;

import dev.octet.formats.tensor.DType;

/**
 * Muon (Jordan et al., kellerjordan.github.io/posts/muon): momentum of a matrix, brought near to an orthogonal matrix by an iteration of Newton and Schulz. Names,
 * formula and defaults are those of torch.optim.Muon.
 *
 * @param momentum weight of the past in the momentum
 * @param nesterov whether the update is the gradient moved towards the momentum
 * @param a coefficient of X
 * @param b coefficient of XXᵀX
 * @param c coefficient of (XXᵀ)²X
 * @param steps of the iteration
 * @param eps least norm that a matrix is divided by before it
 * @param adjust what the learning rate of a matrix is multiplied by
 * @param type of the products' operands: BF16 or F32
 */
public record MuonRule(
        double momentum,
        boolean nesterov,
        double a,
        double b,
        double c,
        int steps,
        double eps,
        Adjust adjust,
        DType type)
        implements UpdateRule {
    /** What the learning rate of a matrix is multiplied by, so that updates of all shapes have like sizes. */
    public enum Adjust {
        /** {@code √max(1, rows / columns)}, as its authors have it. */
        ORIGINAL,
        /** {@code 0.2 √max(rows, columns)}, with which rates of AdamW fit (Liu et al., arXiv:2502.16982). */
        MATCH_RMS_ADAMW,
        /** 1. */
        NONE
    }

    /** torch's defaults. */
    public static final MuonRule DEFAULT =
            new MuonRule(0.95, true, 3.4445, -4.7750, 2.0315, 5, 1e-7, Adjust.ORIGINAL, DType.BF16);

    /** What the learning rate of a matrix is multiplied by. */
    public double adjustment(long rows, long columns) {
        return switch (adjust) {
            case ORIGINAL -> Math.sqrt(Math.max(1, (double) rows / columns));
            case MATCH_RMS_ADAMW -> 0.2 * Math.sqrt((double) Math.max(rows, columns));
            case NONE -> 1;
        };
    }
}
