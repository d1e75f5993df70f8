package dev.octet.trainer.device.cuda;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.DeviceLostException;
import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.BFloat16;
import dev.octet.trainer.kernel.CudaAttention;
import dev.octet.trainer.kernel.CudaAttention.Rows;
import dev.octet.trainer.kernel.CudaAttention.Shape;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaProduct.Matrix;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream.Grid;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;

/** What {@link FakeGpuTest} runs in a JVM of its own: once a process has loaded a driver, it has no other. */
final class FakeGpuRun {
    private static final CudaSource SOURCE = CudaSource.of(FakeGpuRun.class, "good.cu");
    private static final int ONE = 0x38; // E4M3
    private static final int TWO = 0x40; // E4M3 and E5M2

    private FakeGpuRun() {}

    /** Its words: what to run, and the folder of the cache; for {@code find} a third where cuDNN is asked for. */
    public static void main(String... words) {
        Path cache = Path.of(words[1]);
        switch (words[0]) {
            case "find" -> {
                switch (Gpus.find(0, new GpuOptions(false, true, words.length > 2, cache))) {
                    case GpuSearch.Ready r -> {
                        System.out.println("ready: " + r.gpu().info());
                        r.gpu().close();
                    }
                    case GpuSearch.Unfit u ->
                        System.out.println("unfit: " + u.what() + "\n" + u.where() + "\n" + u.fix());
                }
                System.out.println(Gpus.report());
                System.out.println("temporary files: " + System.getProperty("java.io.tmpdir"));
            }
            case "attention" -> {
                try (Gpu gpu = open(cache)) {
                    attention(gpu);
                }
            }
            case "work" -> {
                try (Gpu gpu = open(cache)) {
                    memory(gpu);
                    launches(gpu);
                    graphs(gpu);
                    products(gpu);
                    refusals(gpu);
                }
                try (Gpu again = open(cache)) {
                    product(again, DType.F32, false, false, 3, 4, 5, 1, false, false);
                }
                lost(cache);
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
        System.out.println("passed");
    }

    private static Gpu open(Path cache) {
        CudaLibraries libraries = CudaLibraries.ofSystem();
        Driver driver = Driver.start(libraries);
        KernelCompiler elf = new KernelCompiler() {
            @Override
            public String version() {
                return "fake 1";
            }

            @Override
            public Set<Integer> architectures() {
                return Set.of(90);
            }

            @Override
            public byte[] compile(CudaSource source, ComputeCapability architecture) {
                return new byte[] {0x7f, 'E', 'L', 'F'};
            }
        };
        GpuInfo info = driver.info(0, "fake");
        assertEquals(new GpuInfo(0, "Fake GPU", 90, 132, 256L << 20, "fake"), info);
        return new JcudaGpu(new JcudaGpu.Parts(
                info,
                new GpuContext(driver.device(0), "cuda:0, Fake GPU"),
                new Kernels(
                        new KernelCompilers(Optional.of(elf), "here", List.of()),
                        new KernelCache(cache),
                        info.capability()),
                232448,
                CublasLt.of(
                        libraries.find(CudaLibrary.CUBLAS_LT, driver.major()).orThrow()),
                libraries.find(CudaLibrary.CUDNN) instanceof LibrarySearch.Found f ? Cudnn.of(f.loaded()) : null,
                GpuClock.of(libraries, driver.busId(driver.device(0))),
                new GpuOptions(false, true, false, cache)));
    }

    private static MemorySegment bytes(int count, long seed) {
        byte[] bytes = new byte[count];
        new SplittableRandom(seed).nextBytes(bytes);
        return MemorySegment.ofArray(bytes);
    }

    private static byte[] read(Gpu gpu, long address, int count) {
        byte[] bytes = new byte[count];
        gpu.read(address, MemorySegment.ofArray(bytes));
        return bytes;
    }

    private static void memory(Gpu gpu) {
        long before = gpu.freeBytes();
        // pieces of 8 MiB pass: none, less than one, one, several, several and a bit
        for (int count : new int[] {0, 1, 8 << 20, 16 << 20, (24 << 20) + 3}) {
            long address = gpu.allocate(count, "a test");
            assertEquals(0, address % 256);
            assertArrayEquals(new byte[count], read(gpu, address, count));
            MemorySegment sent = bytes(count, count);
            gpu.write(address, sent);
            assertArrayEquals(sent.toArray(ValueLayout.JAVA_BYTE), read(gpu, address, count));
            gpu.release(address);
        }
        assertEquals(before, gpu.freeBytes());

        long a = gpu.allocate(1000, "a");
        long b = gpu.allocate(1000, "b");
        MemorySegment in = gpu.pinned(1000);
        MemorySegment out = gpu.pinned(1000);
        assertArrayEquals(new byte[1000], out.toArray(ValueLayout.JAVA_BYTE));
        Work upload = gpu.upload(in, a);
        MemorySegment later = bytes(1000, 7);
        in.copyFrom(later); // read when the work runs
        upload.run();
        gpu.copy(a, b, 1000).run();
        gpu.zero(b + 100, 13).run();
        gpu.zero(b + 200, 16).run();
        gpu.download(b, out).run();
        gpu.synchronize();
        byte[] expected = later.toArray(ValueLayout.JAVA_BYTE);
        Arrays.fill(expected, 100, 113, (byte) 0);
        Arrays.fill(expected, 200, 216, (byte) 0);
        assertArrayEquals(expected, out.toArray(ValueLayout.JAVA_BYTE));
        assertEquals(2000, gpu.copy(a, b, 1000).bytes());

        UnavailableException e =
                assertThrows(UnavailableException.class, () -> gpu.allocate(1L << 40, "the activations"));
        assertTrue(e.what().startsWith("the activations takes 1048576 MiB of the GPU's memory, "), e.what());
        assertTrue(e.what().endsWith(" of 256 MiB are free"), e.what());
        assertThrows(IllegalArgumentException.class, () -> gpu.release(12345));
    }

    private static float[] floats(Gpu gpu, long address, int count) {
        return MemorySegment.ofArray(read(gpu, address, 4 * count)).toArray(ValueLayout.JAVA_FLOAT_UNALIGNED);
    }

    private static Work mix(Gpu gpu, long to, int add) {
        return gpu.launch(SOURCE, "mix", new Grid(5, 4, 3, 64, 0), List.of(to, 3L, add, 2.5f, 0.25));
    }

    private static void launches(Gpu gpu) {
        long x = gpu.allocate(12, "x");
        Work work = mix(gpu, x, 4);
        assertArrayEquals(new float[3], floats(gpu, x, 3)); // nothing runs before it is told to
        work.run();
        float first = 4 * 2.5f + 0.25f + 5000 + 400 + 30 + 2;
        assertArrayEquals(new float[] {first, first, first}, floats(gpu, x, 3));
        work.run();
        assertEquals((first + 4) * 2.5f + 0.25f + 5432, floats(gpu, x, 3)[1]);
        // 40000 bytes and the kernel's static arrays are more than a launch has without opt-in
        for (int shared : new int[] {40_000, 100_000}) {
            gpu.launch(SOURCE, "mix", new Grid(1, 1, 1, 32, shared), List.of(x, 3L, 0, 0f, 0.0))
                    .run();
            assertEquals(1000 + 100 + 10 + 1, floats(gpu, x, 3)[2]);
        }
    }

    private static void graphs(Gpu gpu) {
        long x = gpu.allocate(12, "x");
        long y = gpu.allocate(12, "y");
        MemorySegment in = gpu.pinned(12);
        Work inner = gpu.graph(List.of(gpu.upload(in, x), mix(gpu, x, 1)));
        Work graph = gpu.graph(List.of(inner, gpu.copy(x, y, 12), gpu.zero(x, 12)));
        assertArrayEquals(new float[3], floats(gpu, y, 3));
        for (float value : new float[] {3, 8}) {
            in.copyFrom(MemorySegment.ofArray(new float[] {value, value, value}));
            graph.run();
            assertEquals((value + 1) * 2.5f + 0.25f + 5432, floats(gpu, y, 3)[2]);
            assertArrayEquals(new float[3], floats(gpu, x, 3));
        }
        graph.close();
        inner.close();
        // what fails while it is recorded leaves the stream as it was
        Work broken = gpu.launch(SOURCE, "mix", new Grid(1, 1, 1, 32, 0), List.of(x, 3L, 0, 0f, 0.0));
        Work failing = new Work() {
            @Override
            public void run() {
                throw new IllegalStateException("on purpose");
            }

            @Override
            public String name() {
                return "failing";
            }
        };
        assertThrows(IllegalStateException.class, () -> gpu.graph(List.of(broken, failing)));
        gpu.synchronize();
        assertArrayEquals(new float[3], floats(gpu, x, 3));
    }

    /** With one key its values are the result, and the logarithm of the sum is the score. */
    private static void attention(Gpu gpu) {
        float[] q = {1, 2, 3, 4, 5, 6, 7, 8};
        float[] v = {8, 7, 6, 5, 4, 3, 2, 1};
        long ofQ = put(gpu, encode(DType.BF16, q));
        long ofK = put(gpu, encode(DType.BF16, new float[] {1, 0, 0, 0, 0, 0, 0, 0}));
        long ofV = put(gpu, encode(DType.BF16, v));
        long y = gpu.allocate(16, "y");
        long sums = gpu.allocate(4, "sums");
        CudaAttention a = new CudaAttention(
                DType.BF16,
                new Shape(1, 1, 1, 1, 1, 8),
                false,
                0.5f,
                new Rows(ofQ, 8, 8, 8),
                new Rows(ofK, 8, 8, 8),
                new Rows(ofV, 8, 8, 8),
                new Rows(y, 8, 8, 8),
                sums,
                0,
                null);
        long workspace = gpu.allocate(gpu.attentionBytes(a).orElseThrow(), "a workspace");
        Work work = gpu.attention(a, workspace);
        assertEquals("attention forward bf16 1x1x1x1x8", work.name());
        assertArrayEquals(new byte[16], read(gpu, y, 16)); // nothing runs before it is told to
        work.run();
        assertArrayEquals(v, decode(DType.BF16, read(gpu, y, 16)));
        assertArrayEquals(new float[] {0.5f}, floats(gpu, sums, 1));
        work.close();
    }

    private static void products(Gpu gpu) {
        for (DType type : List.of(DType.F32, DType.BF16)) {
            for (boolean transposeA : new boolean[] {false, true}) {
                for (boolean transposeB : new boolean[] {false, true}) {
                    product(gpu, type, transposeA, transposeB, 3, 4, 5, 1, false, false);
                    product(gpu, type, transposeA, transposeB, 2, 6, 3, 3, true, true);
                }
            }
        }
        fp8(gpu);
    }

    private static byte[] encode(DType type, float[] values) {
        byte[] bytes = new byte[values.length * type.bits() / 8];
        MemorySegment segment = MemorySegment.ofArray(bytes);
        for (int i = 0; i < values.length; i++) {
            if (type == DType.F32) {
                segment.set(ValueLayout.JAVA_FLOAT_UNALIGNED, 4L * i, values[i]);
            } else {
                segment.set(ValueLayout.JAVA_SHORT_UNALIGNED, 2L * i, BFloat16.fromFloat(values[i]));
            }
        }
        return bytes;
    }

    private static float[] decode(DType type, byte[] bytes) {
        MemorySegment segment = MemorySegment.ofArray(bytes);
        if (type == DType.F32) {
            return segment.toArray(ValueLayout.JAVA_FLOAT_UNALIGNED);
        }
        float[] values = new float[bytes.length / 2];
        for (int i = 0; i < values.length; i++) {
            values[i] = BFloat16.toFloat(segment.get(ValueLayout.JAVA_SHORT_UNALIGNED, 2L * i));
        }
        return values;
    }

    private static long put(Gpu gpu, byte[] bytes) {
        long address = gpu.allocate(bytes.length, "an operand");
        gpu.write(address, MemorySegment.ofArray(bytes));
        return address;
    }

    private static float[] small(int count, long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        float[] values = new float[count];
        for (int i = 0; i < count; i++) {
            values[i] = random.nextInt(-2, 3);
        }
        return values;
    }

    /** Row-major, with rows longer than their elements; small whole numbers, so every sum is exact. */
    private static void product(
            Gpu gpu,
            DType type,
            boolean transposeA,
            boolean transposeB,
            int m,
            int n,
            int k,
            int batch,
            boolean bias,
            boolean added) {
        int leadingA = (transposeA ? m : k) + 1;
        int leadingB = (transposeB ? k : n) + 2;
        int leadingD = n + 3;
        int strideA = leadingA * 8;
        int strideB = leadingB * 8;
        int strideD = leadingD * m;
        float[] a = small(strideA * batch, 1);
        float[] b = small(strideB * batch, 2);
        float[] d = small(strideD * batch, 3);
        float[] c = small(n, 4);
        long at = put(gpu, encode(type, d));
        CudaProduct p = CudaProduct.of(
                        transposeA,
                        transposeB,
                        m,
                        n,
                        k,
                        new Matrix(put(gpu, encode(type, a)), type, leadingA, strideA),
                        new Matrix(put(gpu, encode(type, b)), type, leadingB, strideB),
                        new Matrix(at, type, leadingD, strideD))
                .batched(batch)
                .accumulating(added)
                .withBias(bias ? put(gpu, encode(type, c)) : 0, type);
        Work work = gpu.product(p);
        float[] expected = d.clone();
        for (int i = 0; i < batch; i++) {
            for (int row = 0; row < m; row++) {
                for (int col = 0; col < n; col++) {
                    float sum = bias ? c[col] : 0;
                    for (int j = 0; j < k; j++) {
                        float x = a[i * strideA + (transposeA ? j * leadingA + row : row * leadingA + j)];
                        float y = b[i * strideB + (transposeB ? col * leadingB + j : j * leadingB + col)];
                        sum += x * y;
                    }
                    int where = i * strideD + row * leadingD + col;
                    expected[where] = sum + (added ? d[where] : 0);
                }
            }
        }
        byte[] before = read(gpu, at, d.length * type.bits() / 8);
        assertArrayEquals(d, decode(type, before), "measuring must not touch the result");
        work.run();
        assertArrayEquals(expected, decode(type, read(gpu, at, before.length)), p.toString());
        work.close();
    }

    private static void fp8(Gpu gpu) {
        byte[] a = new byte[3 * 16];
        byte[] b = new byte[8 * 16];
        Arrays.fill(a, (byte) ONE);
        Arrays.fill(b, (byte) TWO);
        b[16] = 0; // row 1 of b, as it lies: column 1 of the result
        long d = gpu.allocate(3 * 8 * 2, "d");
        long scales = put(gpu, encode(DType.F32, new float[] {0.5f, 3}));
        CudaProduct p = CudaProduct.of(
                        false,
                        true,
                        3,
                        8,
                        16,
                        Matrix.of(put(gpu, a), DType.F8_E4M3FN, 16),
                        Matrix.of(put(gpu, b), DType.F8_E5M2, 16),
                        Matrix.of(d, DType.BF16, 8))
                .scaled(scales, scales + 4, true);
        gpu.product(p).run();
        float[] result = decode(DType.BF16, read(gpu, d, 3 * 8 * 2));
        assertEquals(16 * 2 * 0.5f * 3, result[0]);
        assertEquals(15 * 2 * 0.5f * 3, result[1]);
        assertEquals(15 * 2 * 0.5f * 3, result[9]);
        Work again = gpu.product(p);
        assertEquals("product e4m3*e5m2 3x8x16", again.name());
        gpu.write(d, MemorySegment.ofArray(new byte[3 * 8 * 2]));
        runInAnotherThread(again);
        assertArrayEquals(result, decode(DType.BF16, read(gpu, d, 3 * 8 * 2)));
        assertTrue(gpu.computes(p));
        // of codes with thirteen rows the fake library has no algorithm, though no rule is broken
        assertFalse(gpu.computes(CudaProduct.of(
                false,
                true,
                13,
                16,
                16,
                Matrix.of(p.a().address(), DType.F8_E4M3FN, 16),
                Matrix.of(p.b().address(), DType.F8_E5M2, 16),
                Matrix.of(d, DType.BF16, 16))));
        assertFalse(gpu.computes(CudaProduct.of(false, true, 3, 8, 15, p.a(), p.b(), p.d())), "k");
    }

    /** A context is current in one thread; works make it so in theirs. */
    private static void runInAnotherThread(Work work) {
        List<RuntimeException> thrown = new ArrayList<>();
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (RuntimeException e) {
                thrown.add(e);
            }
        });
        thread.start();
        try {
            thread.join();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
        assertEquals(List.of(), thrown);
    }

    private static void refusals(Gpu gpu) {
        long x = gpu.allocate(4096, "x");
        UnavailableException e = assertThrows(
                UnavailableException.class,
                () -> gpu.product(CudaProduct.of(
                        false,
                        true,
                        3,
                        8,
                        15,
                        Matrix.of(x, DType.F8_E4M3FN, 16),
                        Matrix.of(x, DType.F8_E4M3FN, 16),
                        Matrix.of(x, DType.BF16, 8))));
        assertEquals("cublasLt does not compute product e4m3 3x8x15: k is a multiple of 16 in FP8", e.what());
        // of this shape the fake library has no algorithm
        e = assertThrows(
                UnavailableException.class,
                () -> gpu.product(CudaProduct.of(
                        false,
                        false,
                        3,
                        13,
                        5,
                        Matrix.of(x, DType.F32, 5),
                        Matrix.of(x, DType.F32, 13),
                        Matrix.of(x, DType.F32, 13))));
        assertEquals("cublasLt 13.1.0 has no algorithm for product f32 3x13x5 on Fake GPU", e.what());
        assertThrows(
                IllegalArgumentException.class, () -> gpu.launch(SOURCE, "no_such_kernel", Grid.of(1, 32), List.of()));
        e = assertThrows(
                UnavailableException.class,
                () -> gpu.launch(SOURCE, "mix", Grid.of(1, 32).withShared(300_000), List.of()));
        assertEquals("mix needs 300000 bytes of shared memory, but a block of this GPU has 232448", e.what());
        try (Arena arena = Arena.ofConfined()) {
            assertThrows(
                    IllegalArgumentException.class,
                    () -> gpu.upload(MemorySegment.ofArray(new byte[4]), x).run());
            gpu.upload(arena.allocate(4), x).run();
        }
    }

    private static void lost(Path cache) {
        Gpu gpu = open(cache);
        gpu.launch(SOURCE, "lose", Grid.of(1, 32), List.of()).run();
        DeviceLostException e = assertThrows(DeviceLostException.class, gpu::synchronize);
        assertEquals(
                "cuStreamSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS (700), caused by an earlier kernel", e.what());
        assertEquals("cuda:0, Fake GPU", e.where());
        assertTrue(e.fix().contains("--resume"), e.fix());
        gpu.close(); // nothing more can go wrong
    }
}
