package dev.octet.converter.verify;

import dev.octet.converter.verify.GraphSubject.Made;
import dev.octet.converter.verify.GraphSubject.Read;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** Scales and zero points beside each other: where codes are made, and where they are read. */
final class OnnxCodeRules {
    private static final String QUANTIZE = "QuantizeLinear";

    /** Zero points of another type or number than the codes have. */
    static final GraphRule ZERO_POINT_TYPE = Demand.error("onnx-zero-point-type", Consumer.OF_GRAPHS)
            .text("A zero point has the type of its codes, and as many elements as the scale.")
            .fix("store it in the type of the codes, one for each scale")
            .source("onnx/onnx:docs/Operators.md")
            .onGraphs(OnnxCodeRules::zeroPointType);

    private static void zeroPointType(GraphSubject subject, Report report) {
        for (Read read : subject.reads()) {
            Optional<Tensor> zero = subject.constant(read.zero());
            DType codes = subject.codes(read.codes());
            if (zero.isPresent() && codes != null && zero.get().dtype() != codes) {
                report.add(
                        "a zero point has another type than the codes",
                        read.node().id(),
                        zero.get().dtype() + ", codes in " + codes);
            }
            count(subject, read.node(), read.scale(), read.zero(), report);
        }
        subject.nodes(QUANTIZE).forEach(n -> {
            DType declared =
                    DType.ofOnnxId((int) n.intAttribute("output_dtype", 0)).orElse(null);
            Optional<Tensor> zero = subject.constant(n.input(2));
            if (declared != null && zero.isPresent() && zero.get().dtype() != declared) {
                report.add(
                        "a zero point has another type than the codes",
                        n.id(),
                        zero.get().dtype() + ", codes in " + declared);
            }
            count(subject, n, n.input(1), n.input(2), report);
        });
    }

    private static void count(GraphSubject subject, Node node, String scale, String zero, Report report) {
        Optional<Tensor> scales = subject.constant(scale);
        Optional<Tensor> zeros = subject.constant(zero);
        if (scales.isPresent()
                && zeros.isPresent()
                && scales.get().shape().elementCount() != zeros.get().shape().elementCount()) {
            report.add(
                    "a zero point has another shape than its scale",
                    node.id(),
                    zeros.get().shape() + ", scale " + scales.get().shape());
        }
    }

    /** Codes that are read with other scales or zero points than those that made them. */
    static final GraphRule AGREES = Demand.error("onnx-codes-agree", Consumer.OF_GRAPHS)
            .text("Codes are read with the scale and the zero point that they were made with: otherwise every value"
                    + " is wrong, by a factor or by a shift.")
            .fix("give both nodes the same constants")
            .source("onnx/onnx:docs/Operators.md")
            .onGraphs(OnnxCodeRules::agrees);

    private static void agrees(GraphSubject subject, Report report) {
        for (Read read : subject.reads()) {
            Made made = subject.made(read.codes());
            if (made == null) {
                continue;
            }
            if (!read.scale().isEmpty() && !isSame(subject, made.scale(), read.scale())) {
                report.add(
                        "codes are read with another scale than they were made with",
                        read.node().id(),
                        "made by " + made.node().id());
            }
            if (!isSame(subject, made.zero(), read.zero())) {
                report.add(
                        "codes are read with another zero point than they were made with",
                        read.node().id(),
                        "made by " + made.node().id());
            }
        }
    }

    /** Whether two values are the same, as far as constants and producers tell; no value is zero. */
    private static boolean isSame(GraphSubject subject, String a, String b) {
        if (a.equals(b)) {
            return true;
        }
        Optional<Tensor> first = subject.constant(a);
        Optional<Tensor> second = subject.constant(b);
        if (first.isPresent() && second.isPresent()) {
            return first.get().bytes().mismatch(second.get().bytes()) < 0;
        }
        if (first.isPresent() || second.isPresent()) {
            Tensor known = first.or(() -> second).orElseThrow();
            return (first.isPresent() ? b : a).isEmpty() && isZero(known.bytes());
        }
        if (a.isEmpty() || b.isEmpty()) {
            return false; // computed on one side, left out on the other
        }
        Node one = subject.producer(a);
        Node other = subject.producer(b);
        boolean ranges =
                one != null && other != null && one.is("DynamicQuantizeLinear") && other.is("DynamicQuantizeLinear");
        return !ranges;
    }

