package dev.octet.trainer.adapter;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.adapter.AdapterEdit.Behind;
import java.util.List;

/**
 * The norms of the rows of W + s·B·A as DoRA needs them (Liu et al., arXiv:2402.09353, eq. 5), without that matrix:
 * {@code ‖w + s·b·A‖² = ‖w‖² + 2s·<A·w, b> + s²·<b·A·Aᵀ, b>} for a row w of W and b of B. ‖w‖² is a constant; the products have r columns.
 */
final class Dora {
    private final AdapterEdit edit;
    private final Behind behind;
    private final String module;
    private final double scaling;

    Dora(AdapterEdit edit, Behind behind, String module, double scaling) {
        this.edit = edit;
        this.behind = behind;
        this.module = module;
        this.scaling = scaling;
    }

    /**
     * The norms as a value [out] without gradient, in F32.
     *
     * @param a [r, in]
     * @param b [out, r]
     * @param w constant of the base
     * @param transB whether w lies as [out, in]
     * @param squares ‖w‖² of the rows
     */
    String norm(String a, String b, String w, boolean transB, double[] squares) {
        String wide = module + ".lora_norm";
        String cross = behind.wideLinear(wide + ".AW", a, w, transB); // [r, out]
        String bt = behind.wideOp(wide + ".BT", "Transpose", List.of(b), Attribute.of("perm", List.of(1L, 0L)));
        String mixed = sum(wide + ".mixed", behind.wideOp(wide + ".AW_B", "Mul", List.of(cross, bt)), 0);
        String gram = behind.wideLinear(wide + ".AAT", a, a, true); // [r, r]
        String turned = behind.wideLinear(wide + ".BAAT", b, gram, true); // [out, r]
        String own = sum(wide + ".own", behind.wideOp(wide + ".BAAT_B", "Mul", List.of(turned, b)), 1);
        float[] constant = new float[squares.length];
        for (int i = 0; i < constant.length; i++) {
            constant[i] = (float) squares[i];
        }
        String base = edit.frozen(wide + ".base", Shape.of(constant.length), constant);
        String twice = edit.number(wide + ".2s", 2 * scaling);
        String square = edit.number(wide + ".ss", scaling * scaling);
        String first = behind.wideOp(
                wide + ".first", "Add", List.of(base, behind.wideOp(wide + ".mixed_s", "Mul", List.of(mixed, twice))));
        String all = behind.wideOp(
                wide + ".square", "Add", List.of(first, behind.wideOp(wide + ".own_s", "Mul", List.of(own, square))));
        return behind.detached(wide + ".detached", behind.wideOp(wide, "Sqrt", List.of(all)));
    }

    private String sum(String name, String x, int axis) {
        String axes = edit.longs(name + ".axis", axis);
        return behind.wideOp(name, "ReduceSum", List.of(x, axes), Attribute.of("keepdims", 0L));
    }

    /**
     * ‖W + s·B·A‖ of each row: where the trained lengths start.
     *
     * @param a [r, in], row by row
     * @param b [out, r], row by row
     */
    static float[] norms(BaseWeight w, double s, float[] a, float[] b, int r) {
        int in = w.in();
        int out = w.out();
        double[] squares = w.squares();
        double[][] at = new double[in][r];
        double[][] gram = new double[r][r];
        for (int i = 0; i < in; i++) {
            for (int k = 0; k < r; k++) {
                at[i][k] = a[k * in + i];
            }
            for (int k = 0; k < r; k++) {
                for (int l = 0; l < r; l++) {
                    gram[k][l] += at[i][k] * at[i][l];
                }
            }
        }
        double[][] cross = w.times(at);
        float[] norms = new float[out];
        for (int o = 0; o < out; o++) {
            double sum = squares[o];
            for (int k = 0; k < r; k++) {
                double bk = b[o * r + k];
                sum += 2 * s * cross[o][k] * bk;
                for (int l = 0; l < r; l++) {
                    sum += s * s * bk * gram[k][l] * b[o * r + l];
                }
            }
            norms[o] = (float) Math.sqrt(sum);
        }
        return norms;
    }
}
