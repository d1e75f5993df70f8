package dev.octet.bench;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.gemm.Gemms;
import dev.octet.trainer.gemm.ThreadTeam;
import dev.octet.trainer.kernel.MatrixProducts;
import dev.octet.trainer.kernel.Parallel;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.Locale;

/**
 * What the machine allows a training step: the matrix products of its Linears and nothing else. {@code THREADS ROUNDS ROWSxINxOUT...}:
 * each shape stands for one Linear's three products, forward, for the input's gradient and for the weight's.
 */
public final class GemmRate {
    private GemmRate() {}

    /** Operands of the products of one Linear. */
    private record Linear(int rows, int in, int out) {
        static Linear parse(String text) {
            int[] dims = Arrays.stream(text.split("x", -1))
                    .mapToInt(Integer::parseInt)
                    .toArray();
            if (dims.length != 3) {
                throw new IllegalArgumentException(text + " is not ROWSxINxOUT");
            }
            return new Linear(dims[0], dims[1], dims[2]);
        }

        /** Multiplications and additions of the three products. */
        double flops() {
            return 6.0 * rows * in * out;
        }

        /** Seconds that the three products take. */
        double seconds(MatrixProducts gemm, DType type, Parallel parallel) {
            try (Arena arena = Arena.ofShared()) {
                MemorySegment x = small(arena, (long) rows * in, type);
                MemorySegment w = small(arena, (long) out * in, type);
                MemorySegment y = small(arena, (long) rows * out, type);
                MemorySegment dx = small(arena, (long) rows * in, type);
                MemorySegment dw = small(arena, (long) out * in, DType.F32);
                long start = System.nanoTime();
                gemm.shared(MatrixProducts.Call.of(false, true, rows, out, in, type, type, false), x, w, y, parallel);
                gemm.shared(MatrixProducts.Call.of(false, false, rows, in, out, type, type, false), y, w, dx, parallel);
                gemm.shared(
                        MatrixProducts.Call.of(true, false, out, in, rows, type, DType.F32, false), y, x, dw, parallel);
                return (System.nanoTime() - start) / 1e9;
            }
        }

        /** Small normal numbers in F32 and BF16 alike. */
        private static MemorySegment small(Arena arena, long count, DType type) {
            return arena.allocate(count * type.bits() / 8, 64).fill((byte) 0x3C);
        }
    }

    /** Prints one JSON line: giga-operations a second for each type, the median of the rounds. */
    public static void main(String[] args) {
        if (args.length < 3) {
            throw new IllegalArgumentException("usage: THREADS ROUNDS ROWSxINxOUT...");
        }
        Linear[] linears = Arrays.stream(args).skip(2).map(Linear::parse).toArray(Linear[]::new);
        try (ThreadTeam team = new ThreadTeam(Integer.parseInt(args[0]))) {
            MatrixProducts gemm = Gemms.best();
            int rounds = Integer.parseInt(args[1]);
            System.out.printf(
                    Locale.ROOT,
                    "{\"gemm\": \"%s\", \"fp32\": %.1f, \"bf16\": %.1f}%n",
                    gemm.name(),
                    rate(linears, gemm, DType.F32, rounds, team),
                    rate(linears, gemm, DType.BF16, rounds, team));
        }
    }

    private static double rate(Linear[] linears, MatrixProducts gemm, DType type, int rounds, Parallel parallel) {
        double flops = Arrays.stream(linears).mapToDouble(Linear::flops).sum();
        double[] rates = new double[rounds];
        // the first round warms up
        for (int i = -1; i < rounds; i++) {
            double seconds = 0;
            for (Linear linear : linears) {
                seconds += linear.seconds(gemm, type, parallel);
            }
            if (i >= 0) {
                rates[i] = flops / seconds / 1e9;
            }
        }
        Arrays.sort(rates);
        return rates[rounds / 2];
    }
}
