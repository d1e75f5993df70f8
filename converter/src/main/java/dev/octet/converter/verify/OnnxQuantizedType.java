package dev.octet.converter.verify;

import java.util.EnumSet;
import java.util.Set;

/** QuantizeLinear that does not say what it makes. */
final class OnnxQuantizedType extends GraphRule {
    OnnxQuantizedType() {
        super(
                "onnx-quantized-type",
                Severity.WARNING,
                Consumer.OF_GRAPHS,
                "Every QuantizeLinear says its type by a zero point or output_dtype: else it makes unsigned bytes,"
                        + " which TensorRT refuses.",
                "add a zero point of type FLOAT8E4M3FN and value 0",
                "onnx/onnx:docs/Operators.md, docs.nvidia.com: TensorRT, Working with Quantized Types");
    }

    private static final Set<Consumer> RUNTIME = EnumSet.of(Consumer.ONNXRUNTIME);
    private static final Set<Consumer> TENSORRT = EnumSet.of(Consumer.TENSORRT);

    @Override
    void check(GraphSubject subject, Findings findings) {
        subject.nodes("QuantizeLinear")
                .filter(n -> !n.hasInput(2) && n.intAttribute("output_dtype", 0) == 0)
                .forEach(n -> {
                    String what = "a QuantizeLinear does not say its type, and makes unsigned bytes";
                    findings.add(this, Severity.WARNING, RUNTIME, what, n.id(), "");
                    findings.add(this, Severity.ERROR, TENSORRT, what, n.id(), "");
                });
    }
}
