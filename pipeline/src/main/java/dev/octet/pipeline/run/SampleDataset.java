package dev.octet.pipeline.run;

import dev.octet.converter.data.Batch;
import dev.octet.converter.data.Dataset;
import dev.octet.trainer.data.Samples;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.stream.LongStream;

/** The first samples of the trainer's data, for the converter, which does not know it. */
public record SampleDataset(Samples samples, int count) implements Dataset {
    @Override
    public String name() {
        return samples.name();
    }

    @Override
    public String digest() {
        return samples.digest();
    }

    @Override
    public Batch batch(int from, int size) throws IOException {
        long[] rows = LongStream.range(from, from + (long) size).toArray();
        return new Batch(from, size, samples.gather(rows, Arena.ofAuto()));
    }

    @Override
    public void close() throws IOException {
        samples.close();
    }
}
