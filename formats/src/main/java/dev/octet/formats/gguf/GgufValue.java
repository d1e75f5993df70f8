package dev.octet.formats.gguf;

import java.util.List;

/** A value in the metadata of a GGUF file. */
public sealed interface GgufValue {
    /** The kind as which it is stored. */
    GgufKind kind();

    /** A whole number; of {@link GgufKind#U64} the 64 bits. */
    record Whole(GgufKind kind, long number) implements GgufValue {
        public Whole {
            if (!kind.isWhole()) {
                throw new IllegalArgumentException(kind + " is no whole number");
            }
        }
    }

    /** A number that need not be whole. */
    record Real(GgufKind kind, double number) implements GgufValue {
        public Real {
            if (kind != GgufKind.F32 && kind != GgufKind.F64) {
                throw new IllegalArgumentException(kind + " is no floating-point number");
            }
        }
    }

    /** True or false. */
    record Truth(boolean value) implements GgufValue {
        @Override
        public GgufKind kind() {
            return GgufKind.BOOL;
        }
    }

    /** A text. */
    record Text(String text) implements GgufValue {
        @Override
        public GgufKind kind() {
            return GgufKind.STRING;
        }
    }

    /** Values of one kind. */
    record Sequence(GgufKind element, List<GgufValue> values) implements GgufValue {
        public Sequence {
            values = List.copyOf(values);
            for (GgufValue v : values) {
                if (v.kind() != element) {
                    throw new IllegalArgumentException("an array of " + element + " with a " + v.kind());
                }
            }
        }

        @Override
        public GgufKind kind() {
            return GgufKind.ARRAY;
        }
    }

    /** An unsigned number of 32 bits, as most of llama.cpp's keys are. */
    static GgufValue of(int number) {
        return new Whole(GgufKind.U32, Integer.toUnsignedLong(number));
    }

    /** A number of type F32. */
    static GgufValue of(float number) {
        return new Real(GgufKind.F32, number);
    }

    /** True or false. */
    static GgufValue of(boolean value) {
        return new Truth(value);
    }

    /** A text. */
    static GgufValue of(String text) {
        return new Text(text);
    }

    /** An array of texts. */
    static GgufValue ofTexts(List<String> texts) {
        return new Sequence(GgufKind.STRING, texts.stream().map(GgufValue::of).toList());
    }
}
