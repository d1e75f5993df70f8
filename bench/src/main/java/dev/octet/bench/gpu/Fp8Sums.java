package dev.octet.bench.gpu;

import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.trainer.device.cuda.Gpu;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaProduct.Matrix;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;

/**
 * What a GPU's FP8 units make of sums: small products of codes to F32, with and without fast accumulation, written bit by bit with their operands. From them follows how many bits a
 * sum keeps, and how often it is added to a sum in F32.
 */
final class Fp8Sums {
    private static final int ROWS = 32;
    private static final int[] LENGTHS = {32, 64, 128, 256, 512};

    /** Of a product large enough for another kernel, a corner is kept. */
    private static final int LARGE = 1024;

    private Fp8Sums() {}

    /** Writes a file with the tensors {@code a.CASE} [rows, k], {@code b.CASE} [rows, k] and {@code d.CASE} = a·bᵀ. */
    static Map<String, Object> write(Gpu gpu, Path file) throws IOException {
        Map<String, Tensor> tensors = new TreeMap<>();
        try (Arena arena = Arena.ofConfined()) {
            for (Float8Format left : new Float8Format[] {Float8Format.E4M3FN, Float8Format.E5M2}) {
                for (boolean wide : new boolean[] {false, true}) {
                    for (int k : LENGTHS) {
                        product(gpu, left, wide, ROWS, k, tensors, arena);
                    }
                }
                product(gpu, left, false, LARGE, LARGE, tensors, arena);
            }
            SafetensorsWriter.write(
                    file,
                    tensors,
                    Map.of("gpu", gpu.info().name(), "versions", gpu.info().versions()));
        }
        return Map.of("file", file.toString(), "tensors", tensors.size());
    }

    private static void product(
            Gpu gpu, Float8Format left, boolean wide, int n, int k, Map<String, Tensor> tensors, Arena arena) {
        String operands = left.dtype().name().toLowerCase(Locale.ROOT) + (wide ? ".wide" : ".normal") + "." + k;
        MemorySegment a = codes(left, wide, n * k, 7 * k + 1, arena);
        MemorySegment b = codes(Float8Format.E4M3FN, wide, n * k, 7 * k + 2, arena);
        keep(tensors, "a." + operands, left.dtype(), k, a);
        keep(tensors, "b." + operands, DType.F8_E4M3FN, k, b);
        long first = gpu.allocate(a.byteSize(), "a");
        long second = gpu.allocate(b.byteSize(), "b");
        long result = gpu.allocate((long) n * n * Float.BYTES, "d");
        long one = Noise.one(gpu);
        gpu.write(first, a);
        gpu.write(second, b);
        for (boolean fast : new boolean[] {false, true}) {
            CudaProduct product = CudaProduct.of(
                            false,
                            true,
                            n,
                            n,
                            k,
                            Matrix.of(first, left.dtype(), k),
                            Matrix.of(second, DType.F8_E4M3FN, k),
                            Matrix.of(result, DType.F32, n))
                    .scaled(one, one, fast);
            gpu.product(product).run();
            MemorySegment d = arena.allocate((long) n * n * Float.BYTES, 64);
            gpu.read(result, d);
            MemorySegment corner = arena.allocate((long) ROWS * ROWS * Float.BYTES, 64);
            for (int r = 0; r < ROWS; r++) {
                MemorySegment.copy(
                        d, (long) r * n * Float.BYTES, corner, (long) r * ROWS * Float.BYTES, (long) ROWS * Float.BYTES);
            }
            keep(tensors, "d." + operands + (fast ? ".fast" : ".split"), DType.F32, ROWS, corner);
        }
        for (long address : new long[] {first, second, result, one}) {
            gpu.release(address);
        }
    }

    private static void keep(Map<String, Tensor> tensors, String name, DType type, int columns, MemorySegment bytes) {
        long width = type.bits() / 8;
        TensorSpec spec = new TensorSpec(name, type, Shape.of(ROWS, columns));
        tensors.put(name, new Tensor(spec, bytes.asSlice(0, width * ROWS * columns)));
    }

    /** Normal numbers, or any codes but NaN and infinities: with exponents from the lowest to the highest. */
    private static MemorySegment codes(Float8Format format, boolean wide, int count, int seed, Arena arena) {
        SplittableRandom random = new SplittableRandom(seed);
        MemorySegment codes = arena.allocate(count, 64);
        for (int i = 0; i < count; i++) {
            int code;
            do {
                code = wide
                        ? random.nextInt(256)
                        : format.encode((float) random.nextGaussian() * 8, Overflow.SATURATE);
            } while (!Float.isFinite(format.decode(code)));
            codes.set(ValueLayout.JAVA_BYTE, i, (byte) code);
        }
        return codes;
    }
}
