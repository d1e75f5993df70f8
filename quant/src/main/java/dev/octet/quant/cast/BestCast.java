package dev.octet.quant.cast;

import dev.octet.quant.number.VectorUnit;

/** Chooses the twin when first asked; a class of its own so that the choice is made once and late. */
final class BestCast {
    static final ElementCast INSTANCE = choose();

    private BestCast() {}

    /** Loading {@link ElementCastVector} without its module would fail, so that is asked first. */
    private static ElementCast choose() {
        return VectorUnit.isInJvm() && ElementCastVector.fits() ? new ElementCastVector() : new CastArrays();
    }
}
