package dev.octet.converter.evaluate;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Two models over one data set.
 *
 * @param samples samples compared
 * @param outputs one for each output that both models have and that is made of numbers, in the reference's order
 * @param embedding sentence embeddings; null when no output is like token embeddings, or the data has no attention mask
 * @param perplexity of causal language models; null where it was not asked for
 * @param notCompared outputs that only one of them has, or that are not numbers
 */
public record ModelComparison(
        long samples,
        List<OutputComparison> outputs,
        @Nullable EmbeddingComparison embedding,
        @Nullable PerplexityComparison perplexity,
        List<String> notCompared) {
    public ModelComparison {
        outputs = List.copyOf(outputs);
        notCompared = List.copyOf(notCompared);
    }
}
