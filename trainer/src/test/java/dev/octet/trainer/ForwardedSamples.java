package dev.octet.trainer;

import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.data.Samples;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.Map;

/** Samples that are others but for what a test overrides. */
class ForwardedSamples implements Samples {
    private final Samples samples;

    ForwardedSamples(Samples samples) {
        this.samples = samples;
    }

    @Override
    public String name() {
        return samples.name();
    }

    @Override
    public long count() {
        return samples.count();
    }

    @Override
    public String digest() {
        return samples.digest();
    }

    @Override
    public Map<String, Tensor> gather(long[] rows, Arena arena) throws IOException {
        return samples.gather(rows, arena);
    }

    @Override
    public void close() throws IOException {
        samples.close();
    }
}
