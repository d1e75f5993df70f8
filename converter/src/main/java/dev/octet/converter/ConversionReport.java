package dev.octet.converter;

import dev.octet.converter.plan.ActivationScale;
import dev.octet.converter.plan.Decision;
import dev.octet.converter.plan.LayerResult;
import dev.octet.converter.report.ReportData;
import dev.octet.converter.report.RunFacts;
import dev.octet.formats.graph.GraphModel;
import dev.octet.quant.statistics.DataPart;
import dev.octet.quant.statistics.LogHistogram;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.TensorStatistics;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** Collects the report data of a conversion. */
public final class ConversionReport {
    /** Coarser than the bins of the statistics, which are too many for a page. */
    private static final int SHOWN_BINS_PER_OCTAVE = 4;

    private ConversionReport() {}

    /**
     * The files of a conversion.
     *
     * @param name of the original
     * @param canonical the original's graph, from {@link Converter#canonical}
     * @param originalBytes size of the original
     * @param convertedBytes size of the converted file
     */
    public record Files(String name, GraphModel canonical, long originalBytes, long convertedBytes) {}

    /**
     * The report's data; an evaluation can be added with {@link ReportData#withQuality}.
     *
     * @param rounding how weights were rounded, and why so
     * @param calibrator name of the calibrator
     * @param statistics what the scales were chosen from; null for recipes without
     * @param run command, date, digests, versions, times
     */
    public static ReportData of(
            Conversion conversion,
            Files files,
            String rounding,
            String calibrator,
            @Nullable Statistics statistics,
            RunFacts run) {
        Statistics used = conversion.plan().needsStatistics() ? statistics : null;
        ReportData.Summary summary = new ReportData.Summary(
                files.name(),
                conversion.plan().recipe().name(),
                rounding,
                used == null ? "" : calibrator,
                conversion.target().label(),
                used == null ? "" : used.data().stream().map(DataPart::name).collect(Collectors.joining(", ")),
                used == null ? 0 : used.samplesDone(),
                files.originalBytes(),
                files.convertedBytes(),
                null);
        return new ReportData(
                summary,
                layers(conversion),
                conversion.comparison().isEmpty()
                        ? "of each converted layer's weight alone"
                        : "at the output of each converted layer, with the error that comes in from the layers before"
                                + " it",
                used == null ? List.of() : activations(conversion, used),
                conversion.plan().decisions().stream()
                        .map(ConversionReport::row)
                        .toList(),
                parts(conversion, files),
                null,
                run,
                conversion.notes().stream().map(Object::toString).toList());
    }

    private static List<ReportData.Part> parts(Conversion conversion, Files files) {
        GraphParts parts = GraphParts.of(files.canonical().graph());
        Map<String, Long> before = parts.bytes(files.canonical().graph());
        Map<String, Long> after = parts.bytes(conversion.model().graph());
        List<ReportData.Part> rows = new ArrayList<>();
        long constantsBefore = 0;
        long constantsAfter = 0;
        for (String part : GraphParts.NAMES) {
            long original = before.getOrDefault(part, 0L);
            long converted = after.getOrDefault(part, 0L);
            constantsBefore += original;
            constantsAfter += converted;
            if (original + converted > 0) {
                rows.add(new ReportData.Part(part, original, converted));
            }
        }
        rows.add(new ReportData.Part(
                "graph and names",
                Math.max(0, files.originalBytes() - constantsBefore),
                Math.max(0, files.convertedBytes() - constantsAfter)));
        return rows;
    }

    private static List<ReportData.Layer> layers(Conversion conversion) {
        Map<String, Double> sqnrDb = new HashMap<>();
        conversion.comparison().forEach(c -> sqnrDb.put(c.reference(), c.sqnrDb()));
        Map<String, Decision.Converted> decisions = new HashMap<>();
        conversion.plan().converted().forEach(d -> decisions.put(d.node(), d));
        List<ReportData.Layer> layers = new ArrayList<>();
        for (LayerResult result : conversion.layers()) {
            Decision.Converted decision = decisions.get(result.node());
            ActivationScale input =
                    decision == null ? null : conversion.activations().get(decision.input());
            layers.add(new ReportData.Layer(
                    result.node(),
                    decision == null ? "" : decision.kind().label(),
                    sqnrDb.getOrDefault(result.output(), result.weightSqnrDb()),
                    result.minScale(),
                    result.maxScale(),
                    input == null ? Double.NaN : input.clip(),
                    input == null ? result.saturatedShare() : input.saturatedShare()));
        }
        return layers;
    }

    private static List<ReportData.Activation> activations(Conversion conversion, Statistics statistics) {
        List<ReportData.Activation> activations = new ArrayList<>();
        for (ActivationScale scale : conversion.activations().values()) {
            TensorStatistics tensor = statistics.tensors().get(scale.value());
            if (tensor != null) {
                activations.add(activation(scale, tensor.histogram()));
            }
        }
        return activations;
    }

    /** Bins from the lowest occupied to the highest; each sums several bins of the statistics. */
    private static ReportData.Activation activation(ActivationScale scale, LogHistogram histogram) {
        int together = LogHistogram.BINS_PER_OCTAVE / SHOWN_BINS_PER_OCTAVE;
        // whole octaves: bin 0 starts the subnormals, whose exponent counts as -127
        int octave = Math.max(0, histogram.firstBin()) / LogHistogram.BINS_PER_OCTAVE;
        int first = octave * LogHistogram.BINS_PER_OCTAVE;
        List<Long> counts = new ArrayList<>();
        for (int bin = first; bin <= histogram.lastBin(); bin += together) {
            long sum = 0;
            for (int i = bin; i < Math.min(bin + together, LogHistogram.BIN_COUNT); i++) {
                sum += histogram.count(i);
            }
            counts.add(sum);
        }
        return new ReportData.Activation(
                scale.value(), octave - 127.0, SHOWN_BINS_PER_OCTAVE, counts, scale.clip(), scale.amax());
    }

    private static ReportData.DecisionRow row(Decision decision) {
        return switch (decision) {
            case Decision.Converted d ->
                new ReportData.DecisionRow(d.node(), d.kind().label(), true, d.note());
            case Decision.Kept d ->
                new ReportData.DecisionRow(d.node(), d.kind().label(), false, d.reason());
        };
    }
}
