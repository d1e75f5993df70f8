package dev.octet.formats.error;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CoderResult;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;

/**
 * The first place where a text is no JSON (RFC 8259), for messages: libraries name their classes and options there, which are not for users. Made after a
 * library has refused the text; an own scanner finds the place again.
 *
 * @param what is wrong, a sentence's end: {@code there is a comma with nothing behind it}
 * @param line from 1
 * @param column from 1
 * @param fix what to change there; empty where only the file as it was helps
 */
public record JsonFault(String what, int line, int column, String fix) {
    /** Words that other languages have for {@code true}, {@code false}, {@code null} and numbers. */
    private static final Set<String> FOREIGN =
            Set.of("True", "False", "None", "NaN", "nan", "Infinity", "inf", "undefined");

    private static final Set<String> WORDS = Set.of("true", "false", "null");

    private static final String CUT_SHORT = "the file is cut short: download or export it again";

    /** Where the bytes of a file are no JSON; empty where they are some. */
    public static Optional<JsonFault> of(byte[] bytes) {
        CharsetDecoder decoder = StandardCharsets.UTF_8
                .newDecoder()
                .onMalformedInput(CodingErrorAction.REPORT)
                .onUnmappableCharacter(CodingErrorAction.REPORT);
        ByteBuffer in = ByteBuffer.wrap(bytes);
        CharBuffer out = CharBuffer.allocate(bytes.length);
        CoderResult result = decoder.decode(in, out, true);
        String text = out.flip().toString();
        Optional<JsonFault> fault = of(text);
        if (!result.isError()) {
            return fault;
        }
        // what stands before may be wrong already, but not for ending here
        Scanner scanner = new Scanner(text);
        scanner.at = text.length();
        return fault.filter(f -> !f.fix().equals(CUT_SHORT))
                .or(() -> Optional.of(scanner.fault(
                        String.format(Locale.ROOT, "the byte 0x%02X is no UTF-8", bytes[in.position()] & 0xFF),
                        "save the file as UTF-8")));
    }

    /** Where a text is no JSON; empty where it is some. */
    public static Optional<JsonFault> of(String text) {
        Scanner scanner = new Scanner(text);
        try {
            scanner.scan();
            return Optional.empty();
        } catch (Found found) {
            return Optional.of(found.fault);
        }
    }

    /** A place in a file: {@code config.json, line 3, column 5}. */
    public String in(String where) {
        return where + ", line " + line + ", column " + column;
    }

    /** Leaves the scanner. */
    @SuppressWarnings("serial") // never leaves this class
    private static final class Found extends Exception {
        private final transient JsonFault fault;

        Found(JsonFault fault) {
            super(null, null, false, false);
            this.fault = fault;
        }
    }

    /** Reads a text by the grammar, without recursion: a hostile text may be nested as deep as it is long. */
    private static final class Scanner {
        private final String text;
        private final Deque<Character> open = new ArrayDeque<>();
        private int at;

        Scanner(String text) {
            this.text = text.startsWith("\uFEFF") ? text.substring(1) : text;
        }

        void scan() throws Found {
            space();
            if (at == text.length()) {
                throw found("the file is empty", CUT_SHORT);
            }
            value();
            space();
            if (at < text.length()) {
                throw found(
                        shown() + " follows the end of the " + kind(text.strip().charAt(0)), "remove what follows");
            }
        }

        private static String kind(char first) {
            return first == '{' ? "object" : first == '[' ? "list" : "value";
        }

        /** A value with all that lies in it. */
        private void value() throws Found {
            do {
                space();
                begin();
                end();
            } while (!open.isEmpty());
        }

        /** Reads on until a value has begun and, if it is no object or list with something in it, has ended. */
        private void begin() throws Found {
            while (true) {
                char c = here("a value");
                if (c == '{') {
                    at++;
                    space();
                    if (here("a key or }") == '}') {
                        at++;
                        return;
                    }
                    open.push('{');
                    key();
                } else if (c == '[') {
                    at++;
                    space();
                    if (here("a value or ]") == ']') {
                        at++;
                        return;
                    }
                    open.push('[');
                } else {
                    scalar(c);
                    return;
                }
                space();
            }
        }

        /** Behind a value: closes what ends there, or stops where the next value begins. */
        private void end() throws Found {
            while (!open.isEmpty()) {
                space();
                boolean object = open.peek() == '{';
                char close = object ? '}' : ']';
                char c = here("a comma or " + close);
                if (c == close) {
                    at++;
                    open.pop();
                    continue;
                }
                if (c != ',') {
                    boolean next = c == '"' || (!object && (c == '{' || c == '[' || isWord(c)));
                    throw found(
                            next
                                    ? "there is no comma before " + shown()
                                    : shown() + " is where a comma or " + close + " should be",
                            next ? "put a comma there" : "");
                }
                int comma = at++;
                space();
                if (at < text.length() && text.charAt(at) == close) {
                    at = comma;
                    throw found("there is a comma with nothing behind it", "remove the comma");
                }
                if (object) {
                    key();
                }
                return;
            }
        }

