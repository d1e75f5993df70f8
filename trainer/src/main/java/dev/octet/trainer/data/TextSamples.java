package dev.octet.trainer.data;

import dev.octet.formats.file.Sha256;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Texts as samples. Each batch is padded to its longest text, rounded up to a multiple: each length needs a program, so there should be
 * few.
 */
final class TextSamples implements Samples {
    private static final int TEXTS_AT_ONCE = 256;

    private final Texts texts;
    private final TokenRows rows;
    private final int maxLength;
    private final int padMultiple;
    private final @Nullable TextLabels labels;

    /**
     * @param texts truncated to {@code maxLength}
     * @param file for messages
     * @param maxLength limit of the padded length, even if it is not a multiple
     * @throws dev.octet.formats.error.InvalidDataException when tokens cannot feed the model, a token is outside the model's vocabulary, or a
     *     label is missing or does not fit the model's output
     * @throws IOException when the file can no longer be read
     */
    public TextSamples(Texts texts, String file, Feed feed, int maxLength, int padMultiple) throws IOException {
        this.texts = texts;
        this.rows = new TokenRows(feed, file, "texts");
        this.maxLength = maxLength;
        this.padMultiple = padMultiple;
        this.labels = TextLabels.of(texts, file, feed);
        Vocabulary vocabulary = feed.vocabulary().orElse(null);
        if (vocabulary != null && texts.largestToken() >= vocabulary.rows()) {
            requireKnown(vocabulary, file);
        }
    }

    /** The tokenizer may have tokens outside the model's vocabulary, as long as no text uses them. */
    private void requireKnown(Vocabulary vocabulary, String file) throws IOException {
        for (long from = 0; from < texts.count(); from += TEXTS_AT_ONCE) {
            long number = from;
            for (long[] tokens : texts.tokens(from, (int) Math.min(TEXTS_AT_ONCE, texts.count() - from))) {
                vocabulary.require(tokens, file + ", text " + number++ + " (from 0)");
            }
        }
    }

    @Override
    public String name() {
        return texts.name();
    }

    @Override
    public long count() {
        return texts.count();
    }

    @Override
    public String digest() {
        return Sha256.of(texts.digest(), String.valueOf(maxLength), String.valueOf(padMultiple));
    }

    @Override
    public Map<String, Tensor> gather(long[] numbers, Arena arena) throws IOException {
        long[][] tokens = new long[numbers.length][];
        long[][] targets = new long[numbers.length][];
        int longest = 1;
        for (int i = 0; i < numbers.length; i++) {
            tokens[i] = texts.tokens(numbers[i], 1).getFirst();
            targets[i] = rows.labels(tokens[i], texts.counted(numbers[i]));
            longest = Math.max(longest, tokens[i].length);
        }
        int padded = Math.ceilDiv(longest, padMultiple) * padMultiple;
        Map<String, Tensor> tensors =
                rows.tensors(tokens, targets, Math.max(longest, Math.min(padded, maxLength)), arena);
        if (labels != null) {
            Tensor own = labels.tensor(numbers, arena);
            tensors.put(own.name(), own); // in place of the tokens
        }
        return tensors;
    }

    @Override
    public void close() throws IOException {
        texts.close();
    }
}
