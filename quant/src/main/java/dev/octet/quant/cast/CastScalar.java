package dev.octet.quant.cast;

import dev.octet.quant.number.Minifloat;
import dev.octet.quant.number.Overflow;

/** The twin for a few elements: the formula of {@link Rounding}, one element at a time. */
public final class CastScalar extends CastElementwise {
    /** A scalar twin; it has no state. */
    public CastScalar() {}

    @Override
    public String name() {
        return "scalar";
    }

    @Override
    Encoder encoder(Minifloat format, Overflow overflow) {
        if (format == Minifloat.E8M0) {
            return x -> format.encode(x, overflow);
        }
        Rounding rounding = Rounding.to(format, overflow);
        return rounding::encode;
    }
}
