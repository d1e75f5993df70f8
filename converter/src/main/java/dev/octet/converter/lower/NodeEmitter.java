package dev.octet.converter.lower;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Bytes;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;

/** What every lowering needs while it replaces nodes: shared constants, fresh names, ranks. One per graph being lowered. */
final class NodeEmitter {
    final GraphEdit edit;
    private final Arena arena;
    private final Map<String, String> zeroPoints = new HashMap<>();
    private final Map<Long, String> counts = new HashMap<>();

    NodeEmitter(GraphEdit edit, Arena arena) {
        this.edit = edit;
        this.arena = arena;
    }

    /** Rank of a value where the graph has it. */
    OptionalInt rank(String value) {
        return edit.type(value) instanceof TensorType t && t.dims() != null
                ? OptionalInt.of(t.dims().size())
                : OptionalInt.empty();
    }

    /** The tensor of a constant that a rewrite has put there. */
    Tensor constant(String name) {
        Initializer i = edit.initializer(name);
        return (i == null ? Optional.<Tensor>empty() : i.tensor())
                .orElseThrow(() -> new IllegalStateException("'" + name + "' is not a constant tensor of the graph"));
    }

    /**
     * A zero point of {@code shape} (scalar or one per channel), shared by all that need it. FP8 zero is code 0x00; it is
     * written out because without a typed zero point QuantizeLinear means UINT8 (ONNX QuantizeLinear, formats since opset 19).
     */
    String zeroPoint(DType dtype, Shape shape) {
        return zeroPoints.computeIfAbsent(dtype + shape.toString(), k -> {
            String base = dtype.isFloat() ? "fp8_zero" : "int_zero";
            String name = edit.freshName(shape.rank() == 0 ? base : base + "_" + shape.dim(0));
            edit.putInitializer(Initializer.of(Tensor.allocate(arena, new TensorSpec(name, dtype, shape))));
            return name;
        });
    }

    /** QuantizeLinear and DequantizeLinear of {@code x} before {@code anchor}; returns the name of the values behind them. */
    String quantizeAndBack(Node anchor, String x, LinearForm.Codes codes) {
        String zero = codes.zero().isEmpty() ? zeroPoint(codes.type(), Shape.SCALAR) : codes.zero();
        String dq = edit.freshName(codes.name() + "_dq");
        edit.insertBefore(
                anchor,
                Node.of(codes.name(), "QuantizeLinear", List.of(x, codes.scale(), zero), List.of(codes.name())),
                Node.of(dq, "DequantizeLinear", List.of(codes.name(), codes.scale(), zero), List.of(dq)));
        return dq;
    }

    /** A constant I64 vector with one number. */
    String count(long n) {
        return counts.computeIfAbsent(n, k -> {
            String name = edit.freshName("count_" + n);
            edit.putInitializer(Initializer.of(Tensor.ofLongs(arena, name, Shape.of(1), n)));
            return name;
        });
    }

    /** A constant zero vector of {@code dtype}. */
    String zeros(DType dtype, long n) {
        return zeroPoints.computeIfAbsent("zeros" + dtype + n, k -> {
            String name = edit.freshName("zeros_" + n);
            edit.putInitializer(Initializer.of(Tensor.allocate(arena, new TensorSpec(name, dtype, Shape.of(n)))));
            return name;
        });
    }

    /** The 2-D codes of {@code name} transposed, in place of the original when it has no other reader. */
    String transposed(String name) {
        Tensor w = constant(name);
        long rows = w.shape().dim(0);
        long cols = w.shape().dim(1);
        Tensor t = Tensor.allocate(arena, new TensorSpec(name, w.dtype(), Shape.of(cols, rows)));
        MemorySegment from = w.bytes();
        MemorySegment to = t.bytes();
        for (long c = 0; c < cols; c++) {
            for (long r = 0; r < rows; r++) {
                to.set(ValueLayout.JAVA_BYTE, c * rows + r, from.get(ValueLayout.JAVA_BYTE, r * cols + c));
            }
        }
        String target = edit.consumers(name).size() == 1 ? name : edit.freshName(name + "_t");
        edit.putInitializer(
                new Initializer(target, new Initializer.Dense(t.withName(target)), "", Map.of(), Bytes.EMPTY));
        return target;
    }

    /** DequantizeLinear of a weight's codes; per channel along {@code axis} when the scale is a vector. Returns its node. */
    Node dequantizeWeight(String codes, String scale, long axis, String base) {
        Tensor s = constant(scale);
        String zero = zeroPoint(constant(codes).dtype(), s.shape());
        String out = edit.freshName(base + "_dq");
        Node dq = Node.of(out, "DequantizeLinear", List.of(codes, scale, zero), List.of(out));
        return s.shape().rank() == 0 ? dq : dq.with(Attribute.of("axis", axis));
    }
}
