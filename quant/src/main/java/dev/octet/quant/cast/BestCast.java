package dev.octet.quant.cast;

/** Chooses the twin when first asked; a class of its own so that the choice is made once and late. */
final class BestCast {
    static final Cast INSTANCE = choose();

    private BestCast() {}

    private static Cast choose() {
        return new CastReference();
    }
}
