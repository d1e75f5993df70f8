package dev.octet.trainer.op.product;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaProduct.Matrix;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The products of one step, as operators have them: of any size, empty ones too, added to what is there or not, with rows of any length. Large products of
 * rows that are not multiples of 16 bytes are computed on copies with longer rows ({@link PaddingRule}), behind which there are zeros.
 */
public final class CudaProducts {
    private final CudaStream cuda;
    private final PaddingRule rule;

    /** Workspaces whose copies nobody needs any more. */
    private final List<Space> free = new ArrayList<>();

    private final Set<Long> kept = new HashSet<>();
    /** Addresses of matrices with room behind their rows. */
    private final Set<Long> roomy = new HashSet<>();

    private final Map<Copy, Matrix> copies = new HashMap<>();

    private record Space(long address, long bytes) {}

    private record Copy(Matrix of, CudaLengths.Sides own, CudaLengths.Sides to) {}

    /** Of the step that this stream writes, large unaligned ones on copies. */
    public CudaProducts(CudaStream cuda) {
        this(cuda, PaddingRule.STANDARD);
    }

    /** The same with another rule of which are computed on copies. */
    public CudaProducts(CudaStream cuda, PaddingRule rule) {
        this.cuda = cuda;
        this.rule = rule;
    }

    /** Has a copy of this operand serve all products that follow, none of which writes it. */
    public CudaProducts keeping(CudaTensor operand) {
        kept.add(operand.address());
        return this;
    }

    /**
     * Has products take the rows of this matrix as long as they are in memory: of a result anything may be behind its columns, of an operand zeros are.
     */
    public CudaProducts roomy(CudaTensor matrix) {
        if (matrix.pitch() > matrix.shape().dim(-1)) {
            roomy.add(matrix.address());
        }
        return this;
    }

    private boolean hasRoom(Matrix x, CudaLengths.Sides own, CudaLengths.Sides to) {
        return roomy.contains(x.address()) && x.isAligned() && own.rows() == to.rows() && to.columns() <= x.leading();
    }

    /**
     * Writes {@code d = op(a)·op(b)}, or that added to d, of contiguous matrices.
     *
     * @param m rows of d
     * @param n columns of d
     */
    public void write(
            boolean transposeA,
            boolean transposeB,
            int m,
            int n,
            int k,
            CudaTensor a,
            CudaTensor b,
            CudaTensor d,
            boolean accumulate) {
        write(CudaProduct.of(
                        transposeA,
                        transposeB,
                        m,
                        n,
                        k,
                        Matrix.of(a.address(), a.dtype(), transposeA ? m : k),
                        Matrix.of(b.address(), b.dtype(), transposeB ? k : n),
                        Matrix.of(d.address(), d.dtype(), n))
                .accumulating(accumulate));
    }

    /** Writes a product; one that sums over nothing is zero. */
    public void write(CudaProduct product) {
        refuseWide(product.a().type());
        refuseWide(product.d().type());
        if (product.m() == 0 || product.n() == 0 || product.batch() == 0) {
            return;
        }
        if (product.k() > 0) {
            if (rule.pays(product)) {
                padded(product);
            } else {
                cuda.product(product);
            }
        } else if (!product.accumulate()) {
            Matrix d = product.d();
            long bytes = (long) product.m() * product.n() * d.type().bits() / 8;
            for (int i = 0; i < product.batch(); i++) {
                cuda.zero(d.address() + i * d.stride() * d.type().bits() / 8, bytes);
            }
        }
    }

    /**
     * Whether a product of codes gains by copies.
     *
     * @param bytes that they read and write
     */
    public boolean pays(double flops, long bytes) {
        return rule.pays(flops, bytes);
    }

    /** Copies elements of two or four bytes between rows of any lengths. */
    public void copy(Matrix from, Matrix to, CudaLengths.Sides sides) {
        copyRows(from, to, sides, sides, 1);
    }

    /** Elements from row to row with which the result of a product needs no copy of its own; 0 where it needs none. */
    public long pitch(CudaProduct product) {
        CudaLengths to = rule.lengths(product);
        return to.n() == product.n() ? 0 : to.d().leading();
    }

    /** The lengths that a product is computed with, its own or longer ones. */
    public CudaLengths lengths(CudaProduct product) {
        return rule.lengths(product);
    }

    private void padded(CudaProduct p) {
        CudaLengths own = CudaLengths.of(p);
        CudaLengths to = rule.lengths(p);
        List<Space> used = new ArrayList<>();
        Matrix a = operand(p.a(), own.a(p), to.a(p), p.batch(), used);
        Matrix b = operand(p.b(), own.b(p), to.b(p), p.batch(), used);
        write(p, to, a, b, used);
        free.addAll(used);
    }

