package dev.octet.converter.compare;

import java.io.Serializable;

/**
 * How far the elements of one side are from round-to-nearest of the other side's values to the first side's grid. Measured for a side that
 * is quantised or has another number format than the other side; all zero otherwise. The nearest number to a value beyond the grid is the
 * grid's largest number.
 *
 * <p>A <em>step</em> is the unit in the last place of {@link NumberGrid}: one rounding, ties and slack included, is within half of one.
 * Errors {@code rms}, {@code nearestRms} and {@code furthest} are in multiples of the elements' multipliers, so that groups with small and
 * large scales have equal weight.
 *
 * @param elements pairs of finite numbers
 * @param off elements that differ from the nearest number by more than the grid's slack
 * @param far of these, elements more than a sixteenth of a step beyond: an intermediate narrower float format cannot explain them
 * @param clipped elements of the other side beyond the largest number of this side
 * @param gain the factor on this side that minimises the total error to the other side; 1 without a bias, NaN for zeros
 * @param rms root mean square of all errors
 * @param nearestRms the root mean square error if every element were the nearest number
 * @param furthest largest excess of an element's distance over the nearest number's distance
 * @param furthestAt the element with that excess, counted row-major; -1 without one
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
        long furthestAt)
        implements Serializable {}
