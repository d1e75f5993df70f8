package dev.octet.quant.statistics;

/**
 * One data set that statistics were taken from, and how far the run got: samples are taken in the data set's order, so the
 * first {@code samplesDone} are in.
 *
 * @param digest SHA-256 of the data as the model saw it, lower-case hexadecimal
 * @param name what to call it in messages (a file name); not compared
 * @param samplesDone samples that went in, at most {@code samplesTotal}
 * @param samplesTotal samples that the run was asked for
 */
public record DataPart(String digest, String name, long samplesDone, long samplesTotal) {
    public DataPart {
        if (samplesDone < 0 || samplesTotal < samplesDone) {
            throw new IllegalArgumentException(samplesDone + " of " + samplesTotal + " samples done");
        }
        if (digest.isEmpty()) {
            throw new IllegalArgumentException("no digest");
        }
    }

    /** Whether all samples went in. */
    public boolean complete() {
        return samplesDone == samplesTotal;
    }
}
