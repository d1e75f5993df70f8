package dev.octet.pipeline;

import dev.octet.converter.transform.InputStatistics;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsFile;
import java.io.IOException;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** What a file of statistics knows of the inputs of a checkpoint's Linears. */
final class CalibratedInputs implements InputStatistics, AutoCloseable {
    private final @Nullable Statistics statistics;

    private CalibratedInputs(@Nullable Statistics statistics) {
        this.statistics = statistics;
    }

    static CalibratedInputs none() {
        return new CalibratedInputs(null);
    }

    /**
     * The statistics of a request.
     *
     * @param model digest of the model
     * @throws InvalidDataException when they are of another model
     */
    static CalibratedInputs of(Quantize.CheckpointRequest request, String model) throws IOException {
        if (request.statistics().isEmpty()) {
            return none();
        }
        Statistics statistics = StatisticsFile.read(request.statistics().get());
        if (!statistics.modelDigest().equals(model)) {
            throw new InvalidDataException(
                    "the statistics are of another model than '" + request.model() + "'",
                    request.statistics().get().toString(),
                    "calibrate this model: octet calibrate " + request.model() + " -o FILE --data DATA");
        }
        return new CalibratedInputs(statistics);
    }

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
        return statistics != null && false;
    }

    @Override
    public SecondMoment moment(String module) {
        throw new IllegalArgumentException("no moment of " + module);
    }

    @Override
    public void close() throws IOException {}
}
