package dev.octet.quant.cast;

/** Chooses the twin when first asked; a class of its own so that the choice is made once and late. */
final class BestCast {
    static final ElementCast INSTANCE = choose();

    private BestCast() {}

    /** Loading {@link ElementCastVector} without its module would fail, so that is asked first. */
    private static ElementCast choose() {
        boolean vectors = ModuleLayer.boot().findModule("jdk.incubator.vector").isPresent();
        return vectors && ElementCastVector.fits() ? new ElementCastVector() : new CastArrays();
    }
}
