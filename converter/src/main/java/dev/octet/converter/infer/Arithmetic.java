package dev.octet.converter.infer;

import dev.octet.formats.graph.Dim;
import dev.octet.formats.op.OperatorTable;
import dev.octet.formats.op.OutputRule;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Operators that compute, on integers, truth values, F32 and F64. All return null where the exact result cannot be known and has to
 * be left to the runtime.
 */
final class Arithmetic {
    private Arithmetic() {}

    // ---- two operands
    // -------------------------------------------------------------------------------------------------

    static @Nullable KnownValue binary(String op, boolean fmod, KnownValue a, KnownValue b) {
        Shape shape = BroadcastShape.join(a.shape(), b.shape()).orElse(null);
        if (shape == null || a.dtype() != b.dtype() || a.dtype() == DType.U64) {
            return null;
        }
        int[] ia = BroadcastShape.indices(a.shape(), shape);
        int[] ib = BroadcastShape.indices(b.shape(), shape);
        if (!a.isComplete() || !b.isComplete()) {
            return dims(op, shape, a, ia, b, ib);
        }
        return switch (a.dtype()) {
            case F32, F64 -> reals(op, shape, a, ia, b, ib);
            case BOOL, I8, U8, I16, U16, I32, U32, I64 -> integers(op, fmod, shape, a, ia, b, ib);
            default -> null; // types whose arithmetic runtimes do in a wider one
        };
    }

    private static @Nullable KnownValue integers(
            String op, boolean fmod, Shape shape, KnownValue a, int[] ia, KnownValue b, int[] ib) {
        boolean truth = a.dtype() == DType.BOOL;
        DType result = isComparison(op) || truth ? DType.BOOL : a.dtype();
        long[] out = new long[ia.length];
        for (int e = 0; e < out.length; e++) {
            long x = a.raw(ia[e]);
            long y = b.raw(ib[e]);
            if ((op.equals("Div") || op.equals("Mod")) && (y == 0 || (x == Long.MIN_VALUE && y == -1))) {
                return null;
            }
            Long r = truth ? ofTruth(op, x, y) : ofIntegers(op, fmod, x, y);
            if (r == null) {
                return null;
            }
            out[e] = KnownValue.canonical(result, r);
        }
        return KnownValue.of(result, shape, out);
    }

    /** Whether shapes and positions are written in this type. */
    private static boolean isIndex(DType dtype) {
        return dtype == DType.I64 || dtype == DType.I32;
    }

    private static boolean isComparison(String op) {
        return OperatorTable.of("", op).orElseThrow().output() == OutputRule.COMPARISON;
    }

    private static @Nullable Long ofTruth(String op, long x, long y) {
        return switch (op) {
            case "And" -> x & y;
            case "Or" -> x | y;
            case "Xor" -> x ^ y;
            case "Equal" -> x == y ? 1L : 0L;
            default -> null;
        };
    }

    private static @Nullable Long ofIntegers(String op, boolean fmod, long x, long y) {
        return switch (op) {
            case "Add" -> x + y;
            case "Sub" -> x - y;
            case "Mul" -> x * y;
            case "Div" -> x / y; // truncates toward zero, as C++ does in every runtime
            case "Mod" -> fmod ? x % y : Math.floorMod(x, y);
            case "Min" -> Math.min(x, y);
            case "Max" -> Math.max(x, y);
            case "Equal" -> x == y ? 1L : 0L;
            case "Less" -> x < y ? 1L : 0L;
            case "LessOrEqual" -> x <= y ? 1L : 0L;
            case "Greater" -> x > y ? 1L : 0L;
            case "GreaterOrEqual" -> x >= y ? 1L : 0L;
            default -> null;
        };
    }

    private static @Nullable KnownValue reals(String op, Shape shape, KnownValue a, int[] ia, KnownValue b, int[] ib) {
        DType result = isComparison(op) ? DType.BOOL : a.dtype();
        long[] out = new long[ia.length];
        for (int e = 0; e < out.length; e++) {
            double x = a.real(ia[e]);
            double y = b.real(ib[e]);
            switch (op) {
                case "Equal" -> out[e] = x == y ? 1 : 0;
                case "Less" -> out[e] = x < y ? 1 : 0;
                case "LessOrEqual" -> out[e] = x <= y ? 1 : 0;
                case "Greater" -> out[e] = x > y ? 1 : 0;
                case "GreaterOrEqual" -> out[e] = x >= y ? 1 : 0;
                case "Add" -> out[e] = bits(result, x + y);
                case "Sub" -> out[e] = bits(result, x - y);
                case "Mul" -> out[e] = bits(result, x * y);
                case "Div" -> out[e] = bits(result, x / y);
                default -> {
                    return null; // Mod, Min and Max: runtimes differ on NaN and on signs of zero
                }
            }
        }
        return KnownValue.of(result, shape, out);
    }

