package dev.octet.converter.verify;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.ValueLayout;
import java.util.EnumSet;
import java.util.Set;
import java.util.stream.Stream;

/** Scales and zero points in ONNX graphs. */
final class OnnxScaleRules {
    /** Scales of types without a kernel. */
    static final GraphRule TYPE = Demand.error("onnx-scale-type", Consumer.OF_GRAPHS)
            .text("Scales of QuantizeLinear and DequantizeLinear are F32 or F16; TensorRT also takes BF16.")
            .fix("export the scales as F32")
            .source("microsoft/onnxruntime:docs/OperatorKernels.md, docs.nvidia.com: TensorRT, Working with Quantized"
                    + " Types")
            .onGraphs(OnnxScaleRules::type);

    private static final Set<Consumer> RUNTIME = EnumSet.of(Consumer.ONNXRUNTIME);

    private static void type(GraphSubject subject, Report report) {
        Stream.concat(subject.nodes("QuantizeLinear"), subject.nodes("DequantizeLinear"))
                .forEach(n -> subject.constant(n.input(1)).ifPresent(s -> type(n, s.dtype(), report)));
    }

    private static void type(Node node, DType type, Report report) {
        if (type == DType.BF16) {
            report.add(RUNTIME, "a scale is of type BF16", node.id(), "");
        } else if (type != DType.F32 && type != DType.F16) {
            report.add("a scale is of type " + type, node.id(), "");
        }
    }

    /** Scales that are computed. */
    static final GraphRule CONSTANT = Demand.error("onnx-scale-constant", Consumer.TENSORRT)
            .text("Scales are constants of the model.")
            .fix("fold the scales into initialisers")
            .source("NVIDIA/Model-Optimizer#118, NVIDIA/Model-Optimizer#439, docs.nvidia.com: TensorRT, Working with"
                    + " Quantized Types")
            .onGraphs(OnnxScaleRules::constant);

    private static void constant(GraphSubject subject, Report report) {
        Stream.concat(subject.nodes("QuantizeLinear"), subject.nodes("DequantizeLinear"))
                .filter(n -> subject.constant(n.input(1)).isEmpty())
                .forEach(n -> report.add("a scale is not a constant", n.id(), n.input(1)));
    }

    /** Scales that are zero, negative or not finite. */
    static final GraphRule VALUE = Demand.error("onnx-scale-value", Consumer.OF_GRAPHS)
            .text("Scales are finite and above zero; those of weights of four bits may be negative for ONNX Runtime.")
            .fix("calibrate and export again")
            .source("NVIDIA/Model-Optimizer#118, NVIDIA/Model-Optimizer#439, docs.nvidia.com: TensorRT, Working with"
                    + " Quantized Types")
            .onGraphs(OnnxScaleRules::value);

    private static void value(GraphSubject subject, Report report) {
        Stream.concat(subject.nodes("QuantizeLinear"), subject.nodes("DequantizeLinear"))
                .forEach(n -> subject.constant(n.input(1)).ifPresent(s -> value(subject, n, s, report)));
    }

    private static void value(GraphSubject subject, Node node, Tensor scale, Report report) {
        if (!ScaleFacts.readable(scale.dtype())) {
            return;
        }
        ScaleFacts facts = new ScaleFacts(scale.dtype());
        facts.add(scale.bytes());
        if (facts.count() > 0 && !facts.sound()) {
            boolean negative = facts.nan() + facts.infinite() + facts.zero() == 0;
            report.add(
                    negative && isHalfByteWeight(subject, node)
                            ? Set.of(Consumer.TENSORRT)
                            : report.rule().consumers(),
                    "a scale is zero, negative or not finite",
                    node.id(),
                    (facts.nan() + facts.infinite()) + " not finite, " + facts.zero() + " zero, " + facts.negative()
                            + " negative of " + facts.count());
        }
    }

    /**
     * Whether a node dequantises a weight of four bits. ONNX Runtime's quantizer gives a block that has its largest magnitude above zero a
     * negative scale, so that -8 stands for it, and its kernels take those.
     */
    private static boolean isHalfByteWeight(GraphSubject subject, Node node) {
        return subject.constant(node.input(0))
                .map(codes -> codes.dtype() == DType.I4 || codes.dtype() == DType.U4)
                .orElse(false);
    }

    /** Activations with more than one scale. */
    static final GraphRule ACTIVATION_AXIS = Demand.error("onnx-activation-axis", Consumer.TENSORRT)
            .text("A quantised activation has one scale.")
            .fix("calibrate per tensor")
            .source("NVIDIA/Model-Optimizer#118, NVIDIA/TensorRT#4516, docs.nvidia.com: TensorRT, Working with"
                    + " Quantized Types")
            .onGraphs(OnnxScaleRules::activationAxis);

    private static void activationAxis(GraphSubject subject, Report report) {
        subject.nodes("QuantizeLinear")
                .filter(n -> subject.constant(n.input(0)).isEmpty())
                .forEach(n -> activationAxis(n, subject, report));
    }

    private static void activationAxis(Node node, GraphSubject subject, Report report) {
        subject.constant(node.input(1))
                .filter(s -> s.shape().elementCount() > 1)
                .ifPresent(s -> report.add(
                        "an activation has more than one scale",
                        node.id(),
                        s.shape().toString()));
    }

    /** Zero points of 8-bit floats that are not zero. */
    static final GraphRule ZERO_POINT = Demand.error("onnx-zero-point", Consumer.OF_GRAPHS)
            .text("The zero point of 8-bit floats is 0.")
            .fix("write zeros of the codes' type")
            .source("onnx/onnx:docs/Operators.md")
            .onGraphs(OnnxScaleRules::zeroPoint);

    private static void zeroPoint(GraphSubject subject, Report report) {
        Stream.concat(subject.float8Quantizers(), subject.float8Dequantizers())
                .filter(n -> subject.constant(n.input(2))
                        .map(OnnxScaleRules::hasOther)
                        .orElse(false))
                .forEach(n -> report.add("a zero point is not zero", n.id(), ""));
    }

    private static boolean hasOther(Tensor zero) {
        for (long i = 0; i < zero.bytes().byteSize(); i++) {
            if (zero.dtype().isFloat8() && (zero.bytes().get(ValueLayout.JAVA_BYTE, i) & 0x7F) != 0) {
                return true;
            }
        }
        return false;
    }

    private OnnxScaleRules() {}
}
