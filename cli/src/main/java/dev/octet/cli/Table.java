package dev.octet.cli;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * Text in columns, set for where it is printed ({@link TextStyle#here}). A column of numbers is right-aligned. Where the columns do not fit
 * the line, the widest text becomes narrower and takes several lines; where even that is not enough, each row becomes a paragraph.
 */
final class Table {
    private static final int GAP = 2;

    /** A column of text is not set narrower than this. */
    private static final int NARROWEST_TEXT = 14;

    /** Lines that the longest cell of a column may take in a table. */
    private static final int MOST_LINES = 3;

    private static final String NUMBER = "[-+]?[0-9.,]+(e[-+]?[0-9]+)?(x| [kMGTPE]?i?B| [kMGTPE]| %| dB| s)?|";

    private final List<List<Cell>> rows = new ArrayList<>();
    private boolean headed;

    /** What stands in a row and a column, and what it means. */
    record Cell(String text, Tone tone) {}

    /** A cell that stands out. */
    static Cell cell(Object text, Tone tone) {
        return new Cell(Printable.of(text.toString()), tone);
    }

    /** The names of the columns, before any {@link #row}. */
    Table heading(String... names) {
        rows.add(Arrays.stream(names).map(n -> cell(n, Tone.HEADING)).toList());
        headed = true;
        return this;
    }

    /** Adds a row; {@code null} cells are not allowed, missing ones at the end are. */
    Table row(Object... cells) {
        rows.add(Arrays.stream(cells)
                .map(c -> c instanceof Cell cell ? cell : cell(c, Tone.PLAIN))
                .toList());
        return this;
    }

    boolean isEmpty() {
        return rows.isEmpty();
    }

    /** The lines, each indented by {@code indent} blanks and ended by a line break. */
    String text(int indent) {
        TextStyle style = TextStyle.here();
        int columns = rows.stream().mapToInt(List::size).max().orElse(0);
        boolean[] numeric = new boolean[columns];
        int[] widths = new int[columns];
        int[] least = new int[columns];
        for (int c = 0; c < columns; c++) {
            numeric[c] = isNumeric(c);
            widths[c] = widest(cells(c).stream());
            least[c] = numeric[c] ? leastOfNumbers(c) : Math.min(widths[c], Math.max(name(c), NARROWEST_TEXT));
        }
        int[] natural = widths.clone();
        boolean fits = shrink(widths, least, style.columns() - indent - GAP * (columns - 1));
        StringBuilder text = new StringBuilder();
        if (headed && (!fits || isCramped(natural, widths))) {
            rows.stream().skip(1).forEach(r -> appendParagraph(text, r, indent, style));
        } else {
            for (int c = 0; c < columns; c++) { // what is broken may not need all it was given
                int width = Math.max(1, widths[c]);
                widths[c] = widest(cells(c).stream().flatMap(t -> TextStyle.broken(t, width).stream()));
            }
            rows.forEach(r -> appendRow(text, r, widths, numeric, indent, style));
        }
        return text.toString();
    }

    /** Takes from the widest columns until all fit {@code room} characters; whether they do. */
    private static boolean shrink(int[] widths, int[] least, int room) {
        for (int over = Arrays.stream(widths).sum() - room; over > 0; over--) {
            int widest = -1;
            for (int c = 0; c < widths.length; c++) {
                if (widths[c] > least[c] && (widest < 0 || widths[c] > widths[widest])) {
                    widest = c;
                }
            }
            if (widest < 0) {
                return false;
            }
            widths[widest]--;
        }
        return true;
    }

    /** Whether a cell would take so many lines that a paragraph reads better. */
    private static boolean isCramped(int[] natural, int[] widths) {
        return IntStream.range(0, widths.length).anyMatch(c -> natural[c] > MOST_LINES * widths[c]);
    }

    private void appendRow(
            StringBuilder text, List<Cell> row, int[] widths, boolean[] numeric, int indent, TextStyle style) {
        List<List<String>> cells = new ArrayList<>();
        for (int c = 0; c < row.size(); c++) {
            cells.add(TextStyle.broken(row.get(c).text(), Math.max(1, widths[c])));
        }
        int lines = cells.stream().mapToInt(List::size).max().orElse(1);
        for (int l = 0; l < lines; l++) {
            StringBuilder line = new StringBuilder(" ".repeat(indent));
            int blanks = 0;
            for (int c = 0; c < row.size(); c++) {
                String cell = l < cells.get(c).size() ? cells.get(c).get(l) : "";
                int gap = Math.max(0, widths[c] - TextStyle.width(cell));
                int before = numeric[c] ? gap : 0;
                if (!cell.isEmpty()) {
                    line.append(" ".repeat(blanks + before))
                            .append(style.paint(row.get(c).tone(), cell));
                    blanks = gap - before + GAP;
                } else {
                    blanks += gap + GAP;
                }
            }
            text.append(line.toString().stripTrailing()).append('\n');
        }
    }

    /** The first cell, then the others with the names of their columns, as many on a line as fit. */
    private void appendParagraph(StringBuilder text, List<Cell> row, int indent, TextStyle style) {
        String first = " ".repeat(indent);
        TextStyle.broken(row.getFirst().text(), style.columns() - indent)
                .forEach(l ->
                        text.append(first).append(style.paint(Tone.HEADING, l)).append('\n'));
        String more = " ".repeat(indent + GAP);
        int room = style.columns() - more.length();
        StringBuilder line = new StringBuilder();
        for (int c = 1; c < row.size(); c++) {
            Cell cell = row.get(c);
            if (cell.text().isEmpty()) {
                continue;
            }
            String name = rows.getFirst().get(c).text();
            int width = TextStyle.width(name) + 1 + TextStyle.width(cell.text());
            if (!line.isEmpty() && TextStyle.width(line.toString()) + GAP + width > room) {
                text.append(more).append(line).append('\n');
                line.setLength(0);
            }
            List<String> lines = TextStyle.broken(name + " " + cell.text(), room, room - GAP);
            String start = lines.getFirst()
                    .substring(Math.min(name.length(), lines.getFirst().length()));
            line.append(line.isEmpty() ? "" : " ".repeat(GAP))
                    .append(style.paint(Tone.HEADING, name))
                    .append(style.paint(cell.tone(), start));
            for (String next : lines.subList(1, lines.size())) {
                text.append(more).append(line).append('\n');
                line.setLength(0);
                line.append(" ".repeat(GAP)).append(style.paint(cell.tone(), next));
            }
            if (lines.size() > 1) {
                text.append(more).append(line).append('\n');
                line.setLength(0);
            }
        }
        if (!line.isEmpty()) {
            text.append(more).append(line).append('\n');
        }
    }

    private static int widest(Stream<String> cells) {
        return cells.mapToInt(TextStyle::width).max().orElse(0);
    }

    /** The longest word of a column's name, which is not broken. */
    private int name(int column) {
        return headed ? widest(Arrays.stream(cells(column).getFirst().split(" ", -1))) : 0;
    }

    /** Numbers are not broken. */
    private int leastOfNumbers(int column) {
        return Math.max(name(column), widest(cells(column).stream().skip(headed ? 1 : 0)));
    }

    private List<String> cells(int column) {
        return rows.stream()
                .filter(r -> r.size() > column)
                .map(r -> r.get(column).text())
                .toList();
    }

    private boolean isNumeric(int column) {
        return column > 0 && cells(column).stream().skip(headed ? 1 : 0).allMatch(t -> t.matches(NUMBER));
    }
}
