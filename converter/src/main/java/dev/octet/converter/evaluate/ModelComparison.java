package dev.octet.converter.evaluate;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The comparison of two models over a data set.
 *
 * @param samples samples compared
 * @param outputs one for each numeric output of both models, in the reference's order
 * @param embedding sentence embeddings; null when no output has the form of token embeddings, when one is called logits, scores or
 *     probabilities, or when the data have no attention mask
 * @param perplexity of causal language models; null if not requested
 * @param notCompared outputs of only one model, or not numeric
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
