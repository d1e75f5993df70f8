package dev.octet.trainer.op.gated;

/** What a gated MLP does to its gate. */
public enum Activation {
    /** Gelu. */
    GELU(0),
    /** Gelu by tanh. */
    GELU_TANH(1),
    /** SiLU, x times its sigmoid. */
    SILU(2);

    private final int number;

    Activation(int number) {
        this.number = number;
    }

    /** Its number in {@code octet.cuh}. */
    public int number() {
        return number;
    }
}
