package dev.octet.converter.verify;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;

/** What TensorRT takes of integers. */
final class OnnxIntegerRules {
    /** Unsigned codes, and zero points. */
    static final GraphRule KIND = Demand.error("onnx-integer-kind", Consumer.TENSORRT)
            .text("Integers are signed, of 8 or 4 bits, with zero points 0: TensorRT quantises symmetrically only.")
            .fix("octet quantize --recipe int8 --target tensorrt, or symmetric INT8 for activations and weights")
            .source("NVIDIA/TensorRT#4698, docs.nvidia.com: TensorRT, Working with Quantized Types")
            .onGraphs(OnnxIntegerRules::kind);

    private static void kind(GraphSubject subject, Report report) {
        Stream.concat(subject.nodes("QuantizeLinear"), subject.nodes("DequantizeLinear"))
                .forEach(n -> {
                    DType type = n.is("QuantizeLinear") ? subject.output(n) : subject.codes(n);
                    if (type == null || type.isFloat()) {
                        return;
                    }
                    boolean weight = subject.constant(n.input(0)).isPresent();
                    if (type != DType.I8 && type != DType.I4 && !(weight && type == DType.I32)) {
                        report.add("codes are of type " + type, n.id(), "");
                    } else if (subject.constant(n.input(2))
                            .filter(OnnxIntegerRules::hasOther)
                            .isPresent()) {
                        report.add("a zero point is not 0", n.id(), "");
                    }
                });
    }

    private static boolean hasOther(Tensor zero) {
        MemorySegment bytes = zero.bytes();
        for (long i = 0; i < bytes.byteSize(); i++) {
            if (bytes.get(ValueLayout.JAVA_BYTE, i) != 0) {
                return true;
            }
        }
        return false;
    }

    /** Operators on integers that TensorRT's parser does not know. */
    static final GraphRule OPERATOR = Demand.error("onnx-integer-operator", Consumer.TENSORRT)
            .text("Quantisation is written as QuantizeLinear and DequantizeLinear: TensorRT imports no products of"
                    + " integers, no DynamicQuantizeLinear, and none of ONNX Runtime's operators.")
            .fix("octet quantize --recipe int8 --target tensorrt, or quant_format=QDQ of ONNX Runtime's quantizer")
            .source("onnx/onnx-tensorrt#560, NVIDIA/TensorRT#3963, onnx/onnx-tensorrt:docs/operators.md")
            .onGraphs(OnnxIntegerRules::operator);

    private static final Set<String> OPERATORS =
            Set.of("QLinearMatMul", "QLinearConv", "MatMulInteger", "ConvInteger", "DynamicQuantizeLinear");

    private static final List<String> RUNTIMES = List.of("com.microsoft", "com.microsoft.nchwc");

    private static void operator(GraphSubject subject, Report report) {
        for (Node n : subject.nodes()) {
            boolean own = RUNTIMES.contains(n.domain());
            if (own || (n.domain().isEmpty() && OPERATORS.contains(n.opType()))) {
                report.add("TensorRT does not import an operator", n.id(), (own ? n.domain() + "." : "") + n.opType());
            }
        }
    }

    private OnnxIntegerRules() {}
}
