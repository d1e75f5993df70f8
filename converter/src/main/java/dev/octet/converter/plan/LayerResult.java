package dev.octet.converter.plan;

/**
 * What the rewrite did to one Linear or embedding.
 *
 * @param node id in the canonical graph
 * @param output the layer's output value, the same name before and after
 * @param weight name of the weight's codes in the rewritten graph
 * @param weightSqnrDb signal to quantisation noise of the weight alone, dB
 * @param minScale smallest weight scale
 * @param maxScale largest weight scale
 * @param saturatedShare share of weight elements beyond the format's range before the cast, 0..1
 * @param flushedShare share of non-zero weight elements that became zero, 0..1
 * @param saturatingPairs pairs of neighbouring weights whose products with unsigned inputs can saturate on processors without VNNI
 *     ({@link dev.octet.quant.gptq.BoundedPairs}); 0 where inputs and weight are not both integers of 8 bits
 */
public record LayerResult(
        String node,
        String output,
        String weight,
        double weightSqnrDb,
        double minScale,
        double maxScale,
        double saturatedShare,
        double flushedShare,
        long saturatingPairs) {}
