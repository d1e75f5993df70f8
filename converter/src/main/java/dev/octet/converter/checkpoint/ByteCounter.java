package dev.octet.converter.checkpoint;

/** Adds up the bytes that several threads process and reports to a listener from time to time. */
public final class ByteCounter {
    private static final long EVERY_BYTES = 16L << 20;

    private final ByteProgress listener;
    private final long total;
    private long done;
    private long told;

    /**
     * Starts at zero.
     *
     * @param total bytes of the whole run
     */
    public ByteCounter(ByteProgress listener, long total) {
        this.listener = listener;
        this.total = total;
    }

    /** So many more bytes are done. */
    public synchronized void add(long bytes) {
        done += bytes;
        if (done - told >= EVERY_BYTES || done >= total) {
            told = done;
            listener.update(Math.min(done, total), total);
        }
    }
}