    /**
     * Writes a product whose operands have been made with other lengths.
     *
     * @param to {@link #lengths} of the product
     * @param a as long as that, zeros behind what is there
     */
    public void write(CudaProduct p, CudaLengths to, Matrix a, Matrix b) {
        List<Space> used = new ArrayList<>();
        write(p, to, a, b, used);
        free.addAll(used);
    }

    private void write(CudaProduct p, CudaLengths to, Matrix a, Matrix b, List<Space> used) {
        CudaLengths own = CudaLengths.of(p);
        boolean copied = (!p.d().isAligned() || !own.d().equals(to.d())) && !hasRoom(p.d(), own.d(), to.d());
        Matrix d = p.d();
        if (copied) {
            // what is added to is added to sums, and rounded once
            DType type = p.accumulate() ? DType.F32 : d.type();
            d = space(type, to.d(), p.batch(), used);
        }
        long bias = p.bias();
        if (bias != 0 && to.n() != own.n()) {
            Matrix row = Matrix.of(bias, p.biasType(), own.n());
            bias = copy(row, new CudaLengths.Sides(1, own.n()), new CudaLengths.Sides(1, to.n()), 1, used)
                    .address();
        }
        cuda.product(CudaProduct.of(p.transposeA(), p.transposeB(), to.m(), to.n(), to.k(), a, b, d)
                .withBias(bias, bias == 0 ? d.type() : p.biasType())
                .accumulating(!copied && p.accumulate())
                .batched(p.batch()));
        if (copied && p.accumulate()) {
            new CudaSums(d, own.d(), p.batch()).addTo(p.d(), cuda);
        } else if (copied) {
            copyRows(d, p.d(), own.d(), own.d(), p.batch());
        }
    }

    /**
     * An operand of lengths that a product is computed with: a copy, unless it has them and is aligned.
     *
     * @param own sides that it has
     */
    public Matrix operand(Matrix x, CudaLengths.Sides own, CudaLengths.Sides to) {
        return operand(x, own, to, 1, new ArrayList<>());
    }

    private Matrix operand(Matrix x, CudaLengths.Sides own, CudaLengths.Sides to, int batch, List<Space> used) {
        if ((x.isAligned() && own.equals(to)) || hasRoom(x, own, to)) {
            return x;
        }
        if (!kept.contains(x.address())) {
            return copy(x, own, to, batch, used);
        }
        Copy key = new Copy(x, own, to);
        Matrix there = copies.get(key);
        if (there == null) {
            there = copy(x, own, to, batch, new ArrayList<>());
            copies.put(key, there);
        }
        return there;
    }

    private Matrix copy(Matrix x, CudaLengths.Sides own, CudaLengths.Sides to, int batch, List<Space> used) {
        int count = x.stride() == 0 ? 1 : batch;
        Matrix y = space(x.type(), to, count, used);
        copyRows(x, y, own, to, count);
        return y;
    }

    private Matrix space(DType type, CudaLengths.Sides sides, int count, List<Space> used) {
        long bytes = sides.elements() * count * type.bits() / 8;
        Space space = free.stream()
                .filter(s -> s.bytes() >= bytes)
                .min((s, t) -> Long.compare(s.bytes(), t.bytes()))
                .orElse(null);
        if (space == null) {
            space = new Space(cuda.workspace(bytes), bytes);
        } else {
            free.remove(space);
        }
        used.add(space);
        return new Matrix(space.address(), type, sides.leading(), count > 1 ? sides.elements() : 0);
    }

    /** Elements of four bytes are copied as two of two. */
    private void copyRows(Matrix x, Matrix y, CudaLengths.Sides own, CudaLengths.Sides to, int count) {
        int units = x.type().bits() / 16;
        long columns = (long) to.columns() * units;
        int segments = Math.toIntExact(Math.ceilDiv(columns + 7, 1024));
        cuda.kernel(CudaRows.SOURCE, "copy_rows", new Grid(Math.ceilDiv(to.rows(), 8), segments, count, 256, 0))
                .pointer("x", x.address())
                .value("rows", (long) own.rows())
                .value("columns", (long) own.columns() * units)
                .value("x_leading", x.leading() * units)
                .value("x_stride", x.stride() * units)
                .pointer("y", y.address())
                .value("to_rows", (long) to.rows())
                .value("to_columns", columns)
                .value("y_leading", y.leading() * units)
                .value("y_stride", y.stride() * units)
                .launch();
    }

    private static void refuseWide(DType type) {
        if (type == DType.F64) {
            throw new UnavailableException(
                    "products of F64 are not computed on GPUs", "a MatMul, Gemm or Linear", "train with --device cpu");
        }
    }
}
