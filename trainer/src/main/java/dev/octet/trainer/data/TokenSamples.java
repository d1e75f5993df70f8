package dev.octet.trainer.data;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.MappedFile;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.Map;

/** A {@code .bin} file of little-endian token numbers, cut into samples of equal length; what is left at the end is not used. */
final class TokenSamples implements Samples {
    private final Path path;
    private final String digest;
    private final MemorySegment tokens;
    private final Arena arena;
    private final int sequence;
    private final boolean wide;
    private final TokenRows rows;

    private TokenSamples(
            Path path, String digest, MemorySegment tokens, Arena arena, int sequence, boolean wide, TokenRows rows) {
        this.path = path;
        this.digest = digest;
        this.tokens = tokens;
        this.arena = arena;
        this.sequence = sequence;
        this.wide = wide;
        this.rows = rows;
    }

    /**
     * Maps a file.
     *
     * @param sequence tokens per sample
     * @param tokenType U16 or U32
     * @throws InvalidDataException when tokens cannot feed the model, a token is outside the model's vocabulary, or there are too few for
     *     one sample
     * @throws IOException when the file cannot be read
     */
    public static TokenSamples open(Path path, int sequence, DType tokenType, Feed feed) throws IOException {
        TokenRows rows = new TokenRows(feed, path.toString(), "tokens");
        boolean wide = tokenType == DType.U32;
        Arena arena = Arena.ofShared();
        boolean opened = false;
        try {
            MemorySegment tokens = MappedFile.map(path, arena);
            int width = tokenType.bits() / 8;
            if (tokens.byteSize() % width != 0) {
                throw new InvalidDataException(
                        "the file has " + tokens.byteSize() + " bytes, which is not a multiple of the " + width
                                + " bytes of a token",
                        path.toString(),
                        "check token_type, or copy the file again");
            }
            if (tokens.byteSize() / width < sequence) {
                throw new InvalidDataException(
                        "the file has " + tokens.byteSize() / width + " tokens, but one sample takes " + sequence,
                        path.toString(),
                        "give more tokens or a shorter sequence");
            }
            String digest = Sha256.of("tokens", Sha256.of(path), String.valueOf(sequence), tokenType.name());
            TokenSamples samples = new TokenSamples(path, digest, tokens, arena, sequence, wide, rows);
            feed.vocabulary().ifPresent(samples::requireKnown);
            opened = true;
            return samples;
        } finally {
            if (!opened) {
                arena.close();
            }
        }
    }

    private void requireKnown(Vocabulary vocabulary) {
        long all = count() * sequence;
        for (long at = 0; at < all; at++) {
            long token = token(at);
            if (token >= vocabulary.rows()) {
                vocabulary.require(token, path + ", token at position " + at + " (from 0)");
            }
        }
    }

    private long token(long at) {
        return wide
                ? Integer.toUnsignedLong(tokens.get(Tensor.I32_LE, at * 4))
                : Short.toUnsignedLong(tokens.get(Tensor.I16_LE, at * 2));
    }

    @Override
    public String name() {
        return String.valueOf(path.getFileName());
    }

    @Override
    public long count() {
        return tokens.byteSize() / ((wide ? 4L : 2L) * sequence);
    }

    @Override
    public String digest() {
        return digest;
    }

    @Override
    public Map<String, Tensor> gather(long[] numbers, Arena batch) {
        long[][] drawn = new long[numbers.length][sequence];
        for (int row = 0; row < numbers.length; row++) {
            for (int i = 0; i < sequence; i++) {
                drawn[row][i] = token(numbers[row] * sequence + i);
            }
        }
        return rows.tensors(drawn, sequence, batch);
    }

    @Override
    public void close() {
        arena.close();
    }
}
