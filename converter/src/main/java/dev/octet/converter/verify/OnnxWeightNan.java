package dev.octet.converter.verify;

import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Float8Format;
import java.lang.foreign.ValueLayout;

/** Codes of constants that are NaN. */
final class OnnxWeightNan extends GraphRule {
    OnnxWeightNan() {
        super(
                "onnx-weight-nan",
                Severity.ERROR,
                Consumer.OF_GRAPHS,
                "No code of a constant in 8-bit floats is NaN or infinite.",
                "quantise the weight again",
                "NVIDIA/Model-Optimizer#1397");
    }

    @Override
    public boolean deep() {
        return true;
    }

    @Override
    void check(GraphSubject subject, Findings findings) {
        subject.constants().forEach((name, tensor) -> {
            if (tensor.dtype().isFloat8()) {
                long count = count(tensor);
                if (count > 0) {
                    findings.add(
                            this,
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
}
