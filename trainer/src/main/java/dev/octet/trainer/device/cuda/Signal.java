package dev.octet.trainer.device.cuda;

/**
 * A point in a lane that another lane waits for: an event of CUDA. Both works are recorded in graphs as what they are, edges between lanes.
 *
 * @param set puts the point after all that its lane has so far
 * @param await has the other lane wait for the point that was set last; owns nothing
 */
public record Signal(Work set, Work await) {}
