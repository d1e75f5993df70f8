package dev.octet.bench.gpu;

import dev.octet.trainer.device.cuda.Gpu;
import dev.octet.trainer.device.cuda.Work;
import java.util.Arrays;

/**
 * How work is timed: rounds of runs, behind a first round that does not count.
 *
 * @param rounds whose median is the result
 * @param runs one behind the other, of a round
 */
record Timing(int rounds, int runs) {
    static final Timing STEADY = new Timing(7, 20);

    /** Microseconds of one run. Closes the work. */
    double micros(Gpu gpu, Work work) {
        try (work) {
            gpu.microseconds(work, runs);
            double[] micros = new double[rounds];
            for (int i = 0; i < rounds; i++) {
                micros[i] = gpu.microseconds(work, runs);
            }
            Arrays.sort(micros);
            return micros[rounds / 2];
        }
    }
}
