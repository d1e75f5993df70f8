package dev.octet.converter.gguf;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.gguf.GgufHeader;
import dev.octet.formats.gguf.GgufKind;
import dev.octet.formats.gguf.GgufValue;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * The keys of a file, asked for by name and kind.
 *
 * @param where the file, for messages
 */
record GgufKeys(GgufHeader header, String where) {
    static final String ARCHITECTURE = "general.architecture";
    static final String NAME = "general.name";

    /** No size of a known model, and no dimension of its tensors, is larger. */
    static final long MAX_SIZE = 1 << 24;

    /** A text. */
    Optional<String> text(String key) {
        return header.value(key).map(v -> v instanceof GgufValue.Text t ? t.text() : wrong(key, v, "a text"));
    }

    /** A text that must be there. */
    String requiredText(String key) {
        return text(key).orElseThrow(() -> missing(key));
    }

    /** A whole number. */
    OptionalLong whole(String key) {
        Optional<Long> found = header.value(key)
                .map(v -> v instanceof GgufValue.Whole w ? w.number() : wrong(key, v, "a whole number"));
        return found.isPresent() ? OptionalLong.of(found.get()) : OptionalLong.empty();
    }

    /** A size: a whole number from 1 to 2^24. */
    int size(String key) {
        long number = whole(key).orElseThrow(() -> missing(key));
        if (number < 1 || number > MAX_SIZE) {
            throw malformed(key + " is " + Long.toUnsignedString(number) + ", not a possible size");
        }
        return (int) number;
    }

    /** A number, as the shortest decimal that gives it in its own type: 1e-06, not 9.99999997e-07. */
    Optional<Double> number(String key) {
        return header.value(key).map(v -> switch (v) {
            case GgufValue.Real r ->
                r.kind() == GgufKind.F32 ? Double.valueOf(Float.toString((float) r.number())) : r.number();
            case GgufValue.Whole w -> (double) w.number();
            case GgufValue.Truth _, GgufValue.Text _, GgufValue.Sequence _ -> wrong(key, v, "a number");
        });
    }

    /** True or false. */
    Optional<Boolean> truth(String key) {
        return header.value(key).map(v -> v instanceof GgufValue.Truth t ? t.value() : wrong(key, v, "true or false"));
    }

    /** An array of texts; empty where the key is absent. */
    List<String> texts(String key) {
        return values(key).stream()
                .map(v -> v instanceof GgufValue.Text t ? t.text() : wrong(key, v, "a text"))
                .toList();
    }

    /** An array of whole numbers; empty where the key is absent. */
    List<Long> wholes(String key) {
        return values(key).stream()
                .map(v -> v instanceof GgufValue.Whole w ? Long.valueOf(w.number()) : wrong(key, v, "a whole number"))
                .toList();
    }

    /** An array of numbers; empty where the key is absent. */
    List<Double> numbers(String key) {
        return values(key).stream()
                .map(v -> v instanceof GgufValue.Real r ? Double.valueOf(r.number()) : wrong(key, v, "a number"))
                .toList();
    }

    private List<GgufValue> values(String key) {
        return header.value(key)
                .map(v -> v instanceof GgufValue.Sequence s ? s.values() : wrong(key, v, "an array"))
                .orElse(List.of());
    }

    @SuppressWarnings("TypeParameterUnusedInFormals") // it never returns
    private <T> T wrong(String key, GgufValue value, String wanted) {
        throw malformed(key + " is of kind " + value.kind() + ", not " + wanted);
    }

    private MalformedModelException missing(String key) {
        return malformed("the key " + key + " is missing");
    }

    MalformedModelException malformed(String what) {
        return new MalformedModelException(
                what, where, "the writer of this file is faulty: convert the original model again");
    }
}
