package dev.octet.converter.plan;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.QuantizedTensor;

/** How a Linear's weight becomes codes and scales: plain rounding, or one that looks at the activations as well. */
@FunctionalInterface
public interface WeightQuantizer {
    /**
     * Quantises {@code weight}.
     *
     * @param linear the canonical Linear; attribute {@code transB} gives the weight's layout
     * @param spec the recipe's operand, with granularity in [out, in] order; its scales have the type the Linear computes in, because
     *     ONNX DequantizeLinear (opset 19 to 22) yields the type of its scale
     * @return codes in the weight's own layout
     */
    QuantizedTensor quantize(Node linear, Tensor weight, OperandSpec spec);
}
