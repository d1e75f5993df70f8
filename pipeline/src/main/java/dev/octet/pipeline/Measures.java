package dev.octet.pipeline;

import dev.octet.converter.evaluate.EmbeddingComparison;
import dev.octet.converter.evaluate.ModelComparison;
import dev.octet.converter.evaluate.OutputComparison;
import java.util.List;
import java.util.function.ToDoubleFunction;

/** The few numbers of a comparison that gates can be set on: of the sentence embeddings where there are some, else of the worst output. */
public record Measures(ModelComparison comparison) {
    /** The relative difference of perplexities, without its sign: a gate on it is the most that it may be. */
    public static final String PERPLEXITY_CHANGE = "perplexity-change";

    /** All measures, as gates name them. */
    public static final List<String> NAMES =
            List.of("cosine", "cosine-min", "spearman", "sqnr", "top1", PERPLEXITY_CHANGE);

    /** The measure called {@code name}, one of {@link #NAMES}; NaN when the models have no such thing. */
    public double value(String name) {
        EmbeddingComparison e = comparison.embedding();
        return switch (name) {
            case "cosine" -> e != null ? e.cosineMean() : worst(OutputComparison::cosineMean);
            case "cosine-min" -> e != null ? e.cosineMin() : worst(OutputComparison::cosineMin);
            case "spearman" -> e != null ? e.spearman() : Double.NaN;
            case "sqnr" -> worst(OutputComparison::sqnrDb);
            case "top1" ->
                comparison.outputs().stream()
                        .mapToDouble(OutputComparison::top1Agreement)
                        .filter(x -> !Double.isNaN(x)) // outputs that are not class scores have none
                        .min()
                        .orElse(Double.NaN);
            case PERPLEXITY_CHANGE ->
                comparison.perplexity() == null
                        ? Double.NaN
                        : Math.abs(comparison.perplexity().change());
            default -> throw new IllegalArgumentException("no measure " + name);
        };
    }

    /** The least over all outputs that have it; a not-a-number cosine or SQNR is the least of all. */
    private double worst(ToDoubleFunction<OutputComparison> measure) {
        return comparison.outputs().stream().mapToDouble(measure).min().orElse(Double.NaN);
    }
}
