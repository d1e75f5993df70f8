package dev.octet.trainer.data;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Texts joined into one stream, each followed by the end-of-text token, and cut into samples of equal length; the remainder is dropped.
 * There is no padding. A position attends to earlier texts in the same sample. All tokens are held in memory, four bytes each.
 */
final class PackedSamples implements Samples {
    private static final int TEXTS_AT_ONCE = 256;
    private static final int CHUNK = 1 << 20;

    private final Texts texts;
    private final TokenRows rows;
    private final int sequence;
    private final Optional<Long> end;

    /** Tokens; those that do not count as their complement, which is negative. */
    private final List<int[]> chunks = new ArrayList<>();

    private long size;

    private PackedSamples(Texts texts, TokenRows rows, int sequence, Optional<Long> end) {
        this.texts = texts;
        this.rows = rows;
        this.sequence = sequence;
        this.end = end;
    }

    /**
     * Tokenizes all texts.
     *
     * @param texts not truncated
     * @param file for messages
     * @param sequence tokens per sample
     * @throws InvalidDataException when tokens cannot feed the model, a token is outside the model's vocabulary, or there are too few for
     *     one sample
     * @throws dev.octet.formats.error.InvalidOptionException when the end-of-text token is unknown
     * @throws IOException when the file can no longer be read
     */
    static PackedSamples of(Texts texts, String file, Feed feed, int sequence) throws IOException {
        PackedSamples samples = new PackedSamples(texts, new TokenRows(feed, file, "texts"), sequence, end(texts));
        samples.read(file, feed);
        if (samples.count() == 0) {
            throw new InvalidDataException(
                    "the texts have " + samples.size + " tokens, but one sample takes " + sequence,
                    file,
                    "give more text or a shorter sequence");
        }
        return samples;
    }

    /** The token put after each text; empty for texts that have their end. */
    static Optional<Long> end(Texts texts) throws IOException {
        return texts.takesEnd() ? Optional.of(texts.endOfText()) : Optional.empty();
    }

    private void read(String file, Feed feed) throws IOException {
        if (end.isPresent() && feed.vocabulary().isPresent()) {
            feed.vocabulary().get().require(end.get(), file + ", end-of-text token");
        }
        for (long from = 0; from < texts.count(); from += TEXTS_AT_ONCE) {
            long number = from;
            for (long[] tokens : texts.tokens(from, (int) Math.min(TEXTS_AT_ONCE, texts.count() - from))) {
                String where = file + ", text " + number + " (from 0)";
                feed.vocabulary().ifPresent(v -> v.require(tokens, where));
                Optional<boolean[]> counted = texts.counted(number++);
                for (int i = 0; i < tokens.length; i++) {
                    add(counted.isEmpty() || counted.get()[i] ? tokens[i] : ~tokens[i]);
                }
                // the tokenizer's template may have appended it already; an empty text needs none
                if (end.isPresent() && tokens.length > 0 && tokens[tokens.length - 1] != end.get()) {
                    add(end.get());
                }
            }
        }
    }

    private void add(long token) {
        int at = (int) (size % CHUNK);
        if (at == 0) {
            chunks.add(new int[CHUNK]);
        }
        chunks.getLast()[at] = Math.toIntExact(token);
        size++;
    }

    @Override
    public String name() {
        return texts.name();
    }

    @Override
    public long count() {
        return size / sequence;
    }

    @Override
    public String digest() {
        return Sha256.of("packed", texts.digest(), String.valueOf(sequence), String.valueOf(end.orElse(-1L)));
    }

    @Override
    public Map<String, Tensor> gather(long[] numbers, Arena arena) {
        long[][] drawn = new long[numbers.length][sequence];
        long[][] labels = new long[numbers.length][sequence];
        for (int row = 0; row < numbers.length; row++) {
            for (int i = 0; i < sequence; i++) {
                long at = numbers[row] * sequence + i;
                int token = chunks.get((int) (at / CHUNK))[(int) (at % CHUNK)];
                drawn[row][i] = token < 0 ? ~token : token;
                labels[row][i] = token < 0 ? rows.ignored() : token;
            }
        }
        return rows.tensors(drawn, labels, sequence, arena);
    }

    @Override
    public void close() throws IOException {
        texts.close();
    }
}
