package dev.octet.converter.pass;

import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.layout.CodedWeight;
import dev.octet.quant.layout.ScaleTensor;
import dev.octet.quant.layout.WeightForm;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.QuantType;
import java.lang.foreign.ValueLayout;
import java.util.Optional;
import java.util.OptionalInt;
import org.jspecify.annotations.Nullable;

/**
 * Gets a quantised ONNX model ready to be trained as it is stored: each matrix of codes behind a {@code DequantizeLinear} becomes a coded constant, and activations
 * that a {@code QuantizeLinear} rounds are left unrounded, as those of quantised checkpoints are. Codes of E4M3, E5M2, their FNUZ forms and I8 with F32 scales are
 * taken; others stay as they are.
 */
public final class CodedConstants {
    private static final String NAME = "coded-constants";

    private CodedConstants() {}

    /**
     * The model with coded constants; the very same object when nothing is quantised. It need not compute what the given one does: activations are not rounded.
     *
     * @param log gets the activations that are left unrounded
     * @throws dev.octet.formats.error.InvalidDataException when a scale is not positive and finite
     */
    public static GraphModel of(GraphModel model, PassLog log) {
        GraphEdit edit = GraphEdit.of(model.graph());
        boolean changed = false;
        for (Node node : edit.nodes()) {
            if (!node.is("DequantizeLinear") || edit.isOutput(node.output())) {
                continue;
            }
            Node quantize = edit.producer(node.input(0));
            if (quantize != null && quantize.is("QuantizeLinear")) {
                log.note(NAME, node.id(), "is left out: activations are trained unrounded");
                edit.redirect(node.output(), quantize.input(0));
                edit.remove(node);
                changed = true;
                continue;
            }
            Optional<CodedWeight> weight = weight(edit, node);
            if (weight.isPresent()) {
                // under the name of the codes, which is the weight's where Octet quantised it
                String name = weight.get().name();
                edit.redirect(node.output(), name);
                edit.remove(node);
                edit.putInitializer(Initializer.of(weight.get()));
                changed = true;
            }
        }
        if (!changed) {
            return model;
        }
        edit.removeUnreachable();
        return model.withGraph(edit.build());
    }

    /**
     * The weight that a node dequantises.
     *
     * @throws dev.octet.formats.error.InvalidDataException when a scale is not positive and finite
     */
    private static Optional<CodedWeight> weight(GraphEdit edit, Node node) {
        Tensor codes = constant(edit, node, 0);
        Tensor scale = constant(edit, node, 1);
        Tensor zero = constant(edit, node, 2);
        boolean asymmetric = zero != null && !isZero(zero);
        if (codes == null
                || scale == null
                || scale.dtype() != DType.F32
                || (node.hasInput(2) && zero == null)
                || codes.shape().rank() != 2
                || edit.consumers(node.input(0)).size() != 1) {
            return Optional.empty();
        }
        QuantType type = type(codes.dtype(), asymmetric);
        Granularity granularity = granularity(node, codes.shape(), scale.shape());
        if (type == null || granularity == null) {
            return Optional.empty();
        }
        WeightForm form = new WeightForm(
                codes.shape(),
                type,
                granularity,
                false,
                DType.F32,
                ScaleTensor.Direction.MULTIPLIER,
                null,
                asymmetric ? 1 : 0);
        CodedWeight weight = new CodedWeight(
                node.input(0), form, codes.bytes(), scale.bytes(), asymmetric && zero != null ? zero.bytes() : null);
        weight.check(node.input(1));
        return Optional.of(weight);
    }

    private static @Nullable Tensor constant(GraphEdit edit, Node node, int i) {
        Initializer found = node.hasInput(i) ? edit.initializer(node.input(i)) : null;
        return found == null ? null : found.tensor().orElse(null);
    }

    private static boolean isZero(Tensor zero) {
        return zero.bytes().byteSize() == 0
                || (zero.bytes().get(ValueLayout.JAVA_BYTE, 0) == 0
                        && (zero.shape().elementCount() == 1 || zero.isUniform()));
    }

    private static @Nullable QuantType type(DType codes, boolean asymmetric) {
        if (codes == DType.I8) {
            return asymmetric ? QuantType.INT8_ASYMMETRIC : QuantType.INT8;
        }
        Optional<QuantType> type = Float8Format.of(codes).flatMap(QuantType::of);
        return asymmetric ? null : type.filter(t -> t.bits() == 8).orElse(null);
    }

    /** Which elements share a scale; null where the shapes do not fit. */
    private static @Nullable Granularity granularity(Node node, Shape codes, Shape scale) {
        if (scale.elementCount() == 1) {
            return new Granularity.PerTensor();
        }
        OptionalInt axis = axis(node);
        long block = node.intAttribute("block_size", 0);
        if (axis.isEmpty() || block > Integer.MAX_VALUE) {
            return null;
        }
        Granularity granularity = block > 0
                ? new Granularity.PerGroup(axis.getAsInt(), (int) block)
                : new Granularity.PerChannel(axis.getAsInt());
        return granularity.scaleShape(codes).elementCount() == scale.elementCount() ? granularity : null;
    }

    /** Counted from the end. */
    private static OptionalInt axis(Node node) {
        long axis = node.intAttribute("axis", 1);
        long fromEnd = axis < 0 ? axis : axis - 2;
        return fromEnd == -1 || fromEnd == -2 ? OptionalInt.of((int) fromEnd) : OptionalInt.empty();
    }
}
