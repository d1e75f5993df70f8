package dev.octet.trainer.yaml;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.yaml.Entry.Scalar;
import dev.octet.trainer.yaml.Entry.Sequence;
import java.io.IOException;
import java.nio.charset.MalformedInputException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * Reads a JSON file with one object, in the dialect Hjson (hjson.github.io/syntax.html), which DeepSpeed takes for its configurations: comments, names and
 * texts without quotes, commas that may be missing or too many, the outermost braces too. Duplicate names are rejected.
 *
 * <p>Written here rather than taken from org.hjson: its values do not know their lines, and it descends into hostile nesting without end.
 */
public final class HjsonFile {
    /** Maximum nesting depth. */
    private static final int MAX_DEPTH = 16;

    /** Maximum file size: the file is read as a whole. */
    private static final long MAX_BYTES = 1 << 20;

    /** Longest number; what is longer is text. */
    private static final int MAX_NUMBER_CHARS = 400;

    private static final String PUNCTUATION = "{}[],:";
    private static final int END = -1;

    private static final Pattern NUMBER = Pattern.compile("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][-+]?[0-9]+)?");

    private final String name;
    private final String text;
    private int at;
    private int line = 1;

    private HjsonFile(String text, String name) {
        this.text = text;
        this.name = name;
    }

    /**
     * Reads a file.
     *
     * @throws InvalidOptionException when it is not Hjson, not an object, or has duplicate names
     * @throws IOException when the file cannot be read
     */
    public static Section read(Path file) throws IOException {
        if (Files.size(file) > MAX_BYTES) {
            throw new InvalidOptionException(
                    "the configuration has " + Files.size(file) + " bytes, but the limit is " + MAX_BYTES,
                    file.toString(),
                    "give the JSON file, not the data");
        }
        try {
            return parse(Files.readString(file), file.toString());
        } catch (MalformedInputException e) {
            throw new InvalidOptionException("the file is not UTF-8 text", file.toString(), "save it as UTF-8", e);
        }
    }

    /**
     * Reads text.
     *
     * @param name file name, for messages
     * @throws InvalidOptionException as in {@link #read}
     */
    public static Section parse(String text, String name) {
        return new HjsonFile(text.startsWith("\uFEFF") ? text.substring(1) : text, name).document();
    }

    private Section document() {
        space();
        boolean braces = peek() == '{';
        if (peek() == '[') {
            throw refused("the file holds a list, not names and values", "write {\"name\": value}");
        }
        if (braces) {
            next();
        }
        Section section = object("", 1, braces);
        space();
        if (peek() != END) {
            throw refused("there is text behind the last brace", "remove it, or the brace");
        }
        return section;
    }

    /** The members of an object up to its brace, which is taken, or without braces to the end of the file. */
    private Section object(String path, int depth, boolean braces) {
        if (depth > MAX_DEPTH) {
            throw refused("more than " + MAX_DEPTH + " levels", "write a flatter configuration");
        }
        int first = line;
        Map<String, Entry> entries = new LinkedHashMap<>();
        Map<String, Integer> lines = new LinkedHashMap<>();
        for (space(); peek() != (braces ? '}' : END); separator()) {
            if (peek() == END) {
                throw refused("the brace of line " + first + " is not closed", "add }");
            }
            int of = line;
            String key = key();
            Integer earlier = lines.put(key, of);
            if (earlier != null) {
                throw refused("key '" + key + "' is already given in line " + earlier, "keep one of them");
            }
            space();
            if (peek() != ':') {
                throw refused("there is no colon after '" + key + "'", "write \"" + key + "\": VALUE");
            }
            next();
            space();
            entries.put(key, value(path.isEmpty() ? key : path + "." + key, depth));
        }
        if (braces) {
            next();
        }
        return new Section(name, path, first, entries, lines);
    }

    private Sequence list(String path, int depth) {
        if (depth > MAX_DEPTH) {
            throw refused("more than " + MAX_DEPTH + " levels", "write a flatter configuration");
        }
        int first = line;
        List<Entry> entries = new ArrayList<>();
        for (space(); peek() != ']'; separator()) {
            if (peek() == END) {
                throw refused("the bracket of line " + first + " is not closed", "add ]");
            }
            entries.add(value(path + "[" + entries.size() + "]", depth));
        }
        next();
        return new Sequence(first, entries);
    }

    /** Space between two members, with or without one comma. */
    private void separator() {
        space();
        if (peek() == ',') {
            next();
            space();
        }
    }

