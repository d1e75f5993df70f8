package dev.octet.trainer.shard;

import java.util.Arrays;

/** What ranks divide among themselves, in the stages of ZeRO (Rajbhandari et al. 2020, arXiv:1910.02054, §5); each has what those before it have. */
public enum ZeroStage {
    /** Nothing: each rank keeps all. */
    NONE(0),
    /** What the optimizer remembers of a parameter. */
    STATES(1),
    /** Gradients, too. */
    GRADIENTS(2),
    /** Weights, too. */
    WEIGHTS(3);

    private final int number;

    ZeroStage(int number) {
        this.number = number;
    }

    /** The stage of a number, 0 to 3. */
    public static ZeroStage of(int number) {
        return Arrays.stream(values())
                .filter(s -> s.number == number)
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("ZeRO has no stage " + number));
    }

    /** Its number in ZeRO, which configurations write. */
    public int number() {
        return number;
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
