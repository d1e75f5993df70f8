package dev.octet.converter.checkpoint;

import java.util.List;

/**
 * What it costs that fused weights share one scale.
 *
 * @param group the product they are fused into
 * @param members the weights, in the order of the checkpoint
 * @param ratio largest over smallest of their own scales; 1 when sharing costs nothing
 * @param lostDb decibels of signal-to-noise ratio that the worst of them loses against its own scale, measured on its first rows;
 *     0 when none loses
 */
public record SharedScale(String group, List<String> members, double ratio, double lostDb) {}
