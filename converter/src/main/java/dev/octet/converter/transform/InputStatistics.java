package dev.octet.converter.transform;

import dev.octet.quant.gptq.SecondMoment;
import java.io.IOException;
import java.util.Optional;

/** What is known of the inputs of Linears, by the names of their modules. */
public interface InputStatistics {
    /** Nothing is known. */
    InputStatistics NONE = new InputStatistics() {
        @Override
        public Optional<float[]> amax(String module) {
            return Optional.empty();
        }

        @Override
        public Optional<double[]> meanMagnitude(String module) {
            return Optional.empty();
        }

        @Override
        public boolean hasMoment(String module) {
            return false;
        }

        @Override
        public SecondMoment moment(String module) {
            throw new IllegalArgumentException("no moment of " + module);
        }
    };

    /** The largest magnitude of each channel. */
    Optional<float[]> amax(String module);

    /** The mean magnitude of each channel. */
    Optional<double[]> meanMagnitude(String module);

    /** Whether there is a second moment. */
    boolean hasMoment(String module);

    /**
     * The second moment, read when it is asked for.
     *
     * @throws IllegalArgumentException where there is none
     * @throws IOException when it cannot be read
     */
    SecondMoment moment(String module) throws IOException;
}
