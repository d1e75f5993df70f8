package dev.octet.trainer.device.cuda;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Half;
import dev.octet.quant.number.Overflow;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaProduct.Matrix;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream.Grid;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The emulator that tests of kernels rest on: it computes what a GPU does, and reports what is undefined there. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class HostGpuTest {
    private static final CudaSource SOURCE = CudaSource.of(HostGpuTest.class, "host_test.cu");

    private HostGpu gpu;

    @BeforeEach
    void open() {
        assumeTrue(HostGpu.absence().isEmpty(), () -> HostGpu.absence().orElseThrow());
        gpu = new HostGpu(HostGpu.Order.FORWARD);
    }

    @AfterEach
    void close() {
        if (gpu != null) {
            gpu.close();
        }
    }

    private long floats(float... values) {
        long at = gpu.allocate(4L * values.length, "numbers");
        gpu.write(at, MemorySegment.ofArray(values));
        return at;
    }

    private float[] read(long at, int n) {
        float[] values = new float[n];
        gpu.read(at, MemorySegment.ofArray(values));
        return values;
    }

    private static float[] numbers(int n, int seed) {
        SplittableRandom random = new SplittableRandom(seed);
        float[] x = new float[n];
        for (int i = 0; i < n; i++) {
            x[i] = (float) random.nextGaussian();
        }
        return x;
    }

    private void launch(String kernel, Grid grid, Object... arguments) {
        gpu.launch(SOURCE, kernel, grid, List.of(arguments)).run();
    }

    private String failure(String kernel, Grid grid, Object... arguments) {
        return message(() -> launch(kernel, grid, arguments));
    }

    private static String message(Runnable work) {
        return String.valueOf(
                assertThrows(IllegalStateException.class, work::run).getMessage());
    }

    @Test
    void arguments_of_all_types_arrive() {
        float[] x = numbers(150, 1);
        long y = gpu.allocate(4 * 150, "y");
        launch("line", Grid.of(3, 64), floats(x), y, 149L, 2.5f, 3, 0.25);
        float[] got = read(y, 150);
        for (int i = 0; i < 149; i++) {
            assertEquals(x[i] * 2.5f + 3 + 0.25f, got[i]);
        }
        assertEquals(0, got[149]);
    }

    @Test
    void arguments_of_other_types_and_larger_blocks_are_refused() {
        long y = gpu.allocate(4, "y");
        String types =
                String.valueOf(assertThrows(IllegalArgumentException.class, () -> launch("far", Grid.of(1, 32), y, 1))
                        .getMessage());
        assertTrue(types.contains("takes arguments ll, not li"), types);
        String threads =
                String.valueOf(assertThrows(IllegalArgumentException.class, () -> launch("far", Grid.of(1, 64), y, 1L))
                        .getMessage());
        assertTrue(threads.contains("at most 32 threads"), threads);
        assertThrows(IllegalArgumentException.class, () -> launch("none", Grid.of(1, 32)));
        assertThrows(
                IllegalArgumentException.class,
                () -> launch("past_dynamic", Grid.of(1, 32).withShared(300 << 10), 0));
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2, 77})
    void a_sum_over_a_block_is_the_sum_in_any_order(int seed) {
        try (HostGpu other = new HostGpu(new HostGpu.Order(seed))) {
            gpu.close();
            gpu = other;
            float[] x = new float[1000];
            for (int i = 0; i < x.length; i++) {
                x[i] = i - 300;
            }
            for (int threads : new int[] {32, 96, 256}) {
                long y = gpu.allocate(4, "y");
                launch("sum", Grid.of(1, threads), floats(x), y, x.length);
                assertEquals(199_500, read(y, 1)[0]);
            }
            gpu = new HostGpu(HostGpu.Order.FORWARD);
        }
    }

    @Test
    void shuffles_fetch_from_the_lanes_that_they_name() {
        float[] x = new float[32];
        Arrays.setAll(new Float[32], i -> x[i] = i + 100);
        long y = gpu.allocate(4 * 160, "y");
        launch("lanes", Grid.of(1, 32), floats(x), y);
        float[] got = read(y, 160);
        for (int i = 0; i < 32; i++) {
            assertEquals(100 + (i ^ 5), got[i]);
            assertEquals(100 + (i < 3 ? i : i - 3), got[32 + i]);
            assertEquals(100 + i * 7 % 32, got[64 + i]);
            assertEquals(100 + (i ^ 16), got[96 + i]);
            assertEquals(131 - i, got[128 + i]);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"bf16", "f16"})
    void a_product_of_tiles_is_the_plain_product(String type) {
        float[] a = new float[256];
        float[] b = new float[128];
        short[] aBits = halves(a, 3, type);
        short[] bBits = halves(b, 4, type);
        long at = gpu.allocate(512, "a");
        long bt = gpu.allocate(256, "b");
        gpu.write(at, MemorySegment.ofArray(aBits));
        gpu.write(bt, MemorySegment.ofArray(bBits));
        long d = gpu.allocate(512, "d");
        launch("product_" + type, Grid.of(1, 32).withShared(512), at, bt, d);
        float[] got = read(d, 128);
        for (int i = 0; i < 16; i++) {
            for (int j = 0; j < 8; j++) {
                double sum = 0;
                for (int k = 0; k < 16; k++) {
                    sum += (double) a[16 * i + k] * b[16 * j + k];
                }
                assertEquals(sum, got[8 * i + j], 1e-5);
            }
        }
    }

    private static short[] halves(float[] values, int seed, String type) {
        float[] x = numbers(values.length, seed);
        short[] bits = new short[x.length];
        for (int i = 0; i < x.length; i++) {
            bits[i] = type.equals("f16") ? Half.fromFloat(x[i]) : BFloat16.fromFloat(x[i]);
            values[i] = type.equals("f16") ? Half.toFloat(bits[i]) : BFloat16.toFloat(bits[i]);
        }
        return bits;
    }

    @Test
    void matrices_are_transposed_as_they_are_loaded() {
        short[] x = new short[256];
        for (int i = 0; i < 256; i++) {
            x[i] = (short) (i * 31);
        }
        long from = gpu.allocate(512, "x");
        long to = gpu.allocate(512, "y");
        gpu.write(from, MemorySegment.ofArray(x));
        launch("turned", Grid.of(1, 32), from, to);
        short[] y = new short[256];
        gpu.read(to, MemorySegment.ofArray(y));
        for (int i = 0; i < 256; i++) {
            assertEquals(x[i / 64 * 64 + i % 8 * 8 + i / 8 % 8], y[i]);
        }
    }

    @Test
    void codes_and_halves_are_octets_own() {
        SplittableRandom random = new SplittableRandom(5);
        float[] x = new float[65536 + 1_000_000];
        for (int i = 0; i < 65536; i++) {
            x[i] = Float.intBitsToFloat(i << 16);
        }
        for (int i = 65536; i < x.length; i++) {
            int bits = random.nextInt();
            // half of them in the range of the narrow types
            x[i] = Float.intBitsToFloat(i % 2 == 0 ? bits : (bits & 0x807FFFFF) | ((102 + random.nextInt(45)) << 23));
        }
        int n = x.length;
        long four = gpu.allocate(n, "e4m3");
        long five = gpu.allocate(n, "e5m2");
        long bf = gpu.allocate(2L * n, "bf16");
        long hf = gpu.allocate(2L * n, "f16");
        launch("codes", Grid.over(n, 256, 2), floats(x), four, five, bf, hf, (long) n);
        MemorySegment fours = MemorySegment.ofArray(new byte[n]);
        MemorySegment fives = MemorySegment.ofArray(new byte[n]);
        MemorySegment bfs = MemorySegment.ofArray(new short[n]);
        MemorySegment hfs = MemorySegment.ofArray(new short[n]);
        gpu.read(four, fours);
        gpu.read(five, fives);
        gpu.read(bf, bfs);
        gpu.read(hf, hfs);
        for (int i = 0; i < n; i++) {
            float value = x[i];
            int e4m3 = Float8Format.E4M3FN.encode(value, Overflow.SATURATE);
            int e5m2 = Float8Format.E5M2.encode(value, Overflow.SATURATE);
            if (e4m3 != (fours.getAtIndex(JAVA_BYTE, i) & 0xFF)
                    || e5m2 != (fives.getAtIndex(JAVA_BYTE, i) & 0xFF)
                    || !same(
                            BFloat16.toFloat(BFloat16.fromFloat(value)),
                            BFloat16.toFloat(bfs.getAtIndex(JAVA_SHORT, i)))
                    || !same(Half.toFloat(Half.fromFloat(value)), Half.toFloat(hfs.getAtIndex(JAVA_SHORT, i)))) {
                assertEquals(
                        Integer.toHexString(e4m3) + " " + Integer.toHexString(e5m2) + " " + BFloat16.fromFloat(value)
                                + " " + Half.fromFloat(value),
                        Integer.toHexString(fours.getAtIndex(JAVA_BYTE, i) & 0xFF) + " "
                                + Integer.toHexString(fives.getAtIndex(JAVA_BYTE, i) & 0xFF) + " "
                                + bfs.getAtIndex(JAVA_SHORT, i) + " " + hfs.getAtIndex(JAVA_SHORT, i),
                        "of " + Float.toHexString(value));
            }
        }
    }

    private static boolean same(float a, float b) {
        return Float.floatToIntBits(a) == Float.floatToIntBits(b);
    }

    @Test
    void values_of_codes_and_halves_are_octets_own() {
        long four = gpu.allocate(1024, "e4m3");
        long five = gpu.allocate(1024, "e5m2");
        long halves = gpu.allocate(4 * 65536, "f16");
        launch("values", Grid.of(256, 256), four, five, halves);
        assertArrayEquals(Float8Format.E4M3FN.decodeTable(), read(four, 256));
        assertArrayEquals(Float8Format.E5M2.decodeTable(), read(five, 256));
        float[] expected = new float[65536];
        for (int i = 0; i < expected.length; i++) {
            expected[i] = Half.toFloat((short) i);
        }
        assertArrayEquals(expected, read(halves, 65536));
    }

    @Test
    void a_barrier_that_part_of_a_block_misses_is_reported() {
        String message = failure("half_a_barrier", Grid.of(2, 64), gpu.allocate(256, "y"));
        assertTrue(message.contains("kernel half_a_barrier, block (0, 0, 0), thread 39"), message);
        assertTrue(message.contains("waits at a barrier of the block, and thread 63 has ended"), message);
        launch("far", Grid.of(1, 32), gpu.allocate(4, "y"), 0L); // the library is whole
    }

    @Test
    void lanes_that_part_before_a_shuffle_are_reported() {
        String missing = failure("half_a_shuffle", Grid.of(1, 64), gpu.allocate(256, "y"));
        assertTrue(missing.contains("waits for its warp at shuffle_xor(float), and thread 37 has ended"), missing);
        String other = failure("two_shuffles", Grid.of(1, 32), gpu.allocate(128, "y"));
        assertTrue(other.contains("shuffle_up(float)"), other);
    }

    @ParameterizedTest
    @ValueSource(longs = {-1, -64, 10, 70})
    void a_byte_written_outside_of_an_allocation_is_reported(long at) {
        long y = gpu.allocate(40, "activations");
        String message = failure("far", Grid.of(1, 32), y, at);
        assertTrue(message.contains("far wrote outside of an allocation: byte " + 4 * at), message);
        assertTrue(message.contains("activations, which has 40 bytes"), message);
        assertThrows(IllegalStateException.class, gpu::close);
        gpu = new HostGpu(HostGpu.Order.FORWARD); // close was the check
    }

    @Test
    void what_is_undefined_within_a_kernel_is_reported() {
        long y = gpu.allocate(256, "y");
        String index = failure("past_shared", Grid.of(1, 32), y, 8);
        assertTrue(index.contains("host_test.cu:") && index.contains("an index outside its array"), index);
        String dynamic = failure("past_dynamic", Grid.of(1, 32).withShared(64), 64);
        assertTrue(dynamic.contains("byte 0 behind the dynamic shared memory of 64 bytes"), dynamic);
        String aligned = failure("misaligned", Grid.of(1, 32), y, y, 1);
        assertTrue(aligned.contains("not a multiple of its element's alignment"), aligned);
        String overflow = failure("overflowing", Grid.of(1, 32), y, 40000);
        assertTrue(overflow.contains("a signed product overflows"), overflow);
        String global = failure("not_shared", Grid.of(1, 32), y, y);
        assertTrue(global.contains("must be in shared memory"), global);
    }

    @Test
    void asynchronous_copies_that_may_still_arrive_when_a_thread_ends_are_refused_in_every_order() {
        for (int seed : new int[] {0, 1, 77}) {
            gpu.close();
            gpu = new HostGpu(new HostGpu.Order(seed));
            long x = floats(numbers(128, 8));
            long y = gpu.allocate(256, "y");
            for (String kernel : List.of("uncommitted", "two_groups")) {
                String failed = failure(kernel, Grid.of(1, 32), x, y);
                assertTrue(failed.contains("not committed and waited for"), failed);
            }
            launch("early", Grid.of(1, 32), x, y);
        }
    }

    @Test
    void static_arrays_count_with_the_dynamic_bytes() {
        long y = gpu.allocate(4, "y");
        Grid grid = Grid.of(1, 32);
        launch("twenty_thousand_fixed", grid, y);
        launch("twenty_thousand_fixed", grid.withShared(40_000), y); // opted in
        IllegalArgumentException plain = assertThrows(
                IllegalArgumentException.class, () -> launch("twenty_thousand_fixed", grid.withShared(30_000), y));
        assertTrue(String.valueOf(plain.getMessage()).contains("more than 48 KiB"), plain.getMessage());
        IllegalArgumentException most = assertThrows(
                IllegalArgumentException.class, () -> launch("twenty_thousand_fixed", grid.withShared(220_000), y));
        assertTrue(String.valueOf(most.getMessage()).contains("a block has 232448"), most.getMessage());
    }

    @Test
    void shared_memory_holds_garbage_when_a_block_starts() {
        long y = gpu.allocate(24, "y");
        launch("garbage", Grid.of(3, 32).withShared(16), y);
        launch("garbage_of_templates", Grid.of(2, 32), y);
        int[] got = new int[6];
        gpu.read(y, MemorySegment.ofArray(got));
        assertArrayEquals(new int[] {0x77777777, 0x77777777, 0x77777777, 0x77777777, 0x77777777, 0x77777777}, got);
    }

    @Test
    void a_race_a_copy_not_waited_for_and_what_lies_outside_give_other_bits_in_another_order() {
        long x = floats(numbers(128, 8));
        long y = gpu.allocate(256, "y");
        launch("race", Grid.of(1, 64), y);
        float[] raced = read(y, 64);
        launch("early", Grid.of(1, 32), x, y);
        float[] early = read(y, 32);
        launch("read_far", Grid.of(1, 32), x, y, 128L);
        float far = read(y, 1)[0];
        gpu.close();
        gpu = new HostGpu(HostGpu.Order.BACKWARD);
        x = floats(numbers(128, 8));
        y = gpu.allocate(256, "y");
        launch("race", Grid.of(1, 64), y);
        assertNotEquals(Arrays.toString(raced), Arrays.toString(read(y, 64)));
        launch("early", Grid.of(1, 32), x, y);
        assertNotEquals(Arrays.toString(early), Arrays.toString(read(y, 32)));
        launch("read_far", Grid.of(1, 32), x, y, 128L);
        assertNotEquals(far, read(y, 1)[0]);
    }

    @Test
    void a_source_that_does_not_compile_shows_the_compilers_log() {
        CudaSource wrong = SOURCE.define("KERNEL_OF_NO_USE", "1").define("lane", "1 +");
        UnavailableException e =
                assertThrows(UnavailableException.class, () -> gpu.launch(wrong, "sum", Grid.of(1, 32), List.of()));
        assertTrue(String.valueOf(e.getMessage()).contains("error:"), e.getMessage());
    }

    @Test
    void a_graph_replays_what_was_captured_and_nothing_else_may_be_done_meanwhile() {
        long x = floats(1, 2, 3);
        long y = gpu.allocate(12, "y");
        Work copy = gpu.copy(x, y, 12);
        Work line = gpu.launch(SOURCE, "line", Grid.of(1, 64), List.of(y, x, 3L, 2f, 0, 0.0));
        Work graph = gpu.graph(List.of(copy, line));
        assertArrayEquals(new float[] {1, 2, 3}, read(x, 3));
        graph.run();
        graph.run();
        assertArrayEquals(new float[] {4, 8, 12}, read(x, 3));
        Work allocating = new Work() {
            @Override
            public void run() {
                gpu.allocate(4, "never");
            }

            @Override
            public String name() {
                return "allocating";
            }
        };
        assertTrue(message(() -> gpu.graph(List.of(allocating))).contains("while a graph is captured"));
    }

    @Test
    void memory_is_zero_and_what_lies_outside_is_refused() {
        long y = gpu.allocate(1000, "y");
        assertEquals(0, y % 256);
        assertArrayEquals(new float[250], read(y, 250));
        assertTrue(message(() -> read(y + 4, 250)).contains("are not within one allocation"));
        assertThrows(IllegalStateException.class, () -> gpu.zero(y - 4, 4));
        assertThrows(UnavailableException.class, () -> gpu.allocate(1L << 50, "all the text there is"));
        long free = gpu.freeBytes();
        gpu.release(y);
        assertEquals(free + 1000, gpu.freeBytes());
    }

    @Test
    void products_are_what_their_definition_says() {
        int m = 5;
        int n = 7;
        int k = 3;
        float[] a = numbers(2 * m * k, 1);
        float[] b = numbers(2 * k * n, 2);
        float[] bias = numbers(n, 3);
        for (int form = 0; form < 4; form++) {
            boolean ta = form % 2 == 1;
            boolean tb = form > 1;
            long d = floats(numbers(2 * m * n, 4));
            float[] before = read(d, 2 * m * n);
            CudaProduct product = CudaProduct.of(
                            ta,
                            tb,
                            m,
                            n,
                            k,
                            new Matrix(floats(a), DType.F32, ta ? m : k, (long) m * k),
                            new Matrix(floats(b), DType.F32, tb ? k : n, (long) k * n),
                            new Matrix(d, DType.F32, n, (long) m * n))
                    .batched(2)
                    .accumulating(true)
                    .withBias(floats(bias), DType.F32);
            gpu.product(product).run();
            float[] got = read(d, 2 * m * n);
            for (int i = 0; i < 2 * m * n; i++) {
                int r = i / n % m;
                int c = i % n;
                double sum = bias[c] + before[i];
                for (int l = 0; l < k; l++) {
                    sum += (double) a[i / (m * n) * m * k + (ta ? l * m + r : r * k + l)]
                            * b[i / (m * n) * k * n + (tb ? c * k + l : l * n + c)];
                }
                assertEquals(sum, got[i], 1e-5);
            }
        }
    }

    @Test
    void products_of_codes_are_scaled() {
        byte[] codes = new byte[16 * 16];
        Arrays.fill(codes, (byte) Float8Format.E4M3FN.encode(1.5f, Overflow.SATURATE));
        long a = gpu.allocate(256, "a");
        gpu.write(a, MemorySegment.ofArray(codes));
        Arrays.fill(codes, (byte) Float8Format.E5M2.encode(2f, Overflow.SATURATE));
        long b = gpu.allocate(256, "b");
        gpu.write(b, MemorySegment.ofArray(codes));
        long d = gpu.allocate(1024, "d");
        gpu.product(fp8(a, b, d, 16).scaled(floats(0.5f), floats(0.25f), true)).run();
        assertEquals(16 * 3 * 0.125f, read(d, 1)[0]);
    }

    private static CudaProduct fp8(long a, long b, long d, int k) {
        return CudaProduct.of(
                false,
                true,
                16,
                16,
                k,
                Matrix.of(a, DType.F8_E4M3FN, k),
                Matrix.of(b, DType.F8_E5M2, k),
                Matrix.of(d, DType.F32, 16));
    }

    @Test
    void products_that_cublasLt_refuses_are_refused() {
        long x = gpu.allocate(4096, "x");
        CudaProduct good = fp8(x, x + 512, x + 1024, 16);
        gpu.product(good).run();
        refused("k is a multiple of 16", fp8(x, x + 512, x + 1024, 8));
        refused("aligned to 16 bytes", fp8(x + 8, x + 512, x + 1024, 16));
        refused("F16 for F16 results, BF16 for others", good.withBias(x, DType.F32));
        Matrix e5m2 = Matrix.of(x, DType.F8_E5M2, 16);
        Matrix f32 = Matrix.of(x + 1024, DType.F32, 16);
        refused("not both operands are E5M2", CudaProduct.of(false, true, 16, 16, 16, e5m2, e5m2, f32));
        Matrix e4m3 = Matrix.of(x, DType.F8_E4M3FN, 16);
        refused("b transposed", CudaProduct.of(false, false, 16, 16, 16, e4m3, e4m3, f32));
        refused("one type", CudaProduct.of(false, true, 16, 16, 16, f32, Matrix.of(x, DType.BF16, 16), f32));
        refused("its leading dimension is less", CudaProduct.of(false, true, 16, 16, 17, f32, f32, f32));
        refused("F32 gives F32", CudaProduct.of(false, true, 4, 4, 4, f32, f32, Matrix.of(x, DType.BF16, 16)));
        try (HostGpu ampere = new HostGpu(HostGpu.Order.FORWARD, 80)) {
            assertThrows(IllegalArgumentException.class, () -> ampere.product(good));
        }
        Matrix past = Matrix.of(x + 4096 - 256, DType.F32, 16);
        assertThrows(
                IllegalStateException.class,
                () -> gpu.product(CudaProduct.of(false, true, 16, 16, 16, f32, f32, past)));
    }

    private void refused(String rule, CudaProduct product) {
        String message = String.valueOf(assertThrows(IllegalArgumentException.class, () -> gpu.product(product))
                .getMessage());
        assertTrue(message.contains(rule), message);
    }
}
