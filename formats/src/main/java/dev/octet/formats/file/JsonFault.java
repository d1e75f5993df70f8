package dev.octet.formats.file;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.io.JsonEOFException;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Set;

/**
 * The place where Jackson refuses a text as JSON (RFC 8259), in words for users: its own messages name classes and options.
 *
 * @param what is wrong, a sentence's end: {@code there is a comma with nothing behind it}
 * @param line from 1
 * @param column from 1, in bytes
 * @param fix what to change there; empty where only the file as it was helps
 */
public record JsonFault(String what, int line, int column, String fix) {
    /** Words that other languages have for {@code true}, {@code false}, {@code null} and numbers. */
    private static final Set<String> FOREIGN =
            Set.of("True", "False", "None", "NaN", "nan", "Infinity", "inf", "undefined");

    /** How Jackson's message of a key that it has read before begins; the key follows in quotes. */
    private static final String DUPLICATE = "Duplicate field ";

    /** What a value, a key or a comma follows without a comma between. */
    private static final String OPEN = "{[,:";

    /**
     * What is wrong where Jackson stopped.
     *
     * @param refusal by a reader of {@code bytes}, not for a limit of its own
     * @param bytes in UTF-8
     */
    public static JsonFault of(JsonProcessingException refusal, byte[] bytes) {
        int at = refusal.getLocation() == null
                ? bytes.length
                : (int) refusal.getLocation().getByteOffset();
        int line = refusal.getLocation() == null ? 1 : refusal.getLocation().getLineNr();
        int column = refusal.getLocation() == null ? 1 : refusal.getLocation().getColumnNr();
        if (refusal instanceof JsonEOFException || at < 0 || at >= bytes.length) {
            return new JsonFault(
                    "it ends too early", line, column, "the file is cut short: download or export it again");
        }
        String message = refusal.getOriginalMessage();
        if (message != null && message.startsWith(DUPLICATE)) {
            String key = message.substring(DUPLICATE.length());
            return new JsonFault("the key " + key + " is there twice", line, column, "remove one");
        }
        Place place = new Place(bytes, at);
        return new JsonFault(place.what(), line, column, place.fix());
    }

    /** A place in a file: {@code config.json, line 3, column 5}. */
    public String in(String where) {
        return where + ", line " + line + ", column " + column;
    }

    /** What stands where reading stopped, and before. */
    private static final class Place {
        private final byte[] bytes;
        private final int at;

        Place(byte[] bytes, int at) {
            this.bytes = bytes;
            this.at = at;
        }

        private int character() {
            return new String(bytes, at, Math.min(4, bytes.length - at), StandardCharsets.UTF_8).codePointAt(0);
        }

        /** The last byte before that is no space; 0 where there is none. */
        private char before() {
            int i = at - 1;
            while (i >= 0 && bytes[i] <= ' ' && bytes[i] >= 0) {
                i--;
            }
            return i < 0 ? 0 : (char) bytes[i];
        }

        /** The word that begins here, or that ends here where a number that is none was read to its end. */
        private String word() {
            int from = at;
            if (!isWord(bytes[at])) {
                while (from > 0 && isWord(bytes[from - 1])) {
                    from--;
                }
            }
            int to = from;
            while (to < bytes.length && to < from + 20 && isWord(bytes[to])) {
                to++;
            }
            return new String(bytes, from, to - from, StandardCharsets.US_ASCII);
        }

        private static boolean isWord(byte b) {
            return b == '_' || b == '-' || b == '+' || b == '.' || (b > 0 && Character.isLetterOrDigit(b));
        }

        /** Jackson stops behind a byte that begins no character. */
        private boolean isMalformed() {
            return new String(bytes, 0, at, StandardCharsets.UTF_8).indexOf('\uFFFD') >= 0;
        }

        private boolean isCommaTooMuch() {
            return before() == ',' && (bytes[at] == '}' || bytes[at] == ']');
        }

        private boolean isSeparatorMissing() {
            boolean begins = bytes[at] == '"' || bytes[at] == '{' || bytes[at] == '[' || isWord(bytes[at]);
            return begins && before() != 0 && OPEN.indexOf(before()) < 0;
        }

        String what() {
            int c = character();
            if (isMalformed()) {
                return String.format(Locale.ROOT, "the byte 0x%02X is no UTF-8", bytes[at - 1] & 0xFF);
            }
            if (c == '\n' || c == '\r') {
                return "a text has no double quote at its end";
            }
            if (c < ' ') {
                return String.format(Locale.ROOT, "the character \\u%04X stands in a text", c);
            }
            if (isCommaTooMuch()) {
                return "there is a comma with nothing behind it";
            }
            String shown = FOREIGN.contains(word()) || isWord(bytes[at]) ? word() : Character.toString(c);
            return isSeparatorMissing()
                    ? "there is no comma or colon before '" + shown + "'"
                    : (c == '\'' ? "a single quote" : "'" + shown + "'") + " is not what can stand here";
        }

        String fix() {
            int c = character();
            if (isMalformed()) {
                return "save the file as UTF-8";
            }
            if (c == '\n' || c == '\r') {
                return "close it in the line it begins in";
            }
            if (c < ' ') {
                return "write it as \\t or as \\u and four digits";
            }
            if (isCommaTooMuch()) {
                return "remove the comma";
            }
            if (FOREIGN.contains(word())) {
                return "write true, false, null or a number";
            }
            if (c == '/' || c == '#') {
                return "remove the comment: JSON has none";
            }
            if (c == '\'' || ((before() == '{' || before() == ',') && Character.isLetter(c))) {
                return "put double quotes around it";
            }
            return isSeparatorMissing() ? "put it there" : "";
        }
    }
}
