package dev.octet.cli;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * How text is set for those who read it: the one place that knows how wide a line may be and whether colours are shown. Pages need not
 * hand it on: while a page is made, {@code here()} is the style of where it will be printed.
 *
 * @param columns characters that a line may take, at least 40; {@link #UNLIMITED} in files and pipes
 * @param colored whether tones are shown
 */
public record TextStyle(int columns, boolean colored) {
    /** Lines may be of any length. */
    public static final int UNLIMITED = Integer.MAX_VALUE;

    /** For files and pipes: lines as long as they come, no colours. */
    public static final TextStyle PLAIN = new TextStyle(UNLIMITED, false);

    /** A terminal that does not say how wide it is. */
    private static final int USUAL = 80;

    /** Lines are not set narrower than this; a terminal narrower still wraps them. */
    private static final int NARROWEST = 40;

    /** Prose is read line by line: no terminal is wide enough to make it wider than this. */
    private static final int WIDEST_PROSE = 100;

    /** What the second line of a paragraph is indented more than its first. */
    private static final int HANGING = 2;

    private static final ScopedValue<TextStyle> HERE = ScopedValue.newInstance();

    private static final Pattern ESCAPE = Pattern.compile("\u001b\\[[0-9;]*m");

    /** A name and what it is: {@code "  written  model.onnx"}, {@code "note: text"}; group 1 ends where the latter begins. */
    private static final Pattern ENTRY = Pattern.compile("( *\\S+: +| *\\S+(?: \\S+)*? {2,})\\S.*");

    /** A line of a shell, which has to go on after a backslash. */
    private static final Pattern COMMAND = Pattern.compile(" *(?:(?:\\./)?octet|vllm serve|hf download) .*");

    /** A word that is too long is broken after one of these characters, rather after the first ones. */
    private static final List<String> BREAKS = List.of("/\\", ".,_-:=|");

    /** Checks the width. */
    public TextStyle {
        if (columns < NARROWEST) {
            columns = NARROWEST;
        }
    }

    /** The style of a terminal that {@code columns} characters fit on, without colours. */
    static TextStyle terminal(int columns) {
        return new TextStyle(columns, false);
    }

    /**
     * The style of a stream.
     *
     * @param columns what the launcher found out: null when the stream is no terminal, else its width, or anything else when that is not
     *     known
     * @param environment {@code NO_COLOR} with any value (no-color.org) and {@code TERM=dumb} leave colours out
     */
    static TextStyle of(@Nullable String columns, Map<String, String> environment) {
        if (columns == null) {
            return PLAIN;
        }
        boolean silent = !environment.getOrDefault("NO_COLOR", "").isEmpty()
                || environment.getOrDefault("TERM", "").equals("dumb");
        return new TextStyle(columns.matches("[1-9]\\d{0,4}") ? Integer.parseInt(columns) : USUAL, !silent);
    }

    /** The style of the page that is being made; {@link #PLAIN} outside {@link #page}. */
    static TextStyle here() {
        return HERE.orElse(PLAIN);
    }

    /** What {@code page} makes when it is to be printed in this style. */
    <T, X extends Throwable> T page(ScopedValue.CallableOp<? extends T, X> page) throws X {
        return ScopedValue.where(HERE, this).call(page);
    }

    /** Whether a reader sits in front of it. */
    boolean isTerminal() {
        return columns != UNLIMITED;
    }

    /** This style with colours as asked for. */
    TextStyle with(Color color) {
        return switch (color) {
            case AUTO -> this;
            case ALWAYS -> new TextStyle(columns, true);
            case NEVER -> new TextStyle(columns, false);
        };
    }

    /** The width of prose. */
    int prose() {
        return Math.min(columns, WIDEST_PROSE);
    }

    /** {@code text} in {@code tone}, where colours are shown. */
    String paint(Tone tone, String text) {
        return colored ? tone.paint(text) : text;
    }

    /** The head of a part of a page. */
    static String heading(String text) {
        return here().paint(Tone.HEADING, text);
    }

    /** Characters that {@code text} takes on a terminal. */
    static int width(String text) {
        String shown = ESCAPE.matcher(text).replaceAll("");
        return shown.codePointCount(0, shown.length());
    }

    /** {@code text}, which may have several lines, with those that are too long broken. */
    String fold(String text) {
        if (!isTerminal() || text.length() <= columns) {
            return text;
        }
        StringBuilder folded = new StringBuilder(text.length() + text.length() / 16);
        int start = 0;
        while (start < text.length()) {
            int end = text.indexOf('\n', start);
            fold(text.substring(start, end < 0 ? text.length() : end), folded);
            if (end >= 0) {
                folded.append('\n');
            }
            start = end < 0 ? text.length() : end + 1;
        }
        return folded.toString();
    }

    private void fold(String line, StringBuilder folded) {
        if (width(line) <= columns) {
            folded.append(line);
            return;
        }
        Matcher entry = ENTRY.matcher(line);
        boolean named = entry.matches() && width(entry.group(1)) <= columns / 2;
        int head = named
                ? entry.group(1).length()
                : line.length() - line.stripLeading().length();
        String rest = line.substring(head);
        int indent = width(line.substring(0, head));
        int hang = named ? indent : indent + HANGING;
        List<String> lines = broken(rest, columns - indent, columns - hang);
        folded.append(line, 0, head).append(String.join("\n" + " ".repeat(hang), lines));
    }

    /**
     * {@code text} in lines of at most {@code width} characters, broken at blanks; words that are too long are broken within, a path
     * where its parts end. The lines of a shell command end with a backslash, so that they can be copied as they stand, and its words
     * stay whole.
     */
    static List<String> broken(String text, int width) {
        return broken(text, width, width);
    }

    /** The first line may take {@code first} characters, the others {@code later}. */
    static List<String> broken(String text, int first, int later) {
        boolean command = COMMAND.matcher(text).matches();
        String end = command ? " \\" : "";
        List<String> lines = new ArrayList<>();
        @Nullable String line = null;
        for (String word : command ? arguments(text) : List.of(text.split(" ", -1))) {
            int room = (lines.isEmpty() ? first : later) - end.length();
            String longer = line == null ? word : line + " " + word;
            if (width(longer) <= room) {
                line = longer;
                continue;
            }
            if (line != null) {
                lines.add(line.stripTrailing() + end);
                room = later - end.length();
            }
            line = command || ESCAPE.matcher(word).find() ? word : pieces(word, room, later, lines);
        }
        lines.add(line == null ? "" : line);
        return lines;
    }

    /** The words of a command, an option and its value together. */
    private static List<String> arguments(String command) {
        List<String> arguments = new ArrayList<>();
        for (String word : command.split(" ", -1)) {
            boolean value = !arguments.isEmpty() && arguments.getLast().matches("--?[a-z-]+") && !word.startsWith("-");
            arguments.add(value ? arguments.removeLast() + " " + word : word);
        }
        return arguments;
    }

    /** Adds lines of a word that does not fit {@code room} characters, then {@code later}, and returns its end, which does. */
    private static String pieces(String word, int room, int later, List<String> lines) {
        String rest = word;
        int width = room;
        while (width(rest) > width) {
            int at = breakOf(rest, width);
            lines.add(rest.substring(0, at));
            rest = rest.substring(at);
            width = later;
        }
        return rest;
    }

    /** Where to break a word so that at most {@code room} characters come before: after a part of a path, as late as possible. */
    private static int breakOf(String word, int room) {
        for (String breaks : BREAKS) {
            for (int at = room; at > room / 3; at--) {
                if (breaks.indexOf(word.charAt(at - 1)) >= 0) {
                    return at;
                }
            }
        }
        return Character.isHighSurrogate(word.charAt(room - 1)) && room > 1 ? room - 1 : room;
    }
}
