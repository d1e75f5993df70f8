package dev.octet.quant.cast;

/** Chooses the twin when first asked; a class of its own so that the choice is made once and late. */
final class BestCast {
    static final Cast INSTANCE = choose();

    private BestCast() {}

    private static Cast choose() {
        if (ModuleLayer.boot().findModule("jdk.incubator.vector").isEmpty()) {
            return scalarBecause("start java with --add-modules jdk.incubator.vector");
        }
        return CastVector.fits()
                ? new CastVector()
                : scalarBecause("this processor's vectors are narrower than 256 bits");
    }

    private static Cast scalarBecause(String reason) {
        System.getLogger(Cast.class.getName())
                .log(System.Logger.Level.WARNING, "casting without SIMD, some ten times slower: {0}", reason);
        return new CastScalar();
    }
}
