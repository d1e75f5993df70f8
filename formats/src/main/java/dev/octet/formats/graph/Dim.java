package dev.octet.formats.graph;

import org.jspecify.annotations.Nullable;

/**
 * One dimension of a value: a number, a named symbol ({@code batch_size}), or unknown. Two equal symbols in one graph mean the
 * same number.
 *
 * @param size the number, at least 0; null if unknown
 * @param symbol the name; null without a name; never together with {@code size}
 * @param denotation ONNX's dimension denotation, empty when absent
 */
public record Dim(@Nullable Long size, @Nullable String symbol, String denotation) {
    public static final Dim UNKNOWN = new Dim(null, null, "");

    public Dim {
        if (size != null && symbol != null) {
            throw new IllegalArgumentException("a dimension is a number or a symbol, not both");
        }
    }

    public static Dim of(long size) {
        return new Dim(size, null, "");
    }

    public static Dim of(String symbol) {
        return new Dim(null, symbol, "");
    }

    public boolean isKnown() {
        return size != null;
    }

    /** Whether both are certainly the same number: equal sizes or equal symbols. */
    public boolean sameAs(Dim other) {
        return size != null ? size.equals(other.size) : symbol != null && symbol.equals(other.symbol);
    }

    @Override
    public String toString() {
        return size != null ? size.toString() : symbol != null ? symbol : "?";
    }
}
