package dev.octet.pipeline.history;

import dev.octet.quant.number.Float8Format;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;

/** The measurements of FP8 tensors by tensor and step. Columns are bins of steps that all tensors share, and become wider as in {@link StepBins}. */
final class Fp8Grid {
    private static final int MOST_COLUMNS = 128;
    private static final int MOST_ROWS = 600;
    private static final int HISTORY_BINS = 200;

    /** More names than any model has tensors. */
    private static final int MOST_TENSORS = 20_000;

    private static final Comparator<Cells> WORST_FIRST = Comparator.<Cells>comparingDouble(c -> c.mostClipped)
            .thenComparingDouble(c -> c.mostUnderflowed)
            .thenComparingLong(c -> c.oldest)
            .reversed();

    private final Map<String, Cells> tensors = new LinkedHashMap<>();
    private final Set<Long> columns = new TreeSet<>();
    private long width = 1;
    private long ignored;

    /**
     * A line of {@code fp8_health.jsonl}.
     *
     * @param tensor its name, which no other has
     * @param clipped share of elements that were clipped
     * @param underflowed share of elements that became 0
     */
    record Measurement(
            long step,
            String tensor,
            String layer,
            String kind,
            String format,
            double clipped,
            double underflowed,
            double amax,
            double scale,
            long scaleAge) {}

    private static final class Cells {
        private final Measurement first;
        private Map<Long, Double> clipped = new TreeMap<>();
        private Map<Long, Double> underflowed = new TreeMap<>();
        private final StepBins amax = new StepBins(HISTORY_BINS);
        private final StepBins room = new StepBins(HISTORY_BINS);
        private double mostClipped;
        private double mostUnderflowed;
        private long oldest;

        Cells(Measurement first) {
            this.first = first;
        }

        void add(Measurement m, long column) {
            clipped.merge(column, m.clipped, Math::max);
            underflowed.merge(column, m.underflowed, Math::max);
            mostClipped = Math.max(mostClipped, m.clipped);
            mostUnderflowed = Math.max(mostUnderflowed, m.underflowed);
            oldest = Math.max(oldest, m.scaleAge);
            amax.add(m.step, m.amax);
            largest(m.format).ifPresent(max -> room.add(m.step, max * m.scale));
        }

        void widen() {
            clipped = wider(clipped);
            underflowed = wider(underflowed);
        }

        private static Map<Long, Double> wider(Map<Long, Double> cells) {
            Map<Long, Double> wider = new TreeMap<>();
            cells.forEach((column, share) -> wider.merge(Math.floorDiv(column, 2L), share, Math::max));
            return wider;
        }

        Fp8Map.Row row(Set<Long> columns) {
            return new Fp8Map.Row(
                    first.layer,
                    first.kind,
                    first.format,
                    Series.rounded(mostClipped),
                    Series.rounded(mostUnderflowed),
                    levels(clipped, columns),
                    levels(underflowed, columns));
        }

        private static String levels(Map<Long, Double> shares, Set<Long> columns) {
            byte[] levels = new byte[columns.size()];
            int i = 0;
            for (long column : columns) {
                levels[i++] = (byte) Fp8Map.level(shares.getOrDefault(column, Double.NaN));
            }
            return Base64.getEncoder().encodeToString(levels);
        }

        ScaleHistory history() {
            return new ScaleHistory(
                    first.layer,
                    first.kind,
                    first.format,
                    Series.rounded(mostClipped),
                    Series.rounded(mostUnderflowed),
                    oldest,
                    amax.series(),
                    room.isEmpty() ? Series.NONE : room.series());
        }
    }

    private static Optional<Double> largest(String format) {
        return Stream.of(Float8Format.values())
                .filter(f -> f.name().equals(format))
                .map(f -> (double) f.maxValue())
                .findFirst();
    }

    void add(Measurement m) {
        if (!tensors.containsKey(m.tensor) && tensors.size() >= MOST_TENSORS) {
            ignored++;
            return;
        }
        long column = Math.floorDiv(m.step, width);
        columns.add(column);
        tensors.computeIfAbsent(m.tensor, n -> new Cells(m)).add(m, column);
        while (columns.size() > MOST_COLUMNS) {
            widen();
        }
    }

    private void widen() {
        Set<Long> before = new HashSet<>(columns);
        columns.clear();
        before.forEach(c -> columns.add(Math.floorDiv(c, 2L)));
        width *= 2;
        tensors.values().forEach(Cells::widen);
    }

    /** The heat maps of all tensors, or of the worst when there are too many. */
    Fp8Map map() {
        if (tensors.isEmpty()) {
            return Fp8Map.NONE;
        }
        Set<Cells> shown = new HashSet<>(worst(MOST_ROWS));
        List<Fp8Map.Row> rows = new ArrayList<>();
        tensors.values().stream().filter(shown::contains).forEach(c -> rows.add(c.row(columns)));
        return new Fp8Map(width, columns.stream().map(c -> c * width).toList(), rows, tensors.size() - rows.size());
    }

    /** How the scales of the worst tensors went: those that were clipped most, then those that underflowed most. */
    List<ScaleHistory> scales(int atMost) {
        return worst(atMost).stream().map(Cells::history).toList();
    }

    private List<Cells> worst(int atMost) {
        return tensors.values().stream().sorted(WORST_FIRST).limit(atMost).toList();
    }

    /** Lines of tensors that are too many. */
    long ignored() {
        return ignored;
    }
}
