package dev.octet.pipeline.plan;

/**
 * What one accelerator of a pipeline's stage has, and does for a micro-batch.
 *
 * @param parameters that it computes with
 * @param layerParameters of the largest part whose weights are gathered together where they are dealt out
 * @param linear operations of Linears in forward
 * @param attention operations of attention in forward
 * @param head operations of the head in forward
 * @param touched bytes that operators other than products read and write in forward
 * @param kept bytes kept for backward
 * @param inputs bytes kept for backward where layers are computed again
 * @param layer bytes that one layer keeps, which are there again while it is computed again
 * @param once bytes kept by what comes behind the layers, of one micro-batch at a time
 * @param sent bytes that it sends to its tensor-parallel neighbours in forward
 * @param passed bytes that it passes to the next stage
 */
public record StageLoad(
        double parameters,
        double layerParameters,
        double linear,
        double attention,
        double head,
        double touched,
        double kept,
        double inputs,
        double layer,
        double once,
        double sent,
        double passed) {}
