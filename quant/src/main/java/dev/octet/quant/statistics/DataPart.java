package dev.octet.quant.statistics;

/**
 * One data set of the statistics and the progress of the run: samples are taken in the data set's order, so the first {@code samplesDone}
 * are included.
 *
 * @param digest SHA-256 of the data as the model saw it, lower-case hexadecimal
 * @param name name in messages (a file name); not compared
 * @param samplesDone samples included, at most {@code samplesTotal}
 * @param samplesTotal samples of the complete run
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

    /** Whether all samples are included. */
    public boolean complete() {
        return samplesDone == samplesTotal;
    }
}
