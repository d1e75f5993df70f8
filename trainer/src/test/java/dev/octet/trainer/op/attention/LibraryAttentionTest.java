package dev.octet.trainer.op.attention;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.device.cuda.CudaOperands;
import dev.octet.trainer.device.cuda.Gpu;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.kernel.CudaAttention;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.op.GivenFrame;
import dev.octet.trainer.op.attention.AttentionOperands.Size;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Attention by the vendor's library beside that of the kernels: by an interface of it on this processor, and by cuDNN on a GPU. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("emulated")
class LibraryAttentionTest {
    private static final AttentionCuda ATTENTION = new AttentionCuda();
    private static final int RUNS = 10;

    static Stream<Size> sizes() {
        return Stream.of(
                size("heads of 64, causal", DType.BF16, 2, 2, 2, 70, 70, 64, true),
                size("heads of 80", DType.BF16, 1, 2, 2, 33, 33, 80, false),
                size("heads of 128 in F16, more keys", DType.F16, 1, 1, 1, 20, 50, 128, false),
                size("grouped, causal", DType.BF16, 2, 4, 2, 40, 40, 64, true),
                packed(size("parts of one tensor, causal", DType.BF16, 2, 2, 2, 40, 40, 64, true)),
                packed(size("parts of one tensor, grouped", DType.F16, 2, 4, 1, 24, 24, 32, false)),
                size("padding at the end", DType.BF16, 2, 2, 2, 40, 40, 64, false)
                        .masked(lengths(40, 40, 23)),
                packed(size("padding at the end, causal", DType.F16, 2, 2, 2, 40, 40, 64, true))
                        .masked(lengths(40, 17, 40)));
    }

    private static Size size(
            String name,
            DType type,
            int batch,
            int heads,
            int keyHeads,
            int queries,
            int keys,
            int head,
            boolean causal) {
        return new Size(name, type, batch, heads, keyHeads, queries, keys, head, causal, null, false);
    }

    private static Size packed(Size s) {
        return new Size(
                s.name(),
                s.type(),
                s.batch(),
                s.heads(),
                s.keyHeads(),
                s.queries(),
                s.keys(),
                s.head(),
                s.causal(),
                s.mask(),
                true);
    }

    /** Of each sample so many keys are there. */
    private static byte[] lengths(int keys, int... there) {
        byte[] mask = new byte[keys * there.length];
        for (int b = 0; b < there.length; b++) {
            Arrays.fill(mask, b * keys, b * keys + there[b], (byte) 1);
        }
        return mask;
    }

    /** What is written: y, sums and gradients. */
    private static List<double[]> results(Gpu gpu, Size size, UnaryOperator<AttentionOperands> wanting) {
        try (CudaOperands operands = new CudaOperands(gpu)) {
            AttentionOperands given = wanting.apply(AttentionOperands.of(size, operands));
            Attention op = size.op();
            operands.run(cuda -> ATTENTION.forward(op, given.frame(), cuda));
            operands.run(cuda -> ATTENTION.backward(op, given.frame(), cuda));
            return given.written().stream().map(operands::numbers).toList();
        }
    }

    private static List<double[]> results(Gpu gpu, Size size) {
        return results(gpu, size, frame -> frame);
    }

    /** Probabilities, and backward their gradients, are rounded to the operands' type beside other maxima; sums are F32. */
    private static void assertAlike(Size size, List<double[]> expected, List<double[]> actual) {
        assertEquals(expected.size(), actual.size());
        double step = size.type() == DType.F16 ? 0x1p-9 : 0x1p-6;
        for (int i = 0; i < expected.size(); i++) {
            double largest = Arrays.stream(expected.get(i))
                    .map(Math::abs)
                    .filter(Double::isFinite)
                    .max()
                    .orElseThrow();
            double tolerance = i == 1 ? 1e-5 : step;
            assertArrayEquals(expected.get(i), actual.get(i), tolerance * largest, size + ", tensor " + i);
        }
    }

    @Tag("kernels")
    @ParameterizedTest
    @MethodSource("sizes")
    void the_library_computes_what_the_kernels_do(Size size) {
        List<CudaAttention> asked = new ArrayList<>();
        List<double[]> actual = results(TestGpus.rememberingAttention(TestGpus.hostWithCudnn(), asked), size);
        assertEquals(
                List.of(false, true),
                asked.stream().map(CudaAttention::isBackward).toList());
        assertAlike(size, results(TestGpus.host(), size), actual);
    }

    /** A sample without keys; keys that are missing at the beginning, so that the first queries of a causal sample see none; a hole. */
    @Tag("kernels")
    @Test
    void rows_that_see_no_key_are_zero_and_have_no_gradient() {
        byte[] mask = lengths(40, 40, 0, 40);
        Arrays.fill(mask, 80, 85, (byte) 0);
        mask[90] = 0;
        for (boolean causal : new boolean[] {false, true}) {
            Size size = size("rows that see nothing", DType.BF16, 3, 2, 2, 40, 40, 64, causal)
                    .masked(mask);
            List<double[]> actual = results(TestGpus.hostWithCudnn(), size);
            assertAlike(size, results(TestGpus.host(), size), actual);
            int sample = 40 * 2 * 64;
            assertArrayEquals(new double[sample], Arrays.copyOfRange(actual.getFirst(), sample, 2 * sample));
            assertEquals(Double.NEGATIVE_INFINITY, actual.get(1)[2 * 40]);
        }
    }

