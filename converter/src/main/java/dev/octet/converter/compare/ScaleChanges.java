package dev.octet.converter.compare;

import java.io.Serializable;

/**
 * How the scales of two weights with the same granularity differ. Scales are compared as multipliers, including the second level.
 *
 * @param count scales on each side
 * @param changed scales that differ
 * @param largestRatio the largest ratio of the two scales of a block, larger over smaller; 1 when none changed, infinite when a scale is
 *     not positive
 */
public record ScaleChanges(long count, long changed, double largestRatio) implements Serializable {}
