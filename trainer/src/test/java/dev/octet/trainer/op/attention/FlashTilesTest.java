package dev.octet.trainer.op.attention;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.device.cuda.CudaOperands;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.op.GivenFrame;
import dev.octet.trainer.op.attention.AttentionOperands.Size;
import dev.octet.trainer.op.attention.FlashAttention.Masking;
import dev.octet.trainer.op.attention.FlashAttention.Tiles;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Times of attention's kernels with other tiles than the chosen ones, at the sizes that the bench's steps have. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("emulated")
class FlashTilesTest {
    private static final int RUNS = 10;

    /** Compute capability. */
    private static final int HOPPER = 90;

    private static final List<Size> SIZES =
            List.of(of("GPT-2 124M", 32, 12, 1024, 64, true, true), of("ViT-Huge/14", 64, 16, 257, 80, false, false));

    /** Self-attention; keys that are all there where there is a mask. */
    private static Size of(String name, int batch, int heads, int length, int head, boolean causal, boolean masked) {
        Size size = new Size(name, DType.BF16, batch, heads, heads, length, length, head, causal, null, false);
        byte[] all = new byte[batch * length];
        Arrays.fill(all, (byte) 1);
        return masked ? size.masked(all) : size;
    }

    static Stream<Size> sizes() {
        return SIZES.stream();
    }

    private static List<Tiles> candidates(int head) {
        List<Tiles> all = new ArrayList<>();
        if (head == 64) {
            all.add(new Tiles(head, 2, 2, 2, 32, 16, 64));
            all.add(new Tiles(head, 2, 1, 1, 48, 32, 64));
            all.add(new Tiles(head, 1, 1, 1, 64, 64, 32));
            all.add(new Tiles(head, 1, 1, 1, 32, 48, 48));
        } else {
            all.add(new Tiles(head, 2, 2, 1, 32, 32, 32));
            all.add(new Tiles(head, 2, 1, 1, 64, 64, 64));
            all.add(new Tiles(head, 1, 1, 1, 64, 16, 32));
            all.add(new Tiles(head, 1, 1, 1, 32, 48, 48));
            all.add(new Tiles(head, 1, 1, 2, 48, 16, 16));
        }
        return all;
    }

    /** One that is a fifth faster would have been worth choosing. */
    @Tag("gpu")
    @ParameterizedTest
    @MethodSource("sizes")
    void the_chosen_tiles_are_about_as_fast_as_the_best_on_the_gpu(Size size) {
        Map<String, Double> chosen = new TreeMap<>();
        Map<String, Double> best = new TreeMap<>();
        StringBuilder table = new StringBuilder();
        try (CudaOperands operands = new CudaOperands(TestGpus.shared())) {
            Attention op = size.op();
            GivenFrame<CudaTensor> frame = AttentionOperands.of(size, operands).frame();
            tiles(op).forEach(tiles -> {
                Map<String, Double> times = operands.microseconds(attention(op, frame, tiles), RUNS);
                table.append(String.format(Locale.ROOT, "%s %s: %s%n", size.name(), tiles, times));
                times.forEach((kernel, time) -> {
                    chosen.putIfAbsent(kernel, time);
                    best.merge(kernel, time, Math::min);
                });
            });
        }
        System.out.println(table);
        chosen.forEach(
                (kernel, time) -> assertTrue(time <= 1.2 * best.getOrDefault(kernel, time), kernel + "\n" + table));
    }

    /** The chosen ones first. */
    private static Stream<Tiles> tiles(Attention op) {
        return Stream.concat(Stream.of(Tiles.of(op.size(), Masking.of(op), HOPPER)), candidates(op.size()).stream());
    }

    @Tag("kernels")
    @ParameterizedTest
    @MethodSource("sizes")
    void all_tiles_give_the_same_numbers(Size size) {
        Size small = of(size.name(), 1, 1, 130, size.head(), size.causal(), size.mask() != null);
        Attention op = small.op();
        try (CudaOperands operands = new CudaOperands(TestGpus.host())) {
            GivenFrame<CudaTensor> frame = AttentionOperands.of(small, operands).frame();
            List<CudaTensor> results = Stream.concat(Stream.of(frame.output(0)), frame.gradients().stream())
                    .toList();
            List<double[]> expected = new ArrayList<>();
            tiles(op).forEach(tiles -> {
                operands.run(attention(op, frame, tiles));
                for (int i = 0; i < results.size(); i++) {
                    double[] numbers = operands.numbers(results.get(i));
                    if (expected.size() < results.size()) {
                        expected.add(numbers);
                    }
                    double largest =
                            Arrays.stream(expected.get(i)).map(Math::abs).max().orElseThrow();
                    // probabilities are rounded to BF16 beside other maxima
                    assertArrayEquals(expected.get(i), numbers, 0x1p-6 * largest, tiles + ", result " + i);
                }
            });
        }
    }

    private static Consumer<CudaStream> attention(Attention op, GivenFrame<CudaTensor> frame, Tiles tiles) {
        return cuda -> {
            FlashAttention attention = new FlashAttention(op, frame, cuda, tiles);
            attention.forward();
            attention.backward();
        };
    }
}
