package dev.octet.trainer.device.cpu;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.MatrixProducts;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * How fast this machine is, measured in about half a second; what else runs meanwhile makes it slower.
 *
 * @param products multiplications and additions a second of a large matrix product
 * @param bytes read and written a second by adding large arrays, with all threads
 * @param casts elements a second that become codes of FP8 or are made of them, with all threads
 */
public record CpuRates(double products, double bytes, double casts) {
    private static final int SIZE = 1024;
    private static final int ROUNDS = 5;
    private static final long ELEMENTS = 1 << 24;
    private static final int PIECES = 64;

    /** Measures. */
    static CpuRates of(CpuContext context, DType type) {
        return new CpuRates(products(context, type), bytes(context), casts(context));
    }

    private static double products(CpuContext context, DType type) {
        try (Arena arena = Arena.ofShared()) {
            long bytes = (long) SIZE * SIZE * type.bits() / 8;
            // small normal numbers in F32 and BF16 alike
            MemorySegment a = arena.allocate(bytes, 64).fill((byte) 0x3C);
            MemorySegment b = arena.allocate(bytes, 64).fill((byte) 0x3C);
            MemorySegment c = arena.allocate((long) SIZE * SIZE * Float.BYTES, 64);
            MatrixProducts.Call call = MatrixProducts.Call.of(false, true, SIZE, SIZE, SIZE, type, DType.F32, false);
            double best = Double.MAX_VALUE;
            for (int i = 0; i < ROUNDS; i++) {
                long start = System.nanoTime();
                context.gemm().shared(call, a, b, c, context.parallel());
                best = Math.min(best, (System.nanoTime() - start) / 1e9);
            }
            return 2.0 * SIZE * SIZE * SIZE / best;
        }
    }

    private static double bytes(CpuContext context) {
        try (Arena arena = Arena.ofShared()) {
            MemorySegment a = arena.allocate(ELEMENTS * Float.BYTES, 64).fill((byte) 0);
            MemorySegment b = arena.allocate(ELEMENTS * Float.BYTES, 64).fill((byte) 0);
            double best = Double.MAX_VALUE;
            for (int i = 0; i < ROUNDS; i++) {
                long start = System.nanoTime();
                context.parallel().pieces(PIECES, p -> add(a, b, p));
                best = Math.min(best, (System.nanoTime() - start) / 1e9);
            }
            return 3.0 * ELEMENTS * Float.BYTES / best;
        }
    }

    /** The mean of both ways, BF16 to E4M3 and back. */
    private static double casts(CpuContext context) {
        ElementCast cast = ElementCast.best();
        long count = ELEMENTS / PIECES;
        try (Arena arena = Arena.ofShared()) {
            MemorySegment floats = arena.allocate(ELEMENTS * Short.BYTES, 64).fill((byte) 0x3C);
            MemorySegment codes = arena.allocate(ELEMENTS, 64);
            double best = Double.MAX_VALUE;
            for (int i = 0; i < ROUNDS; i++) {
                long start = System.nanoTime();
                context.parallel().pieces(PIECES, p -> {
                    MemorySegment some = floats.asSlice(p * count * Short.BYTES, count * Short.BYTES);
                    MemorySegment its = codes.asSlice(p * count, count);
                    cast.encode(DType.BF16, some, 1, Float8Format.E4M3FN, Overflow.SATURATE, its);
                    cast.decode(Float8Format.E4M3FN, its, 1, DType.BF16, some);
                });
                best = Math.min(best, (System.nanoTime() - start) / 1e9);
            }
            return 2.0 * ELEMENTS / best;
        }
    }

    private static void add(MemorySegment a, MemorySegment b, int piece) {
        long count = ELEMENTS / PIECES;
        for (long i = piece * count; i < (piece + 1) * count; i++) {
            float x = a.getAtIndex(ValueLayout.JAVA_FLOAT, i) + b.getAtIndex(ValueLayout.JAVA_FLOAT, i);
            b.setAtIndex(ValueLayout.JAVA_FLOAT, i, x);
        }
    }
}
