package dev.octet.cli;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** Text in columns. A column of numbers is right-aligned. */
final class Table {
    private final List<List<String>> rows = new ArrayList<>();
    private boolean headed;

    /** The names of the columns, before any {@link #row}. */
    Table heading(String... names) {
        headed = true;
        return row((Object[]) names);
    }

    /** Adds a row; {@code null} cells are not allowed, missing ones at the end are. */
    Table row(Object... cells) {
        List<String> row = new ArrayList<>();
        for (Object cell : cells) {
            row.add(Printable.of(cell.toString()));
        }
        rows.add(row);
        return this;
    }

    boolean isEmpty() {
        return rows.isEmpty();
    }

    /** The lines, each indented by {@code indent} blanks and ended by a line break. */
    String text(int indent) {
        int columns = rows.stream().mapToInt(List::size).max().orElse(0);
        StringBuilder text = new StringBuilder();
        for (List<String> row : rows) {
            StringBuilder line = new StringBuilder(" ".repeat(indent));
            for (int c = 0; c < columns && c < row.size(); c++) {
                String cell = row.get(c);
                String gap = " ".repeat(width(c) - cell.length());
                line.append(numeric(c) ? gap + cell : cell + gap).append("  ");
            }
            text.append(line.toString().stripTrailing()).append('\n');
        }
        return text.toString();
    }

    private int width(int column) {
        return rows.stream()
                .filter(r -> r.size() > column)
                .mapToInt(r -> r.get(column).length())
                .max()
                .orElse(0);
    }

    private boolean numeric(int column) {
        return column > 0
                && rows.stream()
                        .skip(headed ? 1 : 0)
                        .filter(r -> r.size() > column)
                        .allMatch(r -> r.get(column).matches("[-+]?[0-9.,]+( [kMGT]?i?B| %| dB| s)?|"));
    }

    /** {@code n} bytes as people read them, in powers of 1000 as disks and file managers count. */
    static String bytes(long n) {
        if (n < 1000) {
            return n + " B";
        }
        String[] units = {"kB", "MB", "GB", "TB", "PB", "EB"};
        double value = n;
        int unit = -1;
        while (value >= 999.95 && unit + 1 < units.length) {
            value /= 1000;
            unit++;
        }
        return String.format(Locale.ROOT, "%.1f %s", value, units[unit]);
    }

    /** A time as people read it. */
    static String seconds(double seconds) {
        return String.format(Locale.ROOT, "%.1f s", seconds);
    }
}
