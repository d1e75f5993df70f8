package dev.octet.pipeline;

import dev.octet.converter.lower.OnnxTarget;
import dev.octet.converter.plan.LayerResult;
import dev.octet.converter.plan.Plan;
import dev.octet.quant.number.IntegerUnit;
import java.util.List;
import java.util.Optional;

/**
 * How the products of a graph with weights in integers are computed, and whether they can saturate.
 *
 * @param kernel what the runtime makes of most of them, in words
 * @param saturatingPairs pairs of neighbouring weights whose products with unsigned inputs can saturate on processors without VNNI
 * @param saturatingLinears Linears with such pairs
 * @param thisProcessor how this machine's processor adds up products of 8 bits
 */
public record IntegerProducts(String kernel, long saturatingPairs, int saturatingLinears, String thisProcessor) {
    /**
     * Of a plan that was carried out; empty for weights in floats.
     *
     * @param layers what became of its layers; empty where nothing was written
     */
    static Optional<IntegerProducts> of(Plan plan, OnnxTarget target, List<LayerResult> layers) {
        if (!plan.recipe().weight().type().isInteger() || plan.linearInputs().isEmpty()) {
            return Optional.empty();
        }
        boolean unsigned = target == OnnxTarget.ONNXRUNTIME;
        return Optional.of(new IntegerProducts(
                kernel(plan, target),
                unsigned
                        ? layers.stream()
                                .mapToLong(LayerResult::saturatingPairs)
                                .sum()
                        : 0,
                unsigned
                        ? (int) layers.stream()
                                .filter(l -> l.saturatingPairs() > 0)
                                .count()
                        : 0,
                IntegerUnit.ofThisMachine().text()));
    }

    private static String kernel(Plan plan, OnnxTarget target) {
        boolean four = plan.recipe().isGrouped();
        if (plan.integerProducts().isEmpty()) {
            return target == OnnxTarget.TENSORRT
                    ? "weights dequantised"
                    : four
                            ? "MatMulNBits, 4 bits"
                            : "MatMulNBits, 8 bits, or weights dequantised at every run before it";
        }
        return target == OnnxTarget.TENSORRT
                ? "S8 x S8"
                : plan.recipe().isDynamic()
                        ? "U8 x S8, DynamicQuantizeMatMul and MatMulIntegerToFloat"
                        : "U8 x S8, MatMulIntegerToFloat";
    }

    /** One line for people. */
    @Override
    public String toString() {
        return saturatingPairs == 0
                ? kernel
                : kernel + "; " + saturatingPairs + " pairs of weights in " + saturatingLinears
                        + " Linears can saturate where products are added two in 16 bits (AVX2, AVX-512 without VNNI;"
                        + " this processor: " + thisProcessor + "), --reduce-range excludes it";
    }
}
