package dev.octet.converter.compare;

/**
 * How the scales of two weights differ that share them among the same elements. Scales are compared as multipliers, second level multiplied
 * in.
 *
 * @param count scales on each side
 * @param changed scales that are not the same number
 * @param largestRatio the largest ratio between two scales of one block, the larger by the smaller; 1 when none changed, infinite when one is
 *     not positive
 */
public record ScaleChanges(long count, long changed, double largestRatio) {}
