package dev.octet.converter.expand;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.tensor.DType;
import java.util.List;

/**
 * Operators on number types that they gained later, rewritten on types that they always had. The results are the same up to rounding, and
 * exact for integers.
 */
final class LaterTypes {
    private LaterTypes() {}

    /** {@code Celu} of F16 and BF16 in F32, of F64 by its definition. */
    static boolean celu(Rewriting r) {
        DType dtype = r.dtype();
        if (dtype == DType.F64) {
            ActivationRewrites.celu(r);
            return true;
        }
        if (dtype != DType.F16 && dtype != DType.BF16) {
            return false;
        }
        String x = r.e().cast(r.x(), dtype, DType.F32);
        float alpha = r.node().floatAttribute("alpha", 1);
        String y = r.e().node("Celu", List.of(x), Attribute.of("alpha", alpha));
        lastCast(r, y, dtype);
        return true;
    }

    /** {@code Range} of F16 and BF16 in F32, which is the default of {@code stash_type}. */
    static boolean range(Rewriting r) {
        DType dtype = r.dtype();
        boolean narrow = dtype == DType.F16 || dtype == DType.BF16;
        if (dtype == null
                || (narrow && r.node().intAttribute("stash_type", DType.F32.onnxId()) != DType.F32.onnxId())) {
            return false;
        }
        if (!narrow) {
            r.last("Range", r.x(), r.node().input(1), r.node().input(2)); // stash_type means nothing there
            return true;
        }
        String[] numbers = new String[3];
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = r.e().cast(r.node().input(i), dtype, DType.F32);
        }
        lastCast(r, r.node("Range", numbers), dtype);
        return true;
    }

    /**
     * {@code BitShift} of signed integers by that of U64. A shift to the right fills with the sign: for negative numbers, the complement is
     * shifted. Shifts below 0, or by the type's width and more, leave the sign (right) or zero (left).
     */
    static boolean bitShift(Rewriting r) {
        DType dtype = r.dtype();
        String direction = r.node().textAttribute("direction", "");
        boolean right = direction.equals("RIGHT");
        if (dtype == null || (!right && !direction.equals("LEFT"))) {
            return false;
        }
        String x = r.e().cast(r.x(), dtype, DType.I64);
        String by = r.e().cast(r.node().input(1), dtype, DType.I64);
        String zero = r.e().number(0, DType.I64);
        String within = r.node(
                "And", r.node("GreaterOrEqual", by, zero), r.node("Less", by, r.e().number(dtype.bits(), DType.I64)));
        if (!right) {
            String shifted = shifted(r, x, r.node("Where", within, by, zero), direction);
            lastCast(r, r.node("Where", within, shifted, zero), dtype);
            return true;
        }
        String negative = r.node("Less", x, zero);
        String positive = r.node("Where", negative, r.node("BitwiseNot", x), x);
        String most = r.e().number(Long.SIZE - 1, DType.I64);
        String shifted = shifted(r, positive, r.node("Where", within, by, most), direction);
        lastCast(r, r.node("Where", negative, r.node("BitwiseNot", shifted), shifted), dtype);
        return true;
    }

    private static String shifted(Rewriting r, String x, String by, String direction) {
        String shifted = r.e().node(
                        "BitShift",
                        List.of(r.e().cast(x, DType.I64, DType.U64), r.e().cast(by, DType.I64, DType.U64)),
                        Attribute.of("direction", direction));
        return r.e().cast(shifted, DType.U64, DType.I64);
    }

    private static void lastCast(Rewriting r, String value, DType to) {
        r.e().last("Cast", List.of(value), Attribute.of("to", to.onnxId()));
    }
}
