package dev.octet.trainer.data;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.SortedSet;
import java.util.StringJoiner;
import java.util.TreeSet;

/**
 * Which batches a run leaves out. Step n reads the n-th of the others, so that a step's data follow from its number and this alone.
 *
 * @param ranges disjoint, ascending, none next to another
 */
public record SkippedBatches(List<Range> ranges) {
    /** All batches are read. */
    public static final SkippedBatches NONE = new SkippedBatches(List.of());

    /**
     * Batches in a row.
     *
     * @param from batches of a step are numbered from 0 in the order of the data
     * @param count at least 1
     */
    public record Range(long from, long count) {}

    public SkippedBatches {
        ranges = List.copyOf(ranges);
    }

    /**
     * Which batch a step reads.
     *
     * @param step from 1
     * @return from 0
     */
    public long of(long step) {
        long at = step - 1;
        for (Range r : ranges) {
            if (at < r.from()) {
                break;
            }
            at += r.count();
        }
        return at;
    }

    /** This without the batches that the steps from {@code first} to {@code last} would read. */
    public SkippedBatches withoutSteps(long first, long last) {
        SortedSet<Long> starts = new TreeSet<>();
        for (long step = first; step <= last; step++) {
            starts.add(of(step));
        }
        List<Range> all = new ArrayList<>(ranges);
        starts.forEach(at -> all.add(new Range(at, 1)));
        all.sort((a, b) -> Long.compare(a.from(), b.from()));
        List<Range> merged = new ArrayList<>();
        for (Range r : all) {
            Range before = merged.isEmpty() ? null : merged.getLast();
            if (before != null && before.from() + before.count() == r.from()) {
                merged.set(merged.size() - 1, new Range(before.from(), before.count() + r.count()));
            } else {
                merged.add(r);
            }
        }
        return new SkippedBatches(Collections.unmodifiableList(merged));
    }

    /** As text, {@code 34+2 90+1}; empty for none. */
    public String text() {
        StringJoiner text = new StringJoiner(" ");
        ranges.forEach(r -> text.add(r.from() + "+" + r.count()));
        return text.toString();
    }

    /**
     * Reads {@link #text}.
     *
     * @throws NumberFormatException when it is something else
     */
    public static SkippedBatches parse(String text) {
        List<Range> ranges = new ArrayList<>();
        long next = 0;
        for (String range : text.isEmpty() ? new String[0] : text.split(" ")) {
            int plus = range.indexOf('+');
            if (plus < 0) {
                throw new NumberFormatException(range);
            }
            Range r = new Range(Long.parseLong(range.substring(0, plus)), Long.parseLong(range.substring(plus + 1)));
            if (r.from() < next || r.count() < 1 || r.from() > Long.MAX_VALUE - r.count()) {
                throw new NumberFormatException(range);
            }
            next = r.from() + r.count();
            ranges.add(r);
        }
        return new SkippedBatches(ranges);
    }
}
