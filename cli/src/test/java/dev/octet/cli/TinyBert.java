package dev.octet.cli;

import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.SplittableRandom;

/** A two-layer BERT for tests, and samples for it. */
final class TinyBert {
    static final Path MODEL =
            Path.of(System.getProperty("octet.testdata")).resolve("models/tiny-onnx/bert_eager_script17.onnx");

    /** Tokens it knows. */
    private static final int VOCABULARY = 101;

    private static final int TOKENS = 12;

    private TinyBert() {}

    /** Random token ids, the last few of every third sample masked. Same seed, same file. */
    static Path samples(Path file, int count, long seed) throws IOException {
        SplittableRandom random = new SplittableRandom(seed);
        long[] ids = random.longs((long) count * TOKENS, 1, VOCABULARY).toArray();
        long[] mask = new long[count * TOKENS];
        Arrays.fill(mask, 1);
        for (int sample = 0; sample < count; sample += 3) {
            Arrays.fill(mask, (sample + 1) * TOKENS - 4, (sample + 1) * TOKENS, 0);
        }
        try (Arena arena = Arena.ofConfined();
                NpzWriter writer = NpzWriter.stored(file)) {
            Shape shape = Shape.of(count, TOKENS);
            writer.add(Tensor.ofLongs(arena, "input_ids", shape, ids));
            writer.add(Tensor.ofLongs(arena, "attention_mask", shape, mask));
            writer.commit();
        }
        return file;
    }
}
