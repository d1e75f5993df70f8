package dev.octet.trainer;

import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.data.Samples;
import java.lang.foreign.Arena;
import java.util.Map;
import java.util.SplittableRandom;

/** Texts of random tokens, of a vocabulary of 101. */
record RandomTokens(long count, int length) implements Samples {
    @Override
    public String digest() {
        return "tokens";
    }

    @Override
    public String name() {
        return "tokens";
    }

    @Override
    public Map<String, Tensor> gather(long[] rows, Arena arena) {
        long[] ids = new long[rows.length * length];
        long[] mask = new long[ids.length];
        for (int i = 0; i < ids.length; i++) {
            ids[i] = new SplittableRandom(rows[i / length] * length + i % length).nextInt(2, 101);
            mask[i] = 1;
        }
        Shape shape = Shape.of(rows.length, length);
        return Map.of(
                "input_ids", Tensor.ofLongs(arena, "input_ids", shape, ids),
                "attention_mask", Tensor.ofLongs(arena, "attention_mask", shape, mask),
                "labels", Tensor.ofLongs(arena, "labels", shape, ids));
    }

    @Override
    public long count() {
        return count;
    }

    @Override
    public void close() {}
}
