package dev.octet.formats.gguf;

import java.util.Arrays;
import java.util.Optional;

/** The types of values in the metadata of GGUF files. Source: ggml, docs/gguf.md (enum gguf_metadata_value_type). */
public enum GgufKind {
    U8(1),
    I8(1),
    U16(2),
    I16(2),
    U32(4),
    I32(4),
    F32(4),
    BOOL(1),
    /** A length of 8 bytes, then UTF-8. */
    STRING(8),
    /** Kind of the elements, 4 bytes; their number, 8 bytes; the elements. */
    ARRAY(12),
    U64(8),
    I64(8),
    F64(8);

    private final int leastBytes;

    GgufKind(int leastBytes) {
        this.leastBytes = leastBytes;
    }

    /** Bytes that any value of this kind has. */
    int leastBytes() {
        return leastBytes;
    }

    /** Whether values are whole numbers. */
    public boolean isWhole() {
        return switch (this) {
            case U8, I8, U16, I16, U32, I32, U64, I64 -> true;
            case F32, F64, BOOL, STRING, ARRAY -> false;
        };
    }

    /** The kind of this number in files; empty for one that is not known. */
    static Optional<GgufKind> of(int id) {
        return Arrays.stream(values()).filter(k -> k.ordinal() == id).findFirst();
    }
}
