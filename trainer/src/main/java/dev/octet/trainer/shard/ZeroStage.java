package dev.octet.trainer.shard;

/** What ranks divide among themselves, in the stages of ZeRO (Rajbhandari et al. 2020, arXiv:1910.02054, §5); each has what those before it have. */
public enum ZeroStage {
    /** Nothing: each rank keeps all. */
    NONE,
    /** What the optimizer remembers of a parameter. */
    STATES,
    /** Gradients, too. */
    GRADIENTS,
    /** Weights, too. */
    WEIGHTS;

    /** Its number in ZeRO, which configurations write. */
    public int number() {
        return ordinal();
    }

    /** Whether a rank has only its own averaged gradients. */
    public boolean cutsGradients() {
        return compareTo(GRADIENTS) >= 0;
    }

    /** Whether a rank has only its own weights between their uses. */
    public boolean cutsWeights() {
        return this == WEIGHTS;
    }
}
