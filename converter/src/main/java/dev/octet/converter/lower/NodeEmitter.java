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
import dev.octet.quant.cast.Floats;
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
    /** What unsigned codes of four bits are above signed ones. */
    private static final int UNSIGNED_UP = 8;

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

    /** QuantizeLinear of {@code x} before {@code anchor}. */
    void quantize(Node anchor, String x, LinearForm.Codes codes) {
        edit.insertBefore(
                anchor,
                Node.of(codes.name(), "QuantizeLinear", List.of(x, codes.scale(), zero(codes)), List.of(codes.name())));
    }

    /** DequantizeLinear of codes before {@code anchor}; returns the name of its values. */
    String dequantize(Node anchor, LinearForm.Codes codes) {
        String dq = edit.freshName(codes.name() + "_dq");
        edit.insertBefore(
                anchor,
                Node.of(dq, "DequantizeLinear", List.of(codes.name(), codes.scale(), zero(codes)), List.of(dq)));
        return dq;
    }

    /** A scalar I8 zero point as U8, 128 higher, in its place. */
    String unsigned(String zero) {
        Tensor signed = constant(zero);
        if (signed.dtype() == DType.I8) {
            Tensor t = Tensor.allocate(arena, new TensorSpec(zero, DType.U8, Shape.SCALAR));
            t.bytes().set(ValueLayout.JAVA_BYTE, 0, (byte) (signed.bytes().get(ValueLayout.JAVA_BYTE, 0) + 128));
            edit.putInitializer(new Initializer(zero, new Initializer.Dense(t), "", Map.of(), Bytes.EMPTY));
        }
        return zero;
    }

    private String zero(LinearForm.Codes codes) {
        return codes.zero().isEmpty() ? zeroPoint(codes.type(), Shape.SCALAR) : codes.zero();
    }

    /**
     * DequantizeLinear of a weight in blocks along its inputs, codes of four bits, two to a byte, as {@code [in, out]}. ONNX Runtime with
     * default options makes MatMulNBits of it and of the MatMul behind; TensorRT reads it as it is.
     *
     * <p>With zero points both are unsigned, 8 higher: MatMulNBits has unsigned codes.
     *
     * @param codes I8, one to a byte; they are replaced, and scales and zero points with them
     * @param zeros name of the zero points, I8; empty where zero has the code 0
     * @param transB whether all are {@code [out, in]}
     */
    Node dequantizeBlocks(String codes, String scale, String zeros, boolean transB) {
        boolean packed = constant(codes).dtype() != DType.I8; // by a Linear with the same weight
        DType type = zeros.isEmpty() ? DType.I4 : DType.U4;
        String blocks = packed ? codes : pack(codes, type, transB);
        String scales = !packed && transB ? turned(scale) : scale;
        if (!zeros.isEmpty() && !packed) {
            pack(zeros, type, transB);
        }
        long block = constant(blocks).shape().dim(0) / constant(scales).shape().dim(0);
        String out = edit.freshName(codes + "_dq");
        return Node.of(
                out,
                "DequantizeLinear",
                zeros.isEmpty() ? List.of(blocks, scales) : List.of(blocks, scales, zeros),
                List.of(out),
                Attribute.of("axis", 0),
                Attribute.of("block_size", block));
    }

    private String pack(String codes, DType type, boolean transB) {
        Tensor w = constant(codes);
        long in = w.shape().dim(transB ? 1 : 0);
        long out = w.shape().dim(transB ? 0 : 1);
        Tensor packed = Tensor.allocate(arena, new TensorSpec(codes, type, Shape.of(in, out)));
        int up = type == DType.U4 ? UNSIGNED_UP : 0;
        for (long i = 0; i < in * out; i++) {
            long from = transB ? i % out * in + i / out : i;
            int code = w.bytes().get(ValueLayout.JAVA_BYTE, from) + up & 0xF;
            int earlier = i % 2 == 0 ? 0 : packed.bytes().get(ValueLayout.JAVA_BYTE, i / 2);
            packed.bytes().set(ValueLayout.JAVA_BYTE, i / 2, (byte) (earlier | code << (i % 2 * 4)));
        }
        edit.putInitializer(new Initializer(codes, new Initializer.Dense(packed), "", Map.of(), Bytes.EMPTY));
        return codes;
    }

    /** A constant matrix turned, in place. */
    private String turned(String name) {
        Tensor s = constant(name);
        long rows = s.shape().dim(0);
        long columns = s.shape().dim(1);
        Tensor t = Tensor.allocate(arena, new TensorSpec(name, s.dtype(), Shape.of(columns, rows)));
        for (long i = 0; i < rows * columns; i++) {
            Floats.set(t.dtype(), t.bytes(), i, Floats.get(s.dtype(), s.bytes(), i % rows * columns + i / rows));
        }
        edit.putInitializer(new Initializer(name, new Initializer.Dense(t), "", Map.of(), Bytes.EMPTY));
        return name;
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
