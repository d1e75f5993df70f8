package dev.octet.formats.peft;

import dev.octet.formats.error.MalformedModelException;
import java.util.OptionalInt;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/**
 * A regular expression in Python's spelling, of a configuration that may be hostile: length, nesting and the work of one match are limited.
 *
 * <p>Differences to Java that are translated: {@code (?P<name>...)}, {@code (?P=name)}, {@code \Z}, and in classes of characters {@code [}
 * and {@code &&}, which only Java gives a meaning. A dot matches all but a line feed.
 */
final class PythonRegex {
    /** Longest expression in characters; a list of thousand modules fits. */
    static final int MAX_CHARS = 65_536;

    /** Deepest nesting of groups; Java's compiler and matcher recurse. */
    static final int MAX_NESTING = 50;

    /** Longest module path in characters that is matched. */
    static final int MAX_PATH_CHARS = 4_096;

    /** Most characters that one match may look at; a match without backtracking looks at each a few times. */
    static final long MAX_STEPS = 5_000_000;

    private final String text;
    private final String where;
    private final Pattern pattern;

    /**
     * Compiles an expression.
     *
     * @param text as it stands in the configuration
     * @param where for messages: file and key
     * @throws MalformedModelException when it is no valid expression, or over a limit
     */
    PythonRegex(String text, String where) {
        this(text, text, where);
    }

    private PythonRegex(String text, String whole, String where) {
        this.text = text;
        this.where = where;
        if (text.length() > MAX_CHARS || nesting(text) > MAX_NESTING) {
            throw new MalformedModelException(
                    "a regular expression has " + text.length() + " characters and " + nesting(text)
                            + " nested groups; at most " + MAX_CHARS + " and " + MAX_NESTING + " are read",
                    where,
                    "list the names of the modules instead");
        }
        try {
            this.pattern = Pattern.compile(
                    toJava(whole), Pattern.UNIX_LINES | Pattern.UNICODE_CHARACTER_CLASS | Pattern.UNICODE_CASE);
        } catch (PatternSyntaxException e) {
            throw new MalformedModelException(
                    "'" + text + "' is not a regular expression: " + e.getDescription(),
                    where,
                    "correct it, or list the names of the modules instead",
                    e);
        }
    }

    /** The expression {@code (.*\.)?(key)} of the keys of {@code rank_pattern}: {@code key} matches the end of a path, from a dot on. */
    static PythonRegex ofEnd(String key, String where) {
        return new PythonRegex(key, "(.*\\.)?(" + key + ")", where);
    }

    /** The expression by which PEFT keeps adapters off the modules that are saved whole: the name anywhere in the path, between dots. */
    static PythonRegex ofPart(String name, String where) {
        return new PythonRegex(name, "(^|.*\\.)" + name + "($|\\..*)", where);
    }

    /** The number of a layer where {@code layers_pattern} is not given: the first part that is a number and has two parts before it. */
    static PythonRegex ofFirstNumber(String where) {
        return new PythonRegex("", ".*?\\.[^.]*\\.(?P<idx>\\d+)\\.", where);
    }

    /** The number of a layer, which follows on the parts that {@code pattern} matches. */
    static PythonRegex ofNumberBehind(String pattern, String where) {
        return new PythonRegex(pattern, "(?:^|.*?\\.)" + pattern + "\\.(?P<idx>\\d+)\\.", where);
    }

    /** As written. */
    String text() {
        return text;
    }

    /**
     * Whether it matches all of {@code path}.
     *
     * @throws MalformedModelException when matching takes more than {@value #MAX_STEPS} steps, or the path is too long
     */
    boolean matches(String path) {
        return matcher(path).matches();
    }

    /** The number of the layer that {@code path} belongs to, for an expression of layers. */
    OptionalInt layer(String path) {
        Matcher matcher = matcher(path);
        String number = matcher.lookingAt() ? matcher.group("idx") : null;
        // more digits are no number of a layer
        return number == null || number.length() > 9 ? OptionalInt.empty() : OptionalInt.of(Integer.parseInt(number));
    }

    /** A matcher of {@code path} with a limit of its work. */
    private Matcher matcher(String path) {
        if (path.length() > MAX_PATH_CHARS) {
            throw new MalformedModelException(
                    "a module path has " + path.length() + " characters, at most " + MAX_PATH_CHARS + " are matched",
                    where,
                    "rename the module");
        }
        return pattern.matcher(new Counted(path));
    }

    private static int nesting(String text) {
        int deepest = 0;
        int depth = 0;
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '\\') {
                i++;
            } else if (c == '(') {
                depth++;
            } else if (c == ')') {
                depth--;
            }
            deepest = Math.max(deepest, depth);
        }
        return deepest;
    }

    /** The same expression in Java's spelling. */
    private static String toJava(String python) {
        StringBuilder java = new StringBuilder(python.length() + 16);
        boolean inClass = false;
        int classStart = 0;
        for (int i = 0; i < python.length(); i++) {
            char c = python.charAt(i);
            if (c == '\\' && i + 1 < python.length()) {
                char next = python.charAt(++i);
                java.append('\\').append(next == 'Z' && !inClass ? 'z' : next);
            } else if (inClass) {
                // a bracket at the start of a class is a character of it
                boolean first = i == classStart + 1 || (i == classStart + 2 && python.charAt(classStart + 1) == '^');
                if (c == '[' || c == '&' || (c == ']' && first)) {
                    java.append('\\');
                } else if (c == ']') {
                    inClass = false;
                }
                java.append(c);
            } else if (c == '[') {
                inClass = true;
                classStart = i;
                java.append(c);
            } else if (python.startsWith("(?P<", i)) {
                java.append("(?<");
                i += 3;
            } else if (python.startsWith("(?P=", i)) {
                int end = python.indexOf(')', i);
                if (end < 0) {
                    java.append(c);
                } else {
                    java.append("\\k<").append(python, i + 4, end).append('>');
                    i = end;
                }
            } else {
                java.append(c);
            }
        }
        return java.toString();
    }

    /** A path that counts how often its characters are read. */
    private final class Counted implements CharSequence {
        private final String path;
        private long steps;

        Counted(String path) {
            this.path = path;
        }

        @Override
        public int length() {
            return path.length();
        }

        @Override
        public char charAt(int index) {
            if (++steps > MAX_STEPS) {
                throw new MalformedModelException(
                        "the regular expression '" + text + "' takes more than " + MAX_STEPS + " steps on '" + path
                                + "'",
                        where,
                        "write it without nested repetitions, or list the names of the modules instead");
            }
            return path.charAt(index);
        }

        @Override
        public CharSequence subSequence(int start, int end) {
            return path.substring(start, end);
        }

        @Override
        public String toString() {
            return path;
        }
    }
}
