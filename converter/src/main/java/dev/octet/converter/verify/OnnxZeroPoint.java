package dev.octet.converter.verify;

import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.ValueLayout;
import java.util.stream.Stream;

/** Zero points of 8-bit floats that are not zero. */
final class OnnxZeroPoint extends GraphRule {
    OnnxZeroPoint() {
        super(
                "onnx-zero-point",
                Severity.ERROR,
                Consumer.OF_GRAPHS,
                "The zero point of 8-bit floats is 0.",
                "write zeros of the codes' type",
                "onnx/onnx:docs/Operators.md");
    }

    @Override
    void check(GraphSubject subject, Findings findings) {
        Stream.concat(subject.float8Quantizers(), subject.float8Dequantizers())
                .filter(n -> subject.constant(n.input(2))
                        .map(OnnxZeroPoint::hasOther)
                        .orElse(false))
                .forEach(n -> findings.add(this, "a zero point is not zero", n.id(), ""));
    }

    private static boolean hasOther(Tensor zero) {
        for (long i = 0; i < zero.bytes().byteSize(); i++) {
            if (zero.dtype().isFloat8() && (zero.bytes().get(ValueLayout.JAVA_BYTE, i) & 0x7F) != 0) {
                return true;
            }
        }
        return false;
    }
}