        private void key() throws Found {
            char c = here("a key");
            if (c != '"') {
                throw found(
                        shown() + " is where a key in double quotes should be",
                        c == '\'' || isWord(c) ? "put double quotes around the key" : comment(c));
            }
            string();
            space();
            if (here("a colon") != ':') {
                throw found(shown() + " is where the colon behind a key should be", "");
            }
            at++;
        }

        private void scalar(char c) throws Found {
            if (c == '"') {
                string();
            } else if (c == '-' || isDigit(c)) {
                number();
            } else {
                String word = word();
                if (at + word.length() == text.length() && WORDS.stream().anyMatch(w -> isCut(word, w))) {
                    throw found("the file ends within a word", CUT_SHORT);
                }
                if (!WORDS.contains(word)) {
                    String fix = FOREIGN.contains(word)
                            ? "write true, false, null or a number"
                            : c == '\'' ? "put double quotes around the text" : comment(c);
                    throw found(shown() + " is no value", fix);
                }
                at += word.length();
            }
        }

        private static boolean isCut(String word, String whole) {
            return !word.isEmpty() && whole.startsWith(word) && !whole.equals(word);
        }

        private static String comment(char c) {
            return c == '/' || c == '#' ? "remove the comment: JSON has none" : "";
        }

        private void string() throws Found {
            int start = at++;
            while (at < text.length()) {
                char c = text.charAt(at);
                if (c == '"') {
                    at++;
                    return;
                }
                if (c < ' ') {
                    if (c == '\n' || c == '\r') {
                        at = start;
                        throw found("a text has no double quote at its end", "close it in the line it begins in");
                    }
                    throw found(
                            String.format(Locale.ROOT, "the control character \\u%04X stands in a text", (int) c),
                            "write it as \\t or as \\u and four digits");
                }
                if (c == '\\') {
                    escape();
                }
                at++;
            }
            at = start;
            throw found("a text has no double quote at its end", CUT_SHORT);
        }

        private void escape() throws Found {
            char c = at + 1 < text.length() ? text.charAt(at + 1) : '"';
            boolean hex = c == 'u';
            for (int i = 2; hex && i < 6; i++) {
                hex = at + i < text.length() && Character.digit(text.charAt(at + i), 16) >= 0;
            }
            if (!hex && "\"\\/bfnrt".indexOf(c) < 0) {
                throw found("\\" + c + " in a text stands for nothing", "write \\\\ for a backslash");
            }
            at += hex ? 5 : 1;
        }

        private void number() throws Found {
            int start = at;
            at += text.charAt(at) == '-' ? 1 : 0;
            int whole = digits();
            boolean right = whole == 1 || (whole > 1 && text.charAt(at - whole) != '0');
            if (right && at < text.length() && text.charAt(at) == '.') {
                at++;
                right = digits() > 0;
            }
            if (right && at < text.length() && (text.charAt(at) == 'e' || text.charAt(at) == 'E')) {
                at++;
                at += at < text.length() && (text.charAt(at) == '+' || text.charAt(at) == '-') ? 1 : 0;
                right = digits() > 0;
            }
            if (!right && at == text.length()) {
                at = start;
                throw found("the file ends within a number", CUT_SHORT);
            }
            if (!right || (at < text.length() && isWord(text.charAt(at)))) {
                at = start;
                throw found(shown() + " is no number", "");
            }
        }

        private int digits() {
            int from = at;
            while (at < text.length() && isDigit(text.charAt(at))) {
                at++;
            }
            return at - from;
        }

        private void space() {
            while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
                at++;
            }
        }

        /** The character that is to be read next. */
        private char here(String wanted) throws Found {
            if (at == text.length()) {
                throw found("the file ends where " + wanted + " should be", CUT_SHORT);
            }
            return text.charAt(at);
        }

        private static boolean isDigit(char c) {
            return c >= '0' && c <= '9';
        }

        private static boolean isWord(char c) {
            return Character.isLetterOrDigit(c) || c == '_' || c == '-' || c == '+' || c == '.';
        }

        private String word() {
            int end = at;
            while (end < text.length() && end < at + 20 && isWord(text.charAt(end))) {
                end++;
            }
            return text.substring(at, end);
        }

        /** What stands here, for a message. */
        private String shown() {
            String word = word();
            if (!word.isEmpty()) {
                return "'" + word + "'";
            }
            int c = text.codePointAt(at);
            return c == '\''
                    ? "a single quote"
                    : Character.isISOControl(c) || c == 0xFEFF
                            ? String.format(Locale.ROOT, "the character \\u%04X", c)
                            : "'" + Character.toString(c) + "'";
        }

        private Found found(String what, String fix) {
            return new Found(fault(what, fix));
        }

        private JsonFault fault(String what, String fix) {
            int line = 1;
            int start = 0;
            for (int i = 0; i < at; i++) {
                if (text.charAt(i) == '\n') {
                    line++;
                    start = i + 1;
                }
            }
            return new JsonFault(what, line, at - start + 1, fix);
        }
    }
}
