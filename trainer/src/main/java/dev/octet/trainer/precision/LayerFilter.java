package dev.octet.trainer.precision;

/** Which Linears are left alone because of their size. */
public enum LayerFilter {
    /** None: processors take any size. */
    NONE,
    /** Those whose in or out is not a multiple of 16, which FP8 units ask for. */
    MULTIPLE_OF_16,
    /** As torchao's automatic filter for rowwise scales: those that gain no speed on an H100. */
    TORCHAO_ROWWISE,
    /** As torchao's automatic filter for tensorwise scales. */
    TORCHAO_TENSORWISE;

    /**
     * Whether a Linear stays.
     *
     * @param in length of its input vectors
     * @param out length of its output vectors
     */
    public boolean keeps(long in, long out) {
        boolean whole = in % 16 == 0 && out % 16 == 0;
        return switch (this) {
            case NONE -> true;
            case MULTIPLE_OF_16 -> whole;
            case TORCHAO_ROWWISE -> whole && out > 2048 && in > 1024 && !(out <= 4096 && in <= 2048);
            case TORCHAO_TENSORWISE -> whole && !(in <= 4096 && out <= 1024);
        };
    }
}
