package dev.octet.quant.cast;

import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;

/** The twin for a few elements: the formula of {@link Rounding}, one element at a time. */
public final class ElementCastScalar extends CastElementwise {
    /** A scalar twin; it has no state. */
    public ElementCastScalar() {}

    @Override
    public String name() {
        return "scalar";
    }

    @Override
    Encoder encoder(Float8Format format, Overflow overflow) {
        if (format == Float8Format.E8M0) {
            return x -> format.encode(x, overflow);
        }
        Rounding rounding = Rounding.to(format, overflow);
        return rounding::encode;
    }
}
