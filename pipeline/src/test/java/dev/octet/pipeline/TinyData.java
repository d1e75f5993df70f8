package dev.octet.pipeline;

import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.SplittableRandom;

/** Data for the tiny models of {@code testdata}, drawn at random. */
final class TinyData {
    private static final int SAMPLES = 32;
    private static final int LENGTH = 6;
    private static final int PIXELS = 3 * 16 * 16;
    private static final int CLASSES = 5;

    /** Tokens that all tiny models have. */
    private static final int TOKENS = 37;

    private TinyData() {}

    /** Writes data into a folder; returns the lines of a configuration that train a model on it. */
    static String lines(String model, Path folder) throws IOException {
        SplittableRandom random = new SplittableRandom(3);
        if (model.contains("vit")) {
            return images(folder, random);
        }
        if (model.contains("bert")) {
            return texts(model, folder, random);
        }
        byte[] tokens = new byte[2 * 600];
        for (int i = 0; i < tokens.length; i += 2) {
            tokens[i] = (byte) random.nextInt(TOKENS);
        }
        Files.write(folder.resolve("tokens.bin"), tokens);
        return "data: {train: tokens.bin, sequence: " + LENGTH + "}\nloss: {type: causal-lm}\n";
    }

    private static String images(Path folder, SplittableRandom random) throws IOException {
        float[] pixels = new float[SAMPLES * PIXELS];
        for (int i = 0; i < pixels.length; i++) {
            pixels[i] = (float) random.nextDouble();
        }
        try (Arena arena = Arena.ofConfined();
                NpzWriter writer = NpzWriter.stored(folder.resolve("images.npz"))) {
            writer.add(Tensor.ofFloats(arena, "pixel_values", Shape.of(SAMPLES, 3, 16, 16), pixels));
            writer.add(Tensor.ofLongs(arena, "labels", Shape.of(SAMPLES), below(CLASSES, SAMPLES, random)));
            writer.commit();
        }
        return "data: {train: images.npz}\nloss: {type: cross-entropy}\n";
    }

    private static String texts(String model, Path folder, SplittableRandom random) throws IOException {
        Shape shape = Shape.of(SAMPLES, LENGTH);
        int count = SAMPLES * LENGTH;
        boolean perToken = !model.contains("cls");
        long[] ones = new long[count];
        Arrays.fill(ones, 1);
        try (Arena arena = Arena.ofConfined();
                NpzWriter writer = NpzWriter.stored(folder.resolve("texts.npz"))) {
            writer.add(Tensor.ofLongs(arena, "input_ids", shape, below(TOKENS, count, random)));
            writer.add(Tensor.ofLongs(arena, "attention_mask", shape, ones));
            if (model.startsWith("tiny-hf")) {
                writer.add(Tensor.ofLongs(arena, "token_type_ids", shape, new long[count]));
            }
            writer.add(Tensor.ofLongs(
                    arena,
                    "labels",
                    perToken ? shape : Shape.of(SAMPLES),
                    below(3, perToken ? count : SAMPLES, random)));
            writer.commit();
        }
        return "data: {train: texts.npz}\nloss: {type: cross-entropy}\n";
    }

    private static long[] below(int bound, int count, SplittableRandom random) {
        long[] numbers = new long[count];
        for (int i = 0; i < count; i++) {
            numbers[i] = random.nextInt(bound);
        }
        return numbers;
    }
}
