package dev.octet.converter.verify;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Float8Format;
import java.lang.foreign.ValueLayout;
import java.util.EnumSet;
import java.util.Set;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** Number types and codes in ONNX graphs. */
final class OnnxTypeRules {
    /** QuantizeLinear without a type for its output. */
    static final GraphRule QUANTIZED = Demand.warning("onnx-quantized-type", Consumer.OF_GRAPHS)
            .text("Every QuantizeLinear gives its output type by a zero point or output_dtype: otherwise it"
                    + " produces unsigned bytes, which TensorRT refuses.")
            .fix("add a zero point of type FLOAT8E4M3FN and value 0")
            .source("onnx/onnx:docs/Operators.md, docs.nvidia.com: TensorRT, Working with Quantized Types")
            .onGraphs(OnnxTypeRules::quantized);

    private static final Set<Consumer> RUNTIME = EnumSet.of(Consumer.ONNXRUNTIME);

    private static final Set<Consumer> TENSORRT = EnumSet.of(Consumer.TENSORRT);

    private static void quantized(GraphSubject subject, Report report) {
        subject.nodes("QuantizeLinear")
                .filter(n -> !n.hasInput(2) && n.intAttribute("output_dtype", 0) == 0)
                .forEach(n -> {
                    String what = "a QuantizeLinear does not say its type, and makes unsigned bytes";
                    report.add(Severity.WARNING, RUNTIME, what, n.id(), "");
                    report.add(Severity.ERROR, TENSORRT, what, n.id(), "");
                });
    }

    /** 8-bit floats of another kind than E4M3FN. */
    static final GraphRule FLOAT8_KIND = Demand.error("onnx-float8-kind", Consumer.OF_GRAPHS)
            .text("8-bit floats are E4M3FN: TensorRT supports no other type, and ONNX Runtime on CUDA does not"
                    + " support FNUZ.")
            .fix("quantise to E4M3FN")
            .source("docs.nvidia.com: TensorRT, Working with Quantized Types,"
                    + " microsoft/onnxruntime:docs/OperatorKernels.md, microsoft/onnxruntime#18473")
            .onGraphs(OnnxTypeRules::float8Kind);

    private static void float8Kind(GraphSubject subject, Report report) {
        Stream.concat(subject.float8Quantizers(), subject.float8Dequantizers()).forEach(n -> {
            @Nullable DType type = n.is("QuantizeLinear") ? subject.output(n) : subject.codes(n);
            if (type == DType.F8_E5M2 || type == DType.F8_E4M3FNUZ || type == DType.F8_E5M2FNUZ) {
                report.add(Severity.ERROR, TENSORRT, "codes are of type " + type, n.id(), "");
                if (type != DType.F8_E5M2) {
                    report.add(Severity.ADVICE, RUNTIME, "codes are of type " + type, n.id(), "");
                }
            }
        });
    }

    /** Casts to 8-bit floats. */
    static final GraphRule CAST = Demand.error("onnx-cast", Consumer.TENSORRT)
            .text("Values become 8-bit floats by QuantizeLinear, not by Cast.")
            .fix("replace Cast by QuantizeLinear with scale 1")
            .source("docs.nvidia.com: TensorRT, Working with Quantized Types")
            .onGraphs(OnnxTypeRules::cast);

    private static void cast(GraphSubject subject, Report report) {
        subject.nodes("Cast")
                .filter(n -> DType.ofOnnxId((int) n.intAttribute("to", 0))
                        .map(DType::isFloat8)
                        .orElse(false))
                .forEach(n -> report.add("a Cast makes 8-bit floats", n.id(), ""));
    }

    /** Codes of constants that are NaN. */
    static final GraphRule WEIGHT_NAN = Demand.error("onnx-weight-nan", Consumer.OF_GRAPHS)
            .text("No code of a constant in 8-bit floats is NaN or infinite.")
            .fix("quantise the weight again")
            .source("NVIDIA/Model-Optimizer#1397")
            .readingWeights()
            .onGraphs(OnnxTypeRules::weightNan);

    private static void weightNan(GraphSubject subject, Report report) {
        subject.constants().forEach((name, tensor) -> {
            if (tensor.dtype().isFloat8()) {
                long count = count(tensor);
                if (count > 0) {
                    report.add(
                            "a constant has codes that are NaN or infinite",
                            name,
                            count + " of " + tensor.shape().elementCount());
                }
            }
        });
    }

    private static long count(Tensor tensor) {
        float[] values = Float8Format.of(tensor.dtype()).orElseThrow().decodeTable();
        long found = 0;
        for (long i = 0; i < tensor.bytes().byteSize(); i++) {
            found += Float.isFinite(values[tensor.bytes().get(ValueLayout.JAVA_BYTE, i) & 0xFF]) ? 0 : 1;
        }
        return found;
    }

    private OnnxTypeRules() {}
}
