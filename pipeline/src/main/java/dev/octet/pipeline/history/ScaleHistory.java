package dev.octet.pipeline.history;

/**
 * How the scale of a tensor followed its amax.
 *
 * @param layer module
 * @param kind {@code input}, {@code weight} or {@code grad_output}
 * @param format name of the number format
 * @param mostClipped largest share of clipped elements
 * @param mostUnderflowed largest share of elements that became 0
 * @param oldest largest age of its scale, in steps
 * @param amax largest magnitude before the cast
 * @param room largest magnitude that the scale can represent; empty for a format that is not known
 */
public record ScaleHistory(
        String layer,
        String kind,
        String format,
        double mostClipped,
        double mostUnderflowed,
        long oldest,
        Series amax,
        Series room) {}