    /**
     * Raw bits of {@code value} rounded to {@code dtype}. For one F32 operation done in double this rounds as the operation in
     * F32 does: 53 bits are more than twice 24 and two (Figueroa 1995, "When is double rounding innocuous?").
     */
    private static long bits(DType dtype, double value) {
        return dtype == DType.F32
                ? Float.floatToRawIntBits((float) value) & 0xFFFF_FFFFL
                : Double.doubleToRawLongBits(value);
    }

    /** Half-known integers: numbers compute, and a symbol survives the operations that leave any number as it is. */
    private static @Nullable KnownValue dims(String op, Shape shape, KnownValue a, int[] ia, KnownValue b, int[] ib) {
        if (!isIndex(a.dtype()) || isComparison(op)) {
            return null;
        }
        List<Dim> out = new ArrayList<>(ia.length);
        for (int e = 0; e < ia.length; e++) {
            Dim d = dim(op, a, ia[e], b, ib[e]);
            if (d == null) {
                return null;
            }
            out.add(d);
        }
        return KnownValue.ofDims(a.dtype(), shape, out);
    }

    private static @Nullable Dim dim(String op, KnownValue a, int ia, KnownValue b, int ib) {
        if (a.isKnown(ia) && b.isKnown(ib)) {
            long y = b.raw(ib);
            Long r = (op.equals("Div") && (y == 0 || y == -1)) || op.equals("Mod")
                    ? null
                    : ofIntegers(op, false, a.raw(ia), y);
            return r == null ? Dim.UNKNOWN : Dim.of(KnownValue.canonical(a.dtype(), r));
        }
        return switch (op) {
            case "Add" -> isNumber(b, ib, 0) ? a.dim(ia) : isNumber(a, ia, 0) ? b.dim(ib) : Dim.UNKNOWN;
            case "Sub" -> isNumber(b, ib, 0) ? a.dim(ia) : Dim.UNKNOWN;
            case "Mul" -> isNumber(b, ib, 1) ? a.dim(ia) : isNumber(a, ia, 1) ? b.dim(ib) : Dim.UNKNOWN;
            case "Div" -> isNumber(b, ib, 1) ? a.dim(ia) : Dim.UNKNOWN;
            case "Min", "Max" -> a.dim(ia).sameAs(b.dim(ib)) ? a.dim(ia) : Dim.UNKNOWN;
            case "Mod" -> Dim.UNKNOWN;
            default -> null;
        };
    }

    private static boolean isNumber(KnownValue v, int i, long number) {
        return v.isKnown(i) && v.raw(i) == number;
    }

    // ---- one operand
    // --------------------------------------------------------------------------------------------------

    static @Nullable KnownValue unary(String op, KnownValue x) {
        if (!x.isComplete()) {
            return null;
        }
        boolean real = x.dtype() == DType.F32 || x.dtype() == DType.F64;
        boolean signed =
                x.dtype() == DType.I64 || x.dtype() == DType.I32 || x.dtype() == DType.I16 || x.dtype() == DType.I8;
        long[] out = new long[x.size()];
        for (int e = 0; e < out.length; e++) {
            if (op.equals("Not") && x.dtype() == DType.BOOL) {
                out[e] = 1 - x.raw(e);
            } else if (op.equals("Neg") && signed) {
                out[e] = KnownValue.canonical(x.dtype(), -x.raw(e));
            } else if (op.equals("Abs") && signed) {
                out[e] = KnownValue.canonical(x.dtype(), Math.abs(x.raw(e)));
            } else if (real) {
                double v = x.real(e);
                switch (op) {
                    case "Neg" -> out[e] = bits(x.dtype(), -v);
                    case "Abs" -> out[e] = bits(x.dtype(), Math.abs(v));
                    case "Floor" -> out[e] = bits(x.dtype(), Math.floor(v));
                    case "Ceil" -> out[e] = bits(x.dtype(), Math.ceil(v));
                    case "Sqrt" -> out[e] = bits(x.dtype(), Math.sqrt(v));
                    case "Reciprocal" -> out[e] = bits(x.dtype(), 1 / v);
                    default -> {
                        return null;
                    }
                }
            } else {
                return null;
            }
        }
        return KnownValue.of(x.dtype(), x.shape(), out);
    }

    /** Cast between integers, truth, F32, F64 and F16; null for other types and for floats that the integer cannot hold. */
    static @Nullable KnownValue cast(KnownValue x, DType to) {
        if (to == x.dtype()) {
            return x;
        }
        if (!x.isComplete()) {
            // Dimensions fit in both.
            return isIndex(to) && isIndex(x.dtype()) ? x.retyped(to) : null;
        }
        long[] out = new long[x.size()];
        for (int e = 0; e < out.length; e++) {
            Long v = x.dtype().isFloat() ? castReal(x, e, to) : castInteger(x, e, to);
            if (v == null) {
                return null;
            }
            out[e] = v;
        }
        return KnownValue.of(to, x.shape(), out);
    }

