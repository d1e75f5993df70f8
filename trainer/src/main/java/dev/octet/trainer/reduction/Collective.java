package dev.octet.trainer.reduction;

/** What a rank needs of the others to average a gradient. All ranks make the same calls in the same order; each waits for all. */
public interface Collective {
    /** Number of ranks. */
    int ranks();

    /** The smallest of the ranks' numbers. */
    float min(float own);

    /** The largest of the ranks' numbers. */
    float max(float own);

    /**
     * Replaces E4M3 codes by the ranks' sum, {@link CodeSum} hop by hop in the order of ranks: {@code ((q0 + q1) + q2) + ...}. Where one rank owns
     * the tensor, the codes of the others are undefined afterwards.
     */
    void sum(byte[] codes);
}
