package dev.octet.pipeline;

import dev.octet.converter.evaluate.EmbeddingComparison;
import dev.octet.converter.evaluate.ModelComparison;
import dev.octet.converter.evaluate.OutputComparison;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.function.Predicate;
import java.util.function.ToDoubleFunction;

/**
 * The few numbers of a comparison that gates can be set on: of the worst output, of the sentence embeddings where the models have some, of
 * the perplexities.
 */
public record Measures(ModelComparison comparison) {
    /** The relative difference of perplexities, without its sign: a gate on it is the most that it may be. */
    public static final String PERPLEXITY_CHANGE = "perplexity-change";

    /** All measures, as gates name them. */
    public static final List<String> NAMES = List.of(
            "cosine",
            "cosine-min",
            "embedding-cosine",
            "embedding-cosine-min",
            "spearman",
            "sqnr",
            "top1",
            PERPLEXITY_CHANGE);

    /** The measure called {@code name}, one of {@link #NAMES}; NaN when the models have no such thing. */
    public double value(String name) {
        return of(name).value();
    }

    /** The same with what it was measured on. */
    public Gates.Measure of(String name) {
        return switch (name) {
            case "cosine" -> worst(OutputComparison::cosineMean);
            case "cosine-min" -> worst(OutputComparison::cosineMin);
            case "embedding-cosine" -> embedding(EmbeddingComparison::cosineMean);
            case "embedding-cosine-min" -> embedding(EmbeddingComparison::cosineMin);
            case "spearman" -> embedding(EmbeddingComparison::spearman);
            case "sqnr" -> worst(OutputComparison::sqnrDb);
            // outputs that are not class scores have none
            case "top1" -> worst(OutputComparison::top1Agreement, o -> !Double.isNaN(o.top1Agreement()));
            case PERPLEXITY_CHANGE ->
                comparison.perplexity() == null
                        ? new Gates.Measure(Double.NaN, "the models have no perplexity")
                        : new Gates.Measure(Math.abs(comparison.perplexity().change()), "");
            default -> throw new IllegalArgumentException("no measure " + name);
        };
    }

    private Gates.Measure embedding(ToDoubleFunction<EmbeddingComparison> measure) {
        EmbeddingComparison e = comparison.embedding();
        return e == null
                ? new Gates.Measure(Double.NaN, "the models have no sentence embeddings")
                : new Gates.Measure(measure.applyAsDouble(e), "sentence embeddings of " + e.output());
    }

    private Gates.Measure worst(ToDoubleFunction<OutputComparison> measure) {
        return worst(measure, o -> true);
    }

    /** The least over all outputs that have it; a cosine or SQNR that is not a number is the least of all. */
    private Gates.Measure worst(ToDoubleFunction<OutputComparison> measure, Predicate<OutputComparison> has) {
        Optional<OutputComparison> least = comparison.outputs().stream()
                .filter(has)
                .min(Comparator.comparing((OutputComparison o) -> !Double.isNaN(measure.applyAsDouble(o)))
                        .thenComparingDouble(measure));
        return least.map(o -> new Gates.Measure(measure.applyAsDouble(o), "output " + o.output()))
                .orElseGet(() -> new Gates.Measure(Double.NaN, "no output has it"));
    }
}
