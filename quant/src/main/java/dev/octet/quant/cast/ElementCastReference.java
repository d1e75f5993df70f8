package dev.octet.quant.cast;

import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;

/** The twin that is law: every element through {@link Float8Format#encode}, which works by the definition. */
public final class ElementCastReference extends CastElementwise {
    /** A reference twin; it has no state. */
    public ElementCastReference() {}

    @Override
    public String name() {
        return "reference";
    }

    @Override
    Encoder encoder(Float8Format format, Overflow overflow) {
        return x -> format.encode(x, overflow);
    }
}
