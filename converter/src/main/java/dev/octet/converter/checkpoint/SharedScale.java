package dev.octet.converter.checkpoint;

import java.io.Serializable;
import java.util.List;

/**
 * The cost of one shared scale for fused weights.
 *
 * @param group the fused product
 * @param members the weights, in the order of the checkpoint
 * @param ratio largest over smallest of their own scales; 1 if sharing costs nothing
 * @param lostDb decibels of signal-to-noise ratio that the worst of them loses compared with its own scale, measured on its first rows; 0
 *     if none loses
 */
public record SharedScale(String group, List<String> members, double ratio, double lostDb) implements Serializable {
    public SharedScale {
        members = List.copyOf(members);
    }
}
