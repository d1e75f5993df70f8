package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.DeviceLostException;
import dev.octet.formats.error.UnavailableException;
import java.util.Arrays;

/**
 * Times the algorithms that the library proposes for a product. The clock of a GPU changes while it works, so all candidates are timed in
 * turn, several times, and the least time of each counts. The library's first proposal is beaten only by a clear margin: a difference within
 * the noise of the measurement must not make the choice.
 */
final class AlgorithmRace {
    private static final int ROUNDS = 3;

    /** Share of the first proposal's time that another must stay below. */
    private static final double MARGIN = 0.98;

    private AlgorithmRace() {}

    /** Runs candidates, which are numbered from 0 in the library's order. */
    interface Course {
        /** Runs a candidate until the clock is that of a GPU at work. */
        void warm(int candidate);

        /**
         * Microseconds of a candidate.
         *
         * @throws UnavailableException when the library rejects its own proposal
         */
        double microseconds(int candidate);
    }

    /** The chosen candidate and its time; infinite when no candidate ran. */
    record Winner(int candidate, double microseconds) {}

    /** Times all candidates. */
    static Winner run(int candidates, Course course) {
        double[] least = new double[candidates];
        Arrays.fill(least, Double.POSITIVE_INFINITY);
        boolean[] out = new boolean[candidates];
        boolean warm = false;
        for (int round = 0; round <= ROUNDS; round++) {
            for (int i = 0; i < candidates; i++) {
                if (out[i]) {
                    continue;
                }
                try {
                    if (!warm) {
                        course.warm(i);
                        warm = true;
                    }
                    double time = course.microseconds(i);
                    if (round > 0) { // the first round loads the kernels
                        least[i] = Math.min(least[i], time);
                    }
                } catch (DeviceLostException e) {
                    throw e;
                } catch (UnavailableException e) {
                    out[i] = true;
                }
            }
        }
        return winner(least);
    }

    private static Winner winner(double[] least) {
        int best = -1;
        for (int i = 0; i < least.length; i++) {
            if (least[i] < (best < 0 ? Double.POSITIVE_INFINITY : least[best])
                    && (best < 0 || least[i] < MARGIN * first(least))) {
                best = i;
            }
        }
        return best < 0 ? new Winner(0, Double.POSITIVE_INFINITY) : new Winner(best, least[best]);
    }

    /** Time of the first candidate that ran. */
    private static double first(double[] least) {
        return Arrays.stream(least).filter(Double::isFinite).findFirst().orElse(Double.POSITIVE_INFINITY);
    }
}
