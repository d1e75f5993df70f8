package dev.octet.converter.verify;

import dev.octet.formats.tensor.DType;
import java.util.EnumSet;
import java.util.Set;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** 8-bit floats of another kind than E4M3FN. */
final class OnnxFloat8Kind extends GraphRule {
    OnnxFloat8Kind() {
        super(
                "onnx-float8-kind",
                Severity.ERROR,
                Consumer.OF_GRAPHS,
                "8-bit floats are E4M3FN: TensorRT knows no other, ONNX Runtime on CUDA no FNUZ.",
                "quantise to E4M3FN",
                "docs.nvidia.com: TensorRT, Working with Quantized Types,"
                        + " microsoft/onnxruntime:docs/OperatorKernels.md, microsoft/onnxruntime#18473");
    }

    private static final Set<Consumer> RUNTIME = EnumSet.of(Consumer.ONNXRUNTIME);
    private static final Set<Consumer> TENSORRT = EnumSet.of(Consumer.TENSORRT);

    @Override
    void check(GraphSubject subject, Findings findings) {
        Stream.concat(subject.float8Quantizers(), subject.float8Dequantizers()).forEach(n -> {
            @Nullable DType type = n.is("QuantizeLinear") ? subject.output(n) : subject.codes(n);
            if (type == DType.F8_E5M2 || type == DType.F8_E4M3FNUZ || type == DType.F8_E5M2FNUZ) {
                findings.add(this, Severity.ERROR, TENSORRT, "codes are of type " + type, n.id(), "");
                if (type != DType.F8_E5M2) {
                    findings.add(this, Severity.ADVICE, RUNTIME, "codes are of type " + type, n.id(), "");
                }
            }
        });
    }
}
