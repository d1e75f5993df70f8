package dev.octet.trainer.data;

import dev.octet.formats.file.Sha256;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.Map;

/**
 * Pairs of answers as samples. A batch of n pairs has 2 n rows: the preferred answers in order, then the refused ones; only the answers count,
 * not their prompts. Rows are padded to the longest, rounded up to a multiple.
 */
final class PreferenceSamples implements Samples {
    private final Texts texts;
    private final TokenRows rows;
    private final int maxLength;
    private final int padMultiple;

    /**
     * @param texts the preferred and the refused answer of each pair in turn, each with its prompt
     * @param file for messages
     * @throws dev.octet.formats.error.InvalidDataException when tokens cannot feed the model, or a token is outside the model's vocabulary
     * @throws IOException when the file can no longer be read
     */
    PreferenceSamples(Texts texts, String file, Feed feed, int maxLength, int padMultiple) throws IOException {
        this.texts = texts;
        this.rows = new TokenRows(feed, file, "texts");
        this.maxLength = maxLength;
        this.padMultiple = padMultiple;
        for (long text = 0; feed.vocabulary().isPresent() && text < texts.count(); text++) {
            feed.vocabulary()
                    .get()
                    .require(texts.tokens(text, 1).getFirst(), file + ", pair " + text / 2 + " (from 0)");
        }
    }

    @Override
    public String name() {
        return texts.name();
    }

    @Override
    public long count() {
        return texts.count() / 2;
    }

    @Override
    public String digest() {
        return Sha256.of("pairs", texts.digest(), String.valueOf(maxLength), String.valueOf(padMultiple));
    }

    @Override
    public Map<String, Tensor> gather(long[] numbers, Arena arena) throws IOException {
        long[][] tokens = new long[2 * numbers.length][];
        long[][] labels = new long[tokens.length][];
        int longest = 1;
        for (int i = 0; i < tokens.length; i++) {
            long text = 2 * numbers[i % numbers.length] + i / numbers.length;
            tokens[i] = texts.tokens(text, 1).getFirst();
            labels[i] = rows.labels(tokens[i], texts.counted(text));
            longest = Math.max(longest, tokens[i].length);
        }
        int padded = Math.ceilDiv(longest, padMultiple) * padMultiple;
        return rows.tensors(tokens, labels, Math.max(longest, Math.min(padded, maxLength)), arena);
    }

    @Override
    public void close() throws IOException {
        texts.close();
    }
}
