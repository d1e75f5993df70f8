package dev.octet.converter.evaluate;

import dev.octet.converter.data.Batch;
import dev.octet.converter.data.TokenMask;
import dev.octet.formats.tensor.Tensor;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Two models compared on some of the samples, perhaps by one of several processes; {@link #joined} makes a whole of all. Sums are kept batch by batch and added in the order of
 * the samples, so that a whole has the same bits however it was shared out, where the batches are the same.
 */
public final class EvaluatedPart implements Serializable {
    private static final long serialVersionUID = 1;

    private final ArrayList<BatchSums> batches = new ArrayList<>();
    private final LinkedHashSet<String> notCompared;

    /** @param notCompared outputs of only one model */
    EvaluatedPart(Set<String> notCompared) {
        this.notCompared = new LinkedHashSet<>(notCompared);
    }

    /** One batch. */
    static final class BatchSums implements Serializable {
        private static final long serialVersionUID = 1;

        private final LinkedHashMap<String, OutputSums> outputs = new LinkedHashMap<>();
        private final int samples;
        private final boolean embeds;
        private final @Nullable NextTokens next;
        private @Nullable Embeddings embeddings;

        /**
         * @param samples how many
         * @param embeds whether an output may be one of sentence embeddings
         * @param perplexity whether losses of next tokens are summed up
         */
        private BatchSums(int samples, boolean embeds, boolean perplexity) {
            this.samples = samples;
            this.embeds = embeds;
            this.next = perplexity ? new NextTokens() : null;
        }

        /** Adds one output of both models. */
        void add(Batch batch, String name, Tensor a, Tensor b) {
            TokenMask mask = batch.mask().orElse(null);
            OutputSums sums = new OutputSums(name);
            sums.add(a, b, samples, mask);
            outputs.put(name, sums);
            if (embeddings == null && embeds && mask != null && Embeddings.fits(a, mask)) {
                embeddings = new Embeddings(name, (int) a.shape().dim(2));
                embeddings.add(a, b, mask);
            }
            if (next != null && name.equals(NextTokens.LOGITS)) {
                next.add(batch, a, b);
            }
        }

        /** Bytes of the logits of one token; 0 where they were not asked for. */
        long tokenBytes() {
            return next == null ? 0 : next.tokenBytes();
        }
    }

    /**
     * Begins the next batch.
     *
     * @param outputs the outputs compared: a model that has scores of tokens or classes among them is not one of embeddings
     * @param perplexity whether losses of next tokens are summed up
     */
    BatchSums next(Batch batch, Collection<String> outputs, boolean perplexity) {
        boolean scores = outputs.stream().anyMatch(OutputSums::isNamedLikeScores);
        BatchSums sums = new BatchSums(batch.size(), !scores, perplexity);
        batches.add(sums);
        return sums;
    }

    /** Lists outputs that turned out not to be numeric. */
    void addNotCompared(Collection<String> outputs) {
        notCompared.addAll(outputs);
    }

    /** Samples compared. */
    public int samples() {
        return batches.stream().mapToInt(b -> b.samples).sum();
    }

    /**
     * The comparison over all samples.
     *
     * @param parts in the order of the samples
     * @param data what the samples are called
     * @throws dev.octet.formats.error.InvalidDataException when a perplexity was asked for and no text has two tokens
     */
    public static ModelComparison joined(List<EvaluatedPart> parts, String data) {
        LinkedHashMap<String, OutputSums> outputs = new LinkedHashMap<>();
        Embeddings embeddings = null;
        NextTokens next = null;
        long samples = 0;
        LinkedHashSet<String> notCompared = new LinkedHashSet<>();
        for (EvaluatedPart part : parts) {
            notCompared.addAll(part.notCompared);
            for (BatchSums batch : part.batches) {
                samples += batch.samples;
                batch.outputs.forEach((name, sums) ->
                        outputs.computeIfAbsent(name, OutputSums::new).plus(sums));
                if (batch.next != null) {
                    next = next == null ? new NextTokens() : next;
                    next.plus(batch.next);
                }
                Embeddings more = batch.embeddings;
                if (more != null) {
                    embeddings = embeddings == null ? more.none() : embeddings;
                    if (embeddings
                            .output()
                            .equals(more.output())) { // of several outputs of that shape, the first counts
                        embeddings.plus(more);
                    }
                }
            }
        }
        return new ModelComparison(
                samples,
                outputs.values().stream().map(OutputSums::result).toList(),
                embeddings == null ? null : embeddings.compare(),
                next == null ? null : next.result(data),
                List.copyOf(notCompared));
    }
}
