package dev.octet.trainer.op.product;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * ONNX Gemm: {@code y = alpha·op(a)·op(b) + beta·c}.
 *
 * @param a [m, k], or [k, m] with {@code transA}
 * @param b [k, n], or [n, k] with {@code transB}
 * @param c broadcast to [m, n]; null when absent
 * @param rowsOfC 1 when c is the same for all rows, or m
 * @param columnsOfC 1 when c is the same for all columns, or n
 */
public record Gemm(
        OperandType a,
        OperandType b,
        @Nullable OperandType c,
        OperandType y,
        boolean transA,
        boolean transB,
        float alpha,
        float beta,
        int m,
        int n,
        int k,
        int rowsOfC,
        int columnsOfC)
        implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<Gemm> ENTRY = OpEntry.of(Gemm.class, new GemmReference(), new GemmCpu(), new GemmCuda())
            .onnx("Gemm", Gemm::read);

    /** Reads ONNX Gemm from opset 7 on. */
    static Gemm read(OpSource source) {
        OperandType a = source.input(0);
        OperandType b = source.input(1);
        Operands.requireOneType(source, a, b);
        boolean transA = source.node().intAttribute("transA", 0) != 0;
        boolean transB = source.node().intAttribute("transB", 0) != 0;
        if (a.shape().rank() != 2 || b.shape().rank() != 2) {
            throw source.refusal("its operands are " + a + " and " + b, "operands of Gemm have two axes");
        }
        long m = a.shape().dim(transA ? 1 : 0);
        long k = a.shape().dim(transA ? 0 : 1);
        long n = b.shape().dim(transB ? 0 : 1);
        if (b.shape().dim(transB ? 1 : 0) != k) {
            throw source.refusal(a.shape() + " does not fit " + b.shape(), "check the model's shapes");
        }
        OperandType c = source.has(2) ? source.input(2) : null;
        long columns = c == null || c.shape().rank() < 1 ? 1 : c.shape().dim(-1);
        long rows = c == null || c.shape().rank() < 2 ? 1 : c.shape().dim(-2);
        if ((rows != 1 && rows != m) || (columns != 1 && columns != n)) {
            throw source.refusal("C " + c + " does not fit [" + m + ", " + n + "]", "check the model's shapes");
        }
        return new Gemm(
                a,
                b,
                c,
                new OperandType(a.dtype(), Shape.of(m, n)),
                transA,
                transB,
                source.node().floatAttribute("alpha", 1),
                source.node().floatAttribute("beta", 1),
                Math.toIntExact(m),
                Math.toIntExact(n),
                Math.toIntExact(k),
                Math.toIntExact(rows),
                Math.toIntExact(columns));
    }

    @Override
    public String type() {
        return "Gemm";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(y);
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return i < 2;
    }

    @Override
    public boolean canAccumulate(int i) {
        return true;
    }
}
