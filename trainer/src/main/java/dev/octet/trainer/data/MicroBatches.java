package dev.octet.trainer.data;

import dev.octet.formats.error.InvalidDataException;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.Arrays;

/**
 * Samples as micro-batches of equal size, epoch after epoch, numbered over the whole run. Access is random: the seed determines the samples
 * of each number. An incomplete batch at the end of an epoch is dropped.
 */
public final class MicroBatches {
    private final Samples samples;
    private final int size;
    private final boolean shuffle;
    private final long seed;
    private final long perEpoch;

    private long epoch = -1;
    private SampleOrder order;

    /**
     * @param size samples per micro-batch
     * @param shuffle whether to shuffle each epoch; otherwise samples come in file order
     * @throws InvalidDataException when there are fewer samples than {@code size}
     */
    public MicroBatches(Samples samples, int size, boolean shuffle, long seed) {
        if (samples.count() < size) {
            throw new InvalidDataException(
                    "there are " + samples.count() + " samples, but a batch takes " + size,
                    samples.name(),
                    "give more data, or a batch_size of at most " + samples.count());
        }
        this.samples = samples;
        this.size = size;
        this.shuffle = shuffle;
        this.seed = seed;
        this.perEpoch = samples.count() / size;
        this.order = new SampleOrder(samples.count(), seed);
    }

    /** Micro-batches per epoch. */
    public long perEpoch() {
        return perEpoch;
    }

    /** Samples per micro-batch. */
    public int size() {
        return size;
    }

    /**
     * Reads micro-batch {@code number}, from 0.
     *
     * @param arena owns its tensors
     * @throws InvalidDataException when a sample has the wrong shape or is not finite
     * @throws IOException when the data can no longer be read
     */
    public MicroBatch at(long number, Arena arena) throws IOException {
        long[] rows = rows(number);
        return new MicroBatch(number, Arrays.stream(rows).boxed().toList(), samples.gather(rows, arena));
    }

    /** Indices of the samples of micro-batch {@code number}. */
    long[] rows(long number) {
        long wanted = number / perEpoch;
        if (wanted != epoch) {
            epoch = wanted;
            order = new SampleOrder(samples.count(), SampleOrder.mix(seed) ^ SampleOrder.mix(~wanted));
        }
        long first = number % perEpoch * size;
        long[] rows = new long[size];
        for (int i = 0; i < size; i++) {
            rows[i] = shuffle ? order.at(first + i) : first + i;
        }
        return rows;
    }
}
