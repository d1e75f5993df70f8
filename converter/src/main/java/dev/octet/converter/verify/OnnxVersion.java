package dev.octet.converter.verify;

import java.util.EnumSet;
import java.util.Set;

/** Versions that a consumer does not know. */
final class OnnxVersion extends GraphRule {
    OnnxVersion() {
        super(
                "onnx-version",
                Severity.ERROR,
                Consumer.OF_GRAPHS,
                "The model's opset and IR version are ones the consumer knows: ONNX Runtime 1.30 opset 26 and IR 13,"
                        + " TensorRT 11 opset 25.",
                "export with a lower opset and the lowest IR version that it permits",
                "onnx/onnx:onnx/helper.py, microsoft/onnxruntime:docs/OperatorKernels.md, docs.nvidia.com: TensorRT,"
                        + " Working with Quantized Types");
    }

    private static final Set<Consumer> RUNTIME = EnumSet.of(Consumer.ONNXRUNTIME);
    private static final Set<Consumer> TENSORRT = EnumSet.of(Consumer.TENSORRT);
    private static final long RUNTIME_OPSET = 26;
    private static final long RUNTIME_IR = 13;
    private static final long TENSORRT_OPSET = 25;

    @Override
    void check(GraphSubject subject, Findings findings) {
        long opset = subject.model().opset();
        if (opset > RUNTIME_OPSET) {
            findings.add(
                    this,
                    severity(),
                    RUNTIME,
                    "the opset is too new",
                    "opset",
                    opset + ", known up to " + RUNTIME_OPSET);
        }
        if (subject.model().irVersion() > RUNTIME_IR) {
            findings.add(
                    this,
                    severity(),
                    RUNTIME,
                    "the IR version is too new",
                    "ir_version",
                    subject.model().irVersion() + ", known up to " + RUNTIME_IR);
        }
        if (opset > TENSORRT_OPSET) {
            findings.add(
                    this,
                    severity(),
                    TENSORRT,
                    "the opset is too new",
                    "opset",
                    opset + ", known up to " + TENSORRT_OPSET);
        }
    }
}