    private static @Nullable Long castInteger(KnownValue x, int e, DType to) {
        long v = x.raw(e);
        return switch (to) {
            case BOOL -> v != 0 ? 1L : 0L;
            case I8, U8, I16, U16, I32, U32, I64 -> x.dtype() == DType.U64 ? null : KnownValue.canonical(to, v);
            // (float) long rounds once, (float) (double) long would round twice
            case F32 -> x.dtype() == DType.U64 ? null : Float.floatToRawIntBits((float) v) & 0xFFFF_FFFFL;
            case F64 -> x.dtype() == DType.U64 ? null : Double.doubleToRawLongBits((double) v);
            default -> null;
        };
    }

    private static @Nullable Long castReal(KnownValue x, int e, DType to) {
        double v = switch (x.dtype()) {
            case F32, F64 -> x.real(e);
            case F16 -> Float.float16ToFloat((short) x.raw(e));
            default -> Double.NaN;
        };
        if (Double.isNaN(v)) {
            return null;
        }
        return switch (to) {
            case BOOL -> v != 0 ? 1L : 0L;
            case I32 -> Math.abs(v) < 0x1p31 ? (Long) (long) v : null;
            case I64 -> Math.abs(v) < 0x1p63 ? (Long) (long) v : null;
            case F16 -> x.dtype() == DType.F32 ? (Long) (Float.floatToFloat16((float) v) & 0xFFFFL) : null;
            case F32, F64 -> bits(to, v);
            default -> null;
        };
    }

    // ---- making and reducing
    // ------------------------------------------------------------------------------------------

    static @Nullable KnownValue range(KnownValue start, @Nullable KnownValue limit, @Nullable KnownValue delta) {
        if (limit == null || delta == null || start.size() != 1 || limit.size() != 1 || delta.size() != 1) {
            return null;
        }
        // Floats are left to the runtime: it may compute element i as start + i*delta or as a running sum.
        if (!start.isComplete() || !limit.isComplete() || !delta.isComplete() || !isIndex(start.dtype())) {
            return null;
        }
        long from = start.raw(0);
        long to = limit.raw(0);
        long step = delta.raw(0);
        long bound = 1L << 40; // differences of numbers below it cannot overflow
        if (step == 0 || Math.abs(from) > bound || Math.abs(to) > bound || Math.abs(step) > bound) {
            return null;
        }
        long count = Math.max(0, step > 0 ? Math.ceilDiv(to - from, step) : Math.ceilDiv(from - to, -step));
        if (count > KnownValue.MAX_ELEMENTS) {
            return null;
        }
        long[] out = new long[(int) count];
        for (int i = 0; i < out.length; i++) {
            out[i] = from + i * step;
        }
        return KnownValue.of(start.dtype(), Shape.of(count), out);
    }

    /** Reduces integers over {@code axes}, all of them when empty. */
    static @Nullable KnownValue reduce(String op, KnownValue x, long[] axes, boolean keepDims) {
        if (!x.isComplete() || !isIndex(x.dtype())) {
            return null;
        }
        int rank = x.shape().rank();
        boolean[] reduced = new boolean[rank];
        Arrays.fill(reduced, axes.length == 0);
        for (long axis : axes) {
            Integer a = Shapes.axis(axis, rank).orElse(null);
            if (a == null) {
                return null;
            }
            reduced[a] = true;
        }
        long[] kept = x.shape().toArray();
        for (int i = 0; i < rank; i++) {
            kept[i] = reduced[i] ? 1 : kept[i];
        }
        if (x.size() == 0 && !op.equals("ReduceProd") && !op.equals("ReduceSum")) {
            return null; // the minimum of an empty tensor is left to the runtime
        }
        Shape keptShape = Shape.of(kept);
        int[] to = BroadcastShape.indices(keptShape, x.shape());
        long[] out = new long[(int) keptShape.elementCount()];
        Arrays.fill(
                out,
                switch (op) {
                    case "ReduceProd" -> 1L;
                    case "ReduceMin" -> Long.MAX_VALUE;
                    case "ReduceMax" -> Long.MIN_VALUE;
                    default -> 0L;
                });
        for (int e = 0; e < to.length; e++) {
            long v = x.raw(e);
            out[to[e]] = switch (op) {
                case "ReduceProd" -> out[to[e]] * v;
                case "ReduceMin" -> Math.min(out[to[e]], v);
                case "ReduceMax" -> Math.max(out[to[e]], v);
                default -> out[to[e]] + v;
            };
        }
        for (int i = 0; i < out.length; i++) {
            out[i] = KnownValue.canonical(x.dtype(), out[i]);
        }
        KnownValue result = KnownValue.of(x.dtype(), keptShape, out);
        if (keepDims) {
            return result;
        }
        long[] dims = new long[rank];
        int n = 0;
        for (int i = 0; i < rank; i++) {
            if (!reduced[i]) {
                dims[n++] = x.shape().dim(i);
            }
        }
        return result.reshaped(Shape.of(Arrays.copyOf(dims, n)));
    }
}
