package dev.octet.bench.gpu;

import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.data.Samples;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.function.IntFunction;

/** Images or texts that are noise. All batches of a size are the same one: making them is not what is measured, bringing them to the GPU is. */
final class MadeSamples implements Samples {
    private static final long COUNT = 1 << 20;

    private final String name;
    private final IntFunction<Map<String, Tensor>> maker;
    private final Map<Integer, Map<String, Tensor>> made = new HashMap<>();

    private MadeSamples(String name, IntFunction<Map<String, Tensor>> maker) {
        this.name = name;
        this.maker = maker;
    }

    /** Images [3, size, size] in F32 and labels below {@code labels}. */
    static MadeSamples images(int size, int labels) {
        return new MadeSamples("made images", rows -> {
            SplittableRandom random = new SplittableRandom(11);
            float[] pixels = new float[Math.multiplyExact(rows, 3 * size * size)];
            for (int i = 0; i < pixels.length; i++) {
                pixels[i] = (float) random.nextGaussian();
            }
            long[] classes = random.longs(rows, 0, labels).toArray();
            Arena arena = Arena.ofAuto();
            Shape shape = Shape.of(rows, 3, size, size);
            return Map.of(
                    "pixel_values", Tensor.ofFloats(arena, "pixel_values", shape, pixels),
                    "labels", Tensor.ofLongs(arena, "labels", Shape.of(rows), classes));
        });
    }

    /** Texts of {@code length} tokens below {@code vocabulary}, all positions there. */
    static MadeSamples texts(int length, int vocabulary) {
        return new MadeSamples("made texts", rows -> {
            int count = Math.multiplyExact(rows, length);
            long[] tokens = new SplittableRandom(11).longs(count, 0, vocabulary).toArray();
            Arena arena = Arena.ofAuto();
            Shape shape = Shape.of(rows, length);
            Map<String, Tensor> all = tokens(arena, shape, tokens);
            put(all, arena, "labels", shape, tokens);
            return all;
        });
    }

    /** Texts of {@code length} tokens below {@code vocabulary}, all positions there, each with a label below {@code labels}. */
    static MadeSamples labelledTexts(int length, int vocabulary, int labels) {
        return new MadeSamples("made labelled texts", rows -> {
            int count = Math.multiplyExact(rows, length);
            SplittableRandom random = new SplittableRandom(11);
            long[] tokens = random.longs(count, 0, vocabulary).toArray();
            Arena arena = Arena.ofAuto();
            Shape shape = Shape.of(rows, length);
            Map<String, Tensor> all = tokens(arena, shape, tokens);
            put(all, arena, "token_type_ids", shape, new long[count]);
            put(
                    all,
                    arena,
                    "labels",
                    Shape.of(rows),
                    random.longs(rows, 0, labels).toArray());
            return all;
        });
    }

    /** Tokens, and a mask of ones. */
    private static Map<String, Tensor> tokens(Arena arena, Shape shape, long[] tokens) {
        Map<String, Tensor> all = new HashMap<>();
        put(all, arena, "input_ids", shape, tokens);
        long[] mask = new long[tokens.length];
        Arrays.fill(mask, 1);
        put(all, arena, "attention_mask", shape, mask);
        return all;
    }

    private static void put(Map<String, Tensor> all, Arena arena, String name, Shape shape, long[] numbers) {
        all.put(name, Tensor.ofLongs(arena, name, shape, numbers));
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public long count() {
        return COUNT;
    }

    @Override
    public String digest() {
        return name;
    }

    @Override
    public Map<String, Tensor> gather(long[] rows, Arena arena) {
        return made.computeIfAbsent(rows.length, maker::apply);
    }

    @Override
    public void close() {}
}
