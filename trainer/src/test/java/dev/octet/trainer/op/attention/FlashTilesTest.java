package dev.octet.trainer.op.attention;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.device.cuda.CudaOperands;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.attention.FlashAttention.Masking;
import dev.octet.trainer.op.attention.FlashAttention.Tiles;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.SplittableRandom;
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

    /** A shape of self-attention, heads side by side in memory. */
    record Size(String name, int batch, int heads, int length, int head, boolean causal, boolean padded) {}

    private static final List<Size> SIZES = List.of(
            new Size("GPT-2 124M", 32, 12, 1024, 64, true, true),
            new Size("ViT-Huge/14", 64, 16, 257, 80, false, false));

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
            Attention op = op(size);
            Operands frame = Operands.of(op, operands);
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
        Attention op = op(new Size(size.name(), 1, 1, 130, size.head(), size.causal(), size.padded()));
        try (CudaOperands operands = new CudaOperands(TestGpus.host())) {
            Operands frame = Operands.of(op, operands);
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

    private static Attention op(Size size) {
        OperandType x =
                new OperandType(DType.BF16, Shape.of(size.batch(), size.length(), (long) size.heads() * size.head()));
        OperandType mask =
                size.padded() ? new OperandType(DType.BOOL, Shape.of(size.batch(), 1, 1, size.length())) : null;
        Node node = Node.of(
                "",
                "Attention",
                List.of("q", "k", "v", "mask"),
                List.of("y"),
                Attribute.of("q_num_heads", size.heads()),
                Attribute.of("kv_num_heads", size.heads()),
                Attribute.of("is_causal", size.causal() ? 1 : 0));
        return Attention.read(
                new OpSource(node, Arrays.asList(x, x, x, mask), Arrays.asList(null, null, null, null), 23));
    }

    private static Consumer<CudaStream> attention(Attention op, Operands frame, Tiles tiles) {
        return cuda -> {
            FlashAttention attention = new FlashAttention(op, frame, cuda, tiles);
            attention.forward();
            attention.backward();
        };
    }

    /** Operands with numbers, gradients and results without. */
    private record Operands(
            List<CudaTensor> inputs, List<CudaTensor> outputs, CudaTensor upstream, List<CudaTensor> gradients)
            implements Frame<CudaTensor> {
        static Operands of(Attention op, CudaOperands operands) {
            List<CudaTensor> inputs = new ArrayList<>();
            for (OperandType t : List.of(op.q(), op.k(), op.v())) {
                inputs.add(numbers(t, operands));
            }
            if (op.mask() != null) {
                byte[] all = new byte[Math.toIntExact(op.mask().count())];
                Arrays.fill(all, (byte) 1);
                inputs.add(operands.tensor(op.mask(), all));
            }
            List<CudaTensor> outputs = Stream.concat(op.outputs().stream(), op.saved().stream())
                    .map(operands::empty)
                    .toList();
            return new Operands(
                    inputs,
                    outputs,
                    numbers(op.outputs().getFirst(), operands),
                    inputs.stream().limit(3).map(t -> operands.empty(t.type())).toList());
        }

        /** Normal numbers in BF16. */
        private static CudaTensor numbers(OperandType type, CudaOperands operands) {
            byte[] bytes = new byte[Math.toIntExact(type.byteSize())];
            SplittableRandom random = new SplittableRandom(7);
            int[] some = random.doubles(4096)
                    .mapToInt(d -> Float.floatToRawIntBits((float) random.nextGaussian()) >>> 16)
                    .toArray();
            for (int i = 0; i < bytes.length; i += 2) {
                int bits = some[random.nextInt(some.length)];
                bytes[i] = (byte) bits;
                bytes[i + 1] = (byte) (bits >> 8);
            }
            return operands.tensor(type, bytes);
        }

        @Override
        public boolean hasInput(int i) {
            return i < inputs.size();
        }

        @Override
        public CudaTensor input(int i) {
            return inputs.get(i);
        }

        @Override
        public CudaTensor output(int j) {
            return outputs.get(j);
        }

        @Override
        public boolean hasUpstream(int j) {
            return j == 0;
        }

        @Override
        public CudaTensor upstream(int j) {
            return upstream;
        }

        @Override
        public boolean wantsGradient(int i) {
            return i < 3;
        }

        @Override
        public CudaTensor gradient(int i) {
            return gradients.get(i);
        }

        @Override
        public boolean accumulates(int i) {
            return false;
        }
    }
}
