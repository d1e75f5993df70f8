package dev.octet.trainer.dialect;

import dev.octet.trainer.yaml.Section.Kind;
import java.util.Locale;
import java.util.Set;

/** What a library takes as value of a key. */
public enum KeyType {
    FLAG("true or false"),
    WHOLE("a whole number"),
    NUMBER("a number"),
    TEXT("text"),
    LIST("a list"),
    SECTION("keys and values"),
    /** Whatever is there. */
    ANY("a value");

    /** Spellings of true and false in Python's libraries, in lower case. */
    private static final Set<String> TRUTHS =
            Set.of("true", "false", "yes", "no", "on", "off", "y", "n", "t", "f", "1", "0");

    private final String text;

    KeyType(String text) {
        this.text = text;
    }

    /** What is expected, for messages. */
    public String text() {
        return text;
    }

    /**
     * Whether a value is of this type. Null always is: it leaves the default.
     *
     * @param kind what the file's grammar takes it for; a number in quotes is a number where it reads as one
     */
    boolean takes(String value, Kind kind) {
        if (kind == Kind.NULL || this == ANY) {
            return true;
        }
        boolean single = kind != Kind.LIST && kind != Kind.MAPPING;
        return switch (this) {
            case FLAG -> single && TRUTHS.contains(value.toLowerCase(Locale.ROOT));
            case WHOLE ->
                single && isFinite(value) && Double.parseDouble(value) == Math.rint(Double.parseDouble(value));
            case NUMBER -> single && isFinite(value);
            case TEXT -> single;
            case LIST -> kind == Kind.LIST;
            case SECTION -> kind == Kind.MAPPING;
            case ANY -> true;
        };
    }

    private static boolean isFinite(String value) {
        // Java also reads 1f, 0x1p3 and Infinity
        return value.matches("[-+]?([0-9][0-9_]*\\.?[0-9]*|\\.[0-9]+)([eE][-+]?[0-9]+)?")
                && Double.isFinite(Double.parseDouble(value.replace("_", "")));
    }

    /** The truth of a value that {@link #FLAG} takes. */
    static boolean isTrue(String value) {
        return Set.of("true", "yes", "on", "y", "t", "1").contains(value.toLowerCase(Locale.ROOT));
    }

    /** The number of a value that {@link #NUMBER} takes. */
    static double number(String value) {
        return Double.parseDouble(value.replace("_", ""));
    }
}
