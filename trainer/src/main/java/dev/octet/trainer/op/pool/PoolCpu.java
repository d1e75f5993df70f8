package dev.octet.trainer.op.pool;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.Arrays;

/** Plane by plane, in arrays. Which places windows look at is worked out once for all planes. */
final class PoolCpu implements CpuKernel<Pool> {
    /** Places of all windows of a plane, one window behind the other; {@code first[o]} is where those of window o begin. */
    private static final class Places {
        private final int[] first;
        private final int[] in;

        Places(int[] first, int[] in) {
            this.first = first;
            this.in = in;
        }

        static Places of(Pool op) {
            int[] first = new int[op.planeOut() + 1];
            op.visit((out, in) -> first[out + 1]++);
            Arrays.parallelPrefix(first, Integer::sum);
            int[] places = new int[first[first.length - 1]];
            int[] next = first.clone();
            op.visit((out, in) -> places[next[out]++] = in);
            return new Places(first, places);
        }
    }

    private static long grain(Pool op) {
        return Math.max(1, 4 * CpuContext.TILE / Math.max(1, op.planeIn()));
    }

    @Override
    public void forward(Pool op, Frame<CpuTensor> frame, CpuContext cpu) {
        Places places = Places.of(op);
        int[] divisors = op.divisors();
        cpu.parallel().ranges(op.planes(), grain(op), (from, to) -> {
            float[] x = new float[op.planeIn()];
            float[] y = new float[op.planeOut()];
            for (long plane = from; plane < to; plane++) {
                frame.input(0).read(plane * x.length, x, 0, x.length);
                if (op.isMax()) {
                    largest(places, x, y, frame.output(1), plane * y.length);
                } else {
                    means(places, x, y, divisors);
                }
                frame.output(0).write(plane * y.length, y, 0, y.length);
            }
        });
    }

    private static void largest(Places places, float[] x, float[] y, CpuTensor where, long start) {
        for (int o = 0; o < y.length; o++) {
            int best = places.in[places.first[o]];
            for (int k = places.first[o] + 1; k < places.first[o + 1]; k++) {
                float v = x[places.in[k]];
                if (v > x[best] || Float.isNaN(v)) {
                    best = places.in[k];
                }
            }
            y[o] = x[best];
            where.writeLong(start + o, best);
        }
    }

    private static void means(Places places, float[] x, float[] y, int[] divisors) {
        for (int o = 0; o < y.length; o++) {
            float sum = 0;
            for (int k = places.first[o]; k < places.first[o + 1]; k++) {
                sum += x[places.in[k]];
            }
            y[o] = sum / divisors[o];
        }
    }

    @Override
    public void backward(Pool op, Frame<CpuTensor> frame, CpuContext cpu) {
        Places places = op.isMax() ? new Places(new int[0], new int[0]) : Places.of(op);
        int[] divisors = op.divisors();
        cpu.parallel().ranges(op.planes(), grain(op), (from, to) -> {
            float[] dx = new float[op.planeIn()];
            float[] dy = new float[op.planeOut()];
            for (long plane = from; plane < to; plane++) {
                Arrays.fill(dx, 0);
                frame.upstream(0).read(plane * dy.length, dy, 0, dy.length);
                for (int o = 0; o < dy.length; o++) {
                    if (op.isMax()) {
                        dx[(int) frame.output(1).readLong(plane * dy.length + o)] += dy[o];
                    } else {
                        spread(places, o, dy[o] / divisors[o], dx);
                    }
                }
                frame.gradient(0).write(plane * dx.length, dx, 0, dx.length);
            }
        });
    }

    private static void spread(Places places, int window, float share, float[] dx) {
        for (int k = places.first[window]; k < places.first[window + 1]; k++) {
            dx[places.in[k]] += share;
        }
    }
}
