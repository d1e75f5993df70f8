package dev.octet.converter.data;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.Sha256;
import java.io.IOException;
import java.util.Objects;

/** Some consecutive samples of a data set. */
record DatasetSlice(Dataset whole, int from, int count) implements Dataset {
    DatasetSlice {
        if (from < 0 || count < 1 || count > whole.count() - from) {
            throw new InvalidDataException(
                    "samples " + from + " to " + ((long) from + count) + " are wanted, there are " + whole.count(),
                    whole.name(),
                    "ask for fewer samples or give more");
        }
    }

    @Override
    public String name() {
        return whole.name();
    }

    @Override
    public String digest() {
        return Sha256.of(whole.digest(), "slice", String.valueOf(from), String.valueOf(count));
    }

    @Override
    public int largestBatch() {
        return whole.largestBatch();
    }

    @Override
    public Batch batch(int first, int size) throws IOException {
        Objects.checkFromIndexSize(first, size, count);
        Batch b = whole.batch(from + first, size);
        return new Batch(first, size, b.tensors());
    }

    @Override
    public void close() throws IOException {
        whole.close();
    }
}
