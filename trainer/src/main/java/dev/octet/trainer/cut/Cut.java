package dev.octet.trainer.cut;

import dev.octet.formats.tensor.Shape;
import java.util.ArrayList;
import java.util.List;

/**
 * How an axis of a tensor is shared out. It consists of segments, as those of queries, keys and values in one weight, and each rank has as much of each.
 *
 * @param axis that is cut
 * @param segments their sizes, one after another
 */
record Cut(int axis, List<Long> segments) {
    Cut {
        segments = List.copyOf(segments);
    }

    /** An axis of one segment. */
    static Cut of(int axis, long size) {
        return new Cut(axis, List.of(size));
    }

    /** The same of another axis of the same size. */
    Cut on(int other) {
        return new Cut(other, segments);
    }

    /** For messages. */
    String text() {
        return "axis " + axis + " in segments of " + segments;
    }

    long size() {
        return segments.stream().mapToLong(Long::longValue).sum();
    }

    /** Whether all ranks have equally much. */
    boolean isEven(int ranks) {
        return segments.stream().allMatch(s -> s % ranks == 0);
    }

    /** What a rank has of a tensor. */
    Part part(Shape whole, int rank, int ranks) {
        List<Part.Range> ranges = new ArrayList<>();
        long start = 0;
        for (long segment : segments) {
            ranges.add(new Part.Range(start + segment * rank / ranks, start + segment * (rank + 1) / ranks));
            start += segment;
        }
        return new Part(whole, axis, ranges);
    }

    /** Shape of what a rank has of a tensor. */
    Shape shape(Shape whole, int rank, int ranks) {
        return part(whole, rank, ranks).shape();
    }
}
