package dev.octet.converter.plan;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.Quantizer;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.QuantizedTensor;
import dev.octet.quant.scale.ScaleRule;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;

/**
 * Stores the weights of {@linkplain LayerKind#CONV convolutions} in 8-bit floats, dequantised before each use.
 *
 * <pre>
 *   Conv:          y = Conv(x, DequantizeLinear(w, scale, axis 0), bias)             w [M, C / groups, ..], scale [M]
 *   ConvTranspose: y = ConvTranspose(x, DequantizeLinear(w, scale, axis 1), bias)    w [C, M / groups, ..], scale [M / groups]
 * </pre>
 *
 * <p>Where each group of a ConvTranspose has one output channel, scales lie along axis 0 there, too: that is the channel then. Scales have the type of
 * the weight, which is the type that DequantizeLinear then yields (opset 19 on). Codes keep the name of the weight; its scale is
 * {@code <stem>.weight_scale}.
 */
public final class ConvolutionWeights {
    /**
     * Products that an output adds up at least for its weights to be worth rounding: errors of fewer hardly average out, and such layers are small. Depthwise
     * convolutions have 9, a first layer 9 or 27. With all rounded, cosines of PaddleOCR's detector and openWakeWord's embedding are 0.953 and 0.969, without
     * these 0.997 and 0.997, for 8 and 0.1 % of the weights.
     */
    private static final long LEAST_PRODUCTS = 64;

    private static final String TRANSPOSED = "ConvTranspose";

    private final GraphEdit edit;
    private final Arena arena;

    ConvolutionWeights(GraphEdit edit, Arena arena) {
        this.edit = edit;
        this.arena = arena;
    }

    /** Whether a node is one of ONNX's convolutions of floats. */
    static boolean isConvolution(Node n) {
        return n.is("Conv") || n.is(TRANSPOSED);
    }

    /**
     * The axis of a weight along which its output channels lie.
     *
     * @param convolution a Conv or ConvTranspose
     * @param weight shape of its weight, of rank 3 or more
     */
    public static int outputAxis(Node convolution, Shape weight) {
        boolean perGroup = convolution.intAttribute("group", 1) > 1 && weight.dim(1) == 1;
        return convolution.is(TRANSPOSED) && !perGroup ? 1 : 0;
    }

    /** Why the weights of a convolution are not worth rounding; empty where they are. */
    static Optional<String> refusal(Node convolution, Shape weight) {
        long outputs = convolution.is(TRANSPOSED)
                ? weight.dim(1) * Math.max(1, convolution.intAttribute("group", 1))
                : weight.dim(0);
        long products = weight.elementCount() / Math.max(1, outputs);
        return products < LEAST_PRODUCTS
                ? Optional.of("its outputs are sums of few products, " + products
                        + ", in which the errors of 8-bit floats hardly average out")
                : Optional.empty();
    }

    /**
     * Replaces the weight of a convolution, a finite constant in F32, F16 or BF16 that nothing else reads.
     *
     * @param operand 8-bit floats with a scale of each output channel
     */
    LayerResult rewrite(Node convolution, OperandSpec operand) {
        String name = convolution.input(1);
        Tensor weight =
                Objects.requireNonNull(edit.initializer(name), name).tensor().orElseThrow();
        int axis = outputAxis(convolution, weight.shape());
        OperandSpec spec = operand.scaledBy(new ScaleRule.AmaxRule(), weight.dtype())
                .with(new Granularity.PerChannel(axis - weight.shape().rank()));
        QuantizedTensor q = Quantizer.sequential().quantize(weight, spec, arena).orElseThrow();
        String stem = name.endsWith(".weight") ? name.substring(0, name.length() - ".weight".length()) : name;
        String scale = edit.freshName(stem + ".weight_scale");
        edit.putInitializer(Initializer.of(q.codesTensor().withName(name)));
        edit.putInitializer(Initializer.of(q.scale().withName(scale)));
        String values = edit.freshName(name + "_dq");
        List<String> inputs = new ArrayList<>(convolution.inputs());
        inputs.set(1, values);
        edit.replace(
                convolution,
                Node.of(
                        values,
                        "DequantizeLinear",
                        "",
                        List.of(name, scale),
                        List.of(values),
                        Attribute.of("axis", axis)),
                convolution.withInputs(inputs));
        return LayerResults.of(convolution, name, weight, q, false);
    }
}