    private static boolean isZero(MemorySegment bytes) {
        for (long i = 0; i < bytes.byteSize(); i++) {
            if (bytes.get(ValueLayout.JAVA_BYTE, i) != 0) {
                return false;
            }
        }
        return true;
    }

    /** Scales of biases that are not those of the products they are added to. */
    static final GraphRule BIAS_SCALE = Demand.error("onnx-bias-scale", Consumer.OF_GRAPHS)
            .text("The scale of a bias in 32-bit integers is the scale of the input times that of the weight:"
                    + " kernels add it to the sum of the products and do not read its own scale.")
            .fix("quantise the bias again with input scale * weight scale, zero point 0")
            .source(
                    "microsoft/onnxruntime:onnxruntime/core/optimizer/qdq_transformer/selectors_actions/qdq_selectors.cc,"
                        + " onnx/onnx:docs/Operators.md (QLinearConv)")
            .onGraphs(OnnxCodeRules::biasScale);

    /** Relative difference that storing scales in F32 does not make. */
    private static final double NEAR = 1e-3;

    private static void biasScale(GraphSubject subject, Report report) {
        for (Node node : subject.nodes()) {
            if (!node.is("Conv") && !node.is("Gemm")) {
                continue;
            }
            float[] bias = scales(subject, node.input(2), DType.I32);
            float[] input = scales(subject, node.input(0), null);
            float[] weight = scales(subject, node.input(1), null);
            if (bias == null || input == null || weight == null || input.length != 1) {
                continue;
            }
            int n = Math.max(bias.length, weight.length);
            for (int i = 0; i < n; i++) {
                double want = (double) input[0] * weight[weight.length == 1 ? 0 : i % weight.length];
                double have = bias[bias.length == 1 ? 0 : i % bias.length];
                if (!(Math.abs(have - want) <= NEAR * want)) {
                    report.add(
                            "the scale of a bias is not input scale * weight scale",
                            node.id(),
                            String.format(Locale.ROOT, "%.4g, should be %.4g", have, want));
                    break;
                }
            }
        }
    }

    /** The constant F32 scales behind which a value is dequantised, from codes of a type; null for others. */
    private static float @Nullable [] scales(GraphSubject subject, String value, @Nullable DType type) {
        Node dequantize = subject.producer(value);
        if (dequantize == null || !dequantize.is("DequantizeLinear")) {
            return null;
        }
        DType codes = subject.codes(dequantize.input(0));
        Tensor scale = subject.constant(dequantize.input(1)).orElse(null);
        boolean fits = type == null ? codes != DType.I32 : codes == type;
        return fits
                        && scale != null
                        && scale.dtype() == DType.F32
                        && scale.bytes().byteSize() > 0
                ? scale.toFloats()
                : null;
    }

    /** Signed activations on x86. */
    static final GraphRule SIGNED_INPUT = Demand.advice("onnx-signed-input", Set.of(Consumer.ONNXRUNTIME))
            .text("Activations that are multiplied with signed weights are unsigned: on x86-64 the kernels of ONNX"
                    + " Runtime multiply U8 by S8, and with signed activations many products stay in float.")
            .fix("octet quantize --recipe int8 --target onnxruntime, or activation_type=QUInt8 of its quantizer;"
                    + " leave it for ARM, GPUs and TensorRT")
            .source("microsoft/onnxruntime:docs (Quantize ONNX models, data type selection)")
            .onGraphs(OnnxCodeRules::signedInput);

    private static void signedInput(GraphSubject subject, Report report) {
        subject.nodes(QUANTIZE)
                .filter(n -> subject.constant(n.input(0)).isEmpty() && subject.output(n) == DType.I8)
                .forEach(n -> report.add("an activation is quantised to signed integers", n.id(), ""));
    }

    private OnnxCodeRules() {}
}
