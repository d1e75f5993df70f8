package dev.octet.trainer.data;

import dev.octet.formats.error.InvalidDataException;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.Arrays;

/**
 * Samples as micro-batches, epoch after epoch, numbered over the whole run. Access is random: the seed determines the samples of each number.
 * All have the same size; an incomplete batch at the end of an epoch is dropped, except with {@link #ofAll}.
 */
public final class MicroBatches {
    private final Samples samples;
    private final int size;
    private final boolean shuffle;
    private final long seed;
    private final long perEpoch;

    private final long samplesPerEpoch;

    private long epoch = -1;
    private SampleOrder order;

    private MicroBatches(Samples samples, int size, boolean shuffle, long seed, long samplesPerEpoch) {
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
        this.samplesPerEpoch = samplesPerEpoch;
        this.perEpoch = Math.ceilDiv(samplesPerEpoch, size);
        this.order = new SampleOrder(samples.count(), seed);
    }

    /**
     * Batches of one size, each epoch in another order.
     *
     * @param size samples per micro-batch
     * @param seed determines the orders
     * @throws InvalidDataException when there are fewer samples than {@code size}
     */
    public static MicroBatches shuffled(Samples samples, int size, long seed) {
        return new MicroBatches(samples, size, true, seed, whole(samples, size));
    }

    /**
     * Batches of one size, in the order of the file.
     *
     * @throws InvalidDataException when there are fewer samples than {@code size}
     */
    public static MicroBatches inOrder(Samples samples, int size) {
        return new MicroBatches(samples, size, false, 0, whole(samples, size));
    }

    /**
     * All samples in the order of the file; the last batch of an epoch may be smaller.
     *
     * @throws InvalidDataException when there are fewer samples than {@code size}
     */
    public static MicroBatches ofAll(Samples samples, int size) {
        return new MicroBatches(samples, size, false, 0, samples.count());
    }

    private static long whole(Samples samples, int size) {
        return samples.count() / size * size;
    }

    /** Micro-batches per epoch. */
    public long perEpoch() {
        return perEpoch;
    }

    /** Samples per micro-batch; the last of an epoch may have fewer, see {@link #ofAll}. */
    public int size() {
        return size;
    }

    /** Samples read in an epoch. */
    public long samplesPerEpoch() {
        return samplesPerEpoch;
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
        long[] rows = new long[(int) Math.min(size, samplesPerEpoch - first)];
        for (int i = 0; i < rows.length; i++) {
            rows[i] = shuffle ? order.at(first + i) : first + i;
        }
        return rows;
    }
}
