package dev.octet.converter.data;

import dev.octet.formats.error.InvalidDataException;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/** The labels of texts: a number or a list of numbers under one key of every line of a JSON Lines file. */
public final class LineLabels {
    private final double[][] values;
    private final boolean[] whole;
    private final long[] lines;

    /**
     * The label of one line.
     *
     * @param values one for a single number
     * @param whole whether all are written as whole numbers
     */
    @SuppressWarnings("ArrayRecordComponent") // read once, never compared
    record Label(double[] values, boolean whole) {}

    private LineLabels(double[][] values, boolean[] whole, long[] lines) {
        this.values = values;
        this.whole = whole;
        this.lines = lines;
    }

    /**
     * Reads the labels of a file.
     *
     * @return empty when no line has the key
     * @throws InvalidDataException when some lines have the key and others do not, or a label is not a number or a list of numbers; the
     *     message has the line
     */
    static Optional<LineLabels> of(Path file, JsonLines texts, String key) {
        double[][] values = new double[texts.count()][];
        boolean[] whole = new boolean[texts.count()];
        long[] lines = new long[texts.count()];
        long without = 0;
        boolean any = false;
        for (int i = 0; i < values.length; i++) {
            lines[i] = texts.line(i);
            Optional<Label> label = texts.label(i, key);
            if (label.isPresent()) {
                values[i] = label.get().values();
                whole[i] = label.get().whole();
                any = true;
            } else if (without == 0) {
                without = lines[i];
            }
        }
        if (!any) {
            return Optional.empty();
        }
        if (without > 0) {
            throw new InvalidDataException(
                    "the object has no \"" + key + "\", other lines have one",
                    file + ", line " + without,
                    "give every text its label, or remove the line");
        }
        return Optional.of(new LineLabels(values, whole, lines));
    }

    /**
     * Reads the labels of rows; as {@link #of(Path, JsonLines, String)}.
     *
     * @throws IOException when a file cannot be read
     */
    static Optional<LineLabels> of(DataFiles files, String column) throws IOException {
        List<Label> labels = new ArrayList<>();
        List<String> without = new ArrayList<>();
        files.read(Set.of(column), row -> {
            if (row.has(column)) {
                labels.add(label(row, column));
            } else if (without.isEmpty()) {
                without.add(row.where());
            }
            return true;
        });
        if (labels.isEmpty()) {
            return Optional.empty();
        }
        if (!without.isEmpty()) {
            throw new InvalidDataException(
                    "the row has no \"" + column + "\", other rows have one",
                    without.getFirst(),
                    "give every text its label, or remove the row");
        }
        double[][] values = new double[labels.size()][];
        boolean[] whole = new boolean[values.length];
        long[] lines = new long[values.length];
        for (int i = 0; i < values.length; i++) {
            values[i] = labels.get(i).values();
            whole[i] = labels.get(i).whole();
            lines[i] = i + 1L;
        }
        return Optional.of(new LineLabels(values, whole, lines));
    }

    private static Label label(Row row, String column) {
        Object value = row.get(column);
        List<?> numbers = value instanceof List<?> list ? list : Collections.singletonList(value);
        double[] values = new double[numbers.size()];
        boolean whole = true;
        for (int i = 0; i < values.length; i++) {
            double number = numbers.get(i) instanceof Number n ? n.doubleValue() : Double.NaN;
            if (!Double.isFinite(number)) {
                throw new InvalidDataException(
                        "\"" + column + "\" is not a number: " + numbers.get(i),
                        row.where(),
                        "give class numbers, which count from 0, or what a regression is to answer");
            }
            values[i] = number;
            whole &= !(numbers.get(i) instanceof Double);
        }
        return new Label(values, whole);
    }

    /** The numbers of text {@code i}: one, or those of a list. */
    public double[] values(int i) {
        return values[i].clone();
    }

    /** Whether the numbers of text {@code i} are all written as whole numbers. */
    public boolean isWhole(int i) {
        return whole[i];
    }

    /** The line of text {@code i}, from 1. */
    public long line(int i) {
        return lines[i];
    }
}
