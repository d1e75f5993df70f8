package dev.octet.converter.compare;

/**
 * How far the elements of one side are from the numbers of its own grid that are nearest to the other side's. Gathered for sides that are
 * quantised and for those in another number format than the other; all zero otherwise. Elements beyond the largest number of the grid are
 * nearest to that number.
 *
 * <p>A <em>step</em> is the unit in the last place of {@link NumberGrid}: one rounding, ties and slack included, is within half of one.
 * Errors {@code rms}, {@code nearestRms} and {@code furthest} are in multiples of the elements' multipliers, so that groups with small and with
 * large scales count alike.
 *
 * @param elements pairs of finite numbers
 * @param off elements that are not the nearest number, by more than the grid's slack
 * @param far of these, elements more than a sixteenth of a step beyond: no narrower float format in between explains them
 * @param clipped elements of the other side beyond the largest number of this one
 * @param gain what this side must be multiplied with to be nearest to the other on the whole; 1 but for a bias, NaN for zeros
 * @param rms root mean square of all errors
 * @param nearestRms what it would be if every element were the nearest number
 * @param furthest largest distance beyond that of the nearest number
 * @param furthestAt the element with that distance, counted row-major; -1 when there is none
 */
public record Nearness(
        long elements,
        long off,
        long far,
        long clipped,
        double gain,
        double rms,
        double nearestRms,
        double furthest,
        long furthestAt) {}
