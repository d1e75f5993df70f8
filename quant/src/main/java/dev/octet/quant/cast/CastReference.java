package dev.octet.quant.cast;

import dev.octet.quant.number.Minifloat;
import dev.octet.quant.number.Overflow;

/** The twin that is law: every element through {@link Minifloat#encode}, which works by the definition. */
public final class CastReference extends CastElementwise {
    /** A reference twin; it has no state. */
    public CastReference() {}

    @Override
    public String name() {
        return "reference";
    }

    @Override
    Encoder encoder(Minifloat format, Overflow overflow) {
        return x -> format.encode(x, overflow);
    }
}
