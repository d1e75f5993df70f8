package dev.octet.converter.infer;

import dev.octet.formats.graph.Dim;
import dev.octet.formats.tensor.DType;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Matrix products. */
final class MatrixTypes {
    static final Map<String, TypeRule> RULES = Map.of(
            "MatMul",
            t -> t.set(0, t.dtype(0), matMul(t, 0, 1)),
            "MatMulInteger",
            t -> t.set(0, DType.I32, matMul(t, 0, 1)),
            "QLinearMatMul",
            t -> t.set(0, t.dtype(7), matMul(t, 0, 3)),
            "Linear",
            MatrixTypes::linear,
            "Gemm",
            MatrixTypes::gemm,
            "Einsum",
            MatrixTypes::einsum,
            "Attention",
            MatrixTypes::attention);

    private MatrixTypes() {}

    private static @Nullable List<Dim> matMul(NodeTypes t, int left, int right) {
        List<Dim> a = t.dims(left);
        List<Dim> b = t.dims(right);
        if (a == null || b == null) {
            return null;
        }
        if (a.isEmpty() || b.isEmpty()) {
            throw t.contradiction("a matrix product of a scalar");
        }
        ShapeTypes.agreed(t, a.getLast(), b.size() == 1 ? b.getFirst() : b.get(b.size() - 2));
        List<Dim> batch =
                BroadcastShape.join(a.subList(0, Math.max(0, a.size() - 2)), b.subList(0, Math.max(0, b.size() - 2)));
        if (batch == null) {
            throw t.contradiction("shapes " + a + " and " + b + " do not broadcast");
        }
        List<Dim> dims = new ArrayList<>(batch);
        if (a.size() > 1) {
            dims.add(a.get(a.size() - 2));
        }
        if (b.size() > 1) {
            dims.add(b.getLast());
        }
        return dims;
    }

    private static void gemm(NodeTypes t) {
        List<Dim> a = t.dims(0);
        List<Dim> b = t.dims(1);
        boolean transA = t.node().intAttribute("transA", 0) != 0;
        boolean transB = t.node().intAttribute("transB", 0) != 0;
        for (List<Dim> x : Arrays.asList(a, b)) {
            if (x != null && x.size() != 2) {
                throw t.contradiction("an operand of shape " + x + " is not a matrix");
            }
        }
        if (a != null && b != null) {
            ShapeTypes.agreed(t, a.get(transA ? 0 : 1), b.get(transB ? 1 : 0));
        }
        t.set(
                0,
                t.dtype(0),
                List.of(
                        a == null ? Dim.UNKNOWN : a.get(transA ? 1 : 0),
                        b == null ? Dim.UNKNOWN : b.get(transB ? 0 : 1)));
    }

    /** dev.octet Linear: the last axis of x becomes the weight's output axis. */
    private static void linear(NodeTypes t) {
        List<Dim> x = t.dims(0);
        List<Dim> w = t.dims(1);
        if (x == null || x.isEmpty() || w == null || w.size() != 2) {
            t.set(0, t.dtype(0), x == null ? null : ShapeTypes.unknown(x.size()));
            return;
        }
        boolean transB = t.node().intAttribute("transB", 0) != 0;
        ShapeTypes.agreed(t, x.getLast(), w.get(transB ? 1 : 0));
        List<Dim> dims = new ArrayList<>(x);
        dims.set(dims.size() - 1, w.get(transB ? 0 : 1));
        t.set(0, t.dtype(0), dims);
    }

    /** Einsum with single letters and an explicit output; anything with an ellipsis stays unknown. */
    private static void einsum(NodeTypes t) {
        String equation = t.node().textAttribute("equation", "").replace(" ", "");
        int arrow = equation.indexOf("->");
        if (arrow < 0 || equation.contains(".")) {
            t.set(0, t.dtype(0), null);
            return;
        }
        Map<Character, Dim> letters = new HashMap<>();
        String[] terms = equation.substring(0, arrow).split(",", -1);
        for (int i = 0; i < terms.length; i++) {
            List<Dim> x = t.dims(i);
            if (x == null || x.size() != terms[i].length()) {
                continue;
            }
            for (int k = 0; k < x.size(); k++) {
                Dim d = x.get(k);
                letters.merge(terms[i].charAt(k), d, (p, q) -> {
                    Dim joined = BroadcastShape.join(p, q);
                    return joined == null ? Dim.UNKNOWN : joined;
                });
            }
        }
        List<Dim> dims = new ArrayList<>();
        for (char c : equation.substring(arrow + 2).toCharArray()) {
            dims.add(letters.getOrDefault(c, Dim.UNKNOWN));
        }
        t.set(0, t.dtype(0), dims);
    }

    /**
     * Attention of opset 23: Q is [batch, heads, seq, size] or [batch, seq, heads*size]; Y is shaped as Q but with V's head
     * size.
     */
    private static void attention(NodeTypes t) {
        List<Dim> q = t.dims(0);
        List<Dim> v = t.dims(2);
        List<Dim> y = null;
        if (q != null && q.size() == 4) {
            Dim size = v == null || v.size() != 4 ? Dim.UNKNOWN : v.get(3);
            y = List.of(q.get(0), q.get(1), q.get(2), size);
        } else if (q != null && q.size() == 3) {
            long heads = t.node().intAttribute("q_num_heads", 0);
            long kvHeads = t.node().intAttribute("kv_num_heads", 0);
            Long width = v == null || v.size() != 3 ? null : v.get(2).size();
            boolean known = width != null && kvHeads > 0 && heads > 0 && heads < Integer.MAX_VALUE;
            y = List.of(
                    q.get(0),
                    q.get(1),
                    known && width != null ? ShapeTypes.scaled(Dim.of(width / kvHeads), heads) : Dim.UNKNOWN);
        }
        t.set(0, t.dtype(0), y);
        // Caches and the product of Q and K depend on what was cached before.
        t.set(1, t.dtype(1), ShapeTypes.unknown(4));
        t.set(2, t.dtype(2), ShapeTypes.unknown(4));
        t.set(3, t.dtype(0), ShapeTypes.unknown(4));
    }
}
