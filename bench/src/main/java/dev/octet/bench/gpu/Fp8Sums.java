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

    /** What operands are made of. */
    private enum Made {
        /** Normal numbers. */
        NORMAL,
        /** Any codes but NaN and infinities: exponents from the lowest to the highest. */
        WIDE,
        /** Subnormal numbers, zeros, and those just above: the right operand is {@link #WIDE}. */
        SMALL
    }

    /** Scales that are no powers of two, for the order in which they are multiplied. */
    private static final float LEFT_SCALE = 1.1f;

    private static final float RIGHT_SCALE = 0.7f;

    /** Of a product large enough for another kernel, a corner is kept. */
    private static final int LARGE = 1024;

    private Fp8Sums() {}

    /** Writes a file with the tensors {@code a.CASE} [rows, k], {@code b.CASE} [rows, k] and {@code d.CASE} = a·bᵀ. */
    static Map<String, Object> write(Gpu gpu, Path file) throws IOException {
        Map<String, Tensor> tensors = new TreeMap<>();
        try (Arena arena = Arena.ofConfined()) {
            for (Float8Format left : new Float8Format[] {Float8Format.E4M3FN, Float8Format.E5M2}) {
                for (Made made : Made.values()) {
                    for (int k : LENGTHS) {
                        product(gpu, left, made, ROWS, k, tensors, arena);
                    }
                }
                product(gpu, left, Made.NORMAL, LARGE, LARGE, tensors, arena);
            }
            SafetensorsWriter.write(
                    file,
                    tensors,
                    Map.of("gpu", gpu.info().name(), "versions", gpu.info().versions()));
        }
        return Map.of("file", file.toString(), "tensors", tensors.size());
    }

    private static void product(
            Gpu gpu, Float8Format left, Made made, int n, int k, Map<String, Tensor> tensors, Arena arena) {
        String operands =
                left.dtype().name().toLowerCase(Locale.ROOT) + "." + made.name().toLowerCase(Locale.ROOT) + "." + k;
        MemorySegment a = codes(left, made, n * k, 7 * k + 1, arena);
        MemorySegment b = codes(Float8Format.E4M3FN, made == Made.SMALL ? Made.WIDE : made, n * k, 7 * k + 2, arena);
        keep(tensors, "a." + operands, left.dtype(), k, a);
        keep(tensors, "b." + operands, DType.F8_E4M3FN, k, b);
        long first = gpu.allocate(a.byteSize(), "a");
        long second = gpu.allocate(b.byteSize(), "b");
        long result = gpu.allocate((long) n * n * Float.BYTES, "d");
        long one = number(gpu, 1);
        long leftScale = number(gpu, LEFT_SCALE);
        long rightScale = number(gpu, RIGHT_SCALE);
        gpu.write(first, a);
        gpu.write(second, b);
        CudaProduct product = CudaProduct.of(
                false,
                true,
                n,
                n,
                k,
                Matrix.of(first, left.dtype(), k),
                Matrix.of(second, DType.F8_E4M3FN, k),
                Matrix.of(result, DType.F32, n));
        for (boolean fast : new boolean[] {false, true}) {
            gpu.product(product.scaled(one, one, fast)).run();
            keep(
                    tensors,
                    "d." + operands + (fast ? ".fast" : ".split"),
                    DType.F32,
                    ROWS,
                    corner(gpu, result, n, arena));
        }
        gpu.product(product.scaled(leftScale, rightScale, true)).run();
        keep(tensors, "d." + operands + ".scaled", DType.F32, ROWS, corner(gpu, result, n, arena));
        for (long address : new long[] {first, second, result, one, leftScale, rightScale}) {
            gpu.release(address);
        }
    }

    /** The first rows and columns of an F32 matrix. */
    private static MemorySegment corner(Gpu gpu, long matrix, int n, Arena arena) {
        MemorySegment all = arena.allocate((long) n * n * Float.BYTES, 64);
        gpu.read(matrix, all);
        MemorySegment corner = arena.allocate((long) ROWS * ROWS * Float.BYTES, 64);
        for (int r = 0; r < ROWS; r++) {
            MemorySegment.copy(
                    all, (long) r * n * Float.BYTES, corner, (long) r * ROWS * Float.BYTES, (long) ROWS * Float.BYTES);
        }
        return corner;
    }

    /** Address of a number in F32. */
    private static long number(Gpu gpu, float x) {
        long address = gpu.allocate(Float.BYTES, "a scale");
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment one = arena.allocate(Float.BYTES, Float.BYTES);
            one.set(Tensor.F32_LE, 0, x);
            gpu.write(address, one);
        }
        return address;
    }

    private static void keep(Map<String, Tensor> tensors, String name, DType type, int columns, MemorySegment bytes) {
        long width = type.bits() / 8;
        TensorSpec spec = new TensorSpec(name, type, Shape.of(ROWS, columns));
        tensors.put(name, new Tensor(spec, bytes.asSlice(0, width * ROWS * columns)));
    }

    private static MemorySegment codes(Float8Format format, Made made, int count, int seed, Arena arena) {
        SplittableRandom random = new SplittableRandom(seed);
        MemorySegment codes = arena.allocate(count, 64);
        int fraction = format == Float8Format.E5M2 ? 2 : 3;
        for (int i = 0; i < count; i++) {
            int code;
            do {
                code = switch (made) {
                    case NORMAL -> format.encode((float) random.nextGaussian() * 8, Overflow.SATURATE);
                    case WIDE -> random.nextInt(256);
                    // of every two one is zero; exponents of 0 and 1
                    case SMALL -> random.nextBoolean() ? 0 : random.nextInt(2 << fraction) | random.nextInt(2) << 7;
                };
            } while (!Float.isFinite(format.decode(code)));
            codes.set(ValueLayout.JAVA_BYTE, i, (byte) code);
        }
        return codes;
    }
}