    @Test
    void what_the_library_refuses_the_kernels_compute() {
        // 13 queries, which the interface on this processor refuses
        Size size = size("refused", DType.BF16, 1, 2, 2, 13, 13, 64, true);
        List<CudaAttention> asked = new ArrayList<>();
        List<double[]> actual = results(TestGpus.rememberingAttention(TestGpus.hostWithCudnn(), asked), size);
        assertEquals(List.of(), asked);
        List<double[]> expected = results(TestGpus.host(), size);
        for (int i = 0; i < expected.size(); i++) {
            assertArrayEquals(expected.get(i), actual.get(i), 0.0);
        }
    }

    /** Statistics are the same, so forward may be the library's and backward the kernels'. */
    @Tag("kernels")
    @Test
    void a_gradient_alone_is_the_kernels_behind_the_librarys_forward() {
        Size size = size("dq alone", DType.BF16, 2, 2, 2, 70, 70, 64, true).masked(lengths(70, 70, 31));
        List<CudaAttention> asked = new ArrayList<>();
        List<double[]> actual = results(
                TestGpus.rememberingAttention(TestGpus.hostWithCudnn(), asked),
                size,
                frame -> frame.wanting(true, false, false));
        assertEquals(
                List.of(false), asked.stream().map(CudaAttention::isBackward).toList());
        List<double[]> expected = results(TestGpus.host(), size);
        assertAlike(size, expected.subList(0, 3), actual.subList(0, 3));
    }

    /** The sizes of the bench's steps. */
    static Stream<Size> sizesOfSteps() {
        return Stream.of(
                packed(size("GPT-2 124M", DType.BF16, 32, 12, 12, 1024, 1024, 64, true))
                        .masked(lengths(
                                1024, IntStream.generate(() -> 1024).limit(32).toArray())),
                packed(size("ViT-Huge/14", DType.BF16, 64, 16, 16, 257, 257, 80, false)),
                size("Llama 3.2 1B", DType.BF16, 8, 32, 8, 2048, 2048, 64, true),
                packed(size("BERT-base", DType.BF16, 32, 12, 12, 512, 512, 64, false))
                        .masked(lengths(
                                512,
                                IntStream.range(0, 32).map(i -> 512 - 8 * i).toArray())),
                size("heads of 128", DType.BF16, 4, 16, 16, 1024, 1024, 128, true));
    }

    /** And in the same bits a second time. */
    @Tag("gpu")
    @ParameterizedTest
    @MethodSource("sizesOfSteps")
    void cudnn_on_the_gpu_computes_what_the_kernels_do(Size steps) {
        Size size = steps.ofSamples(2);
        List<double[]> expected = results(TestGpus.shared(), size);
        try (Gpu cudnn = TestGpus.realWithCudnn()) {
            List<CudaAttention> asked = new ArrayList<>();
            Gpu open = TestGpus.open(TestGpus.rememberingAttention(cudnn, asked));
            List<double[]> actual = results(open, size);
            assertEquals(2, asked.size(), () -> size + ": cuDNN refuses it, the log has its reason");
            assertAlike(size, expected, actual);
            List<double[]> again = results(open, size);
            for (int i = 0; i < actual.size(); i++) {
                assertArrayEquals(actual.get(i), again.get(i), 0.0, size + ", tensor " + i + " has other bits");
            }
        }
    }

    /** Prints how long each takes. What the library needs for one that it computes slower than the kernels would be for nothing: decision 34. */
    @Tag("gpu")
    @ParameterizedTest
    @MethodSource("sizesOfSteps")
    void cudnn_on_the_gpu_takes_no_longer_than_the_kernels(Size size) {
        Map<String, Double> kernels = micros(TestGpus.shared(), size);
        try (Gpu cudnn = TestGpus.realWithCudnn()) {
            Map<String, Double> library = micros(TestGpus.open(cudnn), size);
            String table =
                    String.format(Locale.ROOT, "%s, microseconds%n kernels %s%n cuDNN   %s%n", size, kernels, library);
            System.out.println(table);
            assertTrue(sum(library) <= sum(kernels), table);
        }
    }

    private static double sum(Map<String, Double> micros) {
        return micros.values().stream().mapToDouble(x -> x).sum();
    }

    private static Map<String, Double> micros(Gpu gpu, Size size) {
        try (CudaOperands operands = new CudaOperands(gpu)) {
            GivenFrame<CudaTensor> frame = AttentionOperands.of(size, operands).frame();
            Attention op = size.op();
            return operands.microseconds(
                    cuda -> {
                        ATTENTION.forward(op, frame, cuda);
                        ATTENTION.backward(op, frame, cuda);
                    },
                    RUNS);
        }
    }
}