    private String key() {
        int c = peek();
        if (c == '"' || c == '\'') {
            return quoted();
        }
        int start = at;
        while (c != END && !Character.isWhitespace(c) && PUNCTUATION.indexOf(c) < 0) {
            next();
            c = peek();
        }
        if (start == at) {
            throw refused("a name is expected, but there is '" + (char) c + "'", "write \"name\": value");
        }
        return text.substring(start, at);
    }

    private Entry value(String path, int depth) {
        int of = line;
        return switch (peek()) {
            case '{' -> {
                next();
                yield object(path, depth + 1, true);
            }
            case '[' -> {
                next();
                yield list(path, depth + 1);
            }
            case '"' -> new Scalar(of, quoted(), Section.Kind.TEXT);
            case '\'' -> new Scalar(of, text.startsWith("'''", at) ? multiline() : quoted(), Section.Kind.TEXT);
            case '}', ']', ',', ':', END -> throw refused("a value is missing", "write " + path + ": VALUE");
            default -> bare(of);
        };
    }

    /** A number, {@code true}, {@code false} or {@code null} as far as a separator; otherwise all of the line is text, commas included. */
    private Scalar bare(int of) {
        int start = at;
        while (true) {
            int c = peek();
            boolean ends = c == END || c == '\n' || c == '\r';
            boolean separates = ",}]#".indexOf(c) >= 0 || text.startsWith("//", at) || text.startsWith("/*", at);
            if (ends || (separates && at - start <= MAX_NUMBER_CHARS)) {
                String word = text.substring(start, at).strip();
                Section.Kind kind = kind(word);
                if (ends || kind != Section.Kind.TEXT) {
                    return new Scalar(of, kind == Section.Kind.NULL ? "" : word, kind);
                }
            }
            next();
        }
    }

    private static Section.Kind kind(String word) {
        return switch (word) {
            case "null" -> Section.Kind.NULL;
            case "true", "false" -> Section.Kind.FLAG;
            default -> NUMBER.matcher(word).matches() ? Section.Kind.NUMBER : Section.Kind.TEXT;
        };
    }

    private String quoted() {
        int quote = next();
        StringBuilder word = new StringBuilder();
        while (true) {
            int c = peek();
            if (c == END || c == '\n' || c == '\r') {
                throw refused("the quote is not closed", "add " + (char) quote + " at the end of the text");
            }
            next();
            if (c == quote) {
                return word.toString();
            }
            word.append(c == '\\' ? escaped() : (char) c);
        }
    }

    private char escaped() {
        int c = next();
        return switch (c) {
            case '"', '\'', '\\', '/' -> (char) c;
            case 'b' -> '\b';
            case 'f' -> '\f';
            case 'n' -> '\n';
            case 'r' -> '\r';
            case 't' -> '\t';
            case 'u' -> {
                String digits = text.substring(at, Math.min(at + 4, text.length()));
                if (!digits.matches("[0-9a-fA-F]{4}")) {
                    throw refused("\\u needs four hex digits", "write \\u0041, or the letter itself");
                }
                at += 4;
                yield (char) Integer.parseInt(digits, 16);
            }
            default -> throw refused("\\ stands before a letter that means nothing", "write \\\\ for one backslash");
        };
    }

    /** Text between triple quotes; line breaks in it count. */
    private String multiline() {
        int end = text.indexOf("'''", at + 3);
        if (end < 0) {
            throw refused("the triple quote is not closed", "add ''' at the end of the text");
        }
        String word = text.substring(at + 3, end).strip();
        while (at < end + 3) {
            next();
        }
        return word;
    }

    /** Skips white space and comments. */
    private void space() {
        while (true) {
            int c = peek();
            if (c == '#' || text.startsWith("//", at)) {
                while (peek() != '\n' && peek() != END) {
                    next();
                }
            } else if (text.startsWith("/*", at)) {
                int end = text.indexOf("*/", at + 2);
                if (end < 0) {
                    throw refused("the comment is not closed", "add */");
                }
                while (at < end + 2) {
                    next();
                }
            } else if (c != END && Character.isWhitespace(c)) {
                next();
            } else {
                return;
            }
        }
    }

    private int peek() {
        return at < text.length() ? text.charAt(at) : END;
    }

    private int next() {
        int c = peek();
        if (c == '\n') {
            line++;
        }
        at++;
        return c;
    }

    private InvalidOptionException refused(String what, String fix) {
        return new InvalidOptionException(what, name + ", line " + line, fix);
    }
}
