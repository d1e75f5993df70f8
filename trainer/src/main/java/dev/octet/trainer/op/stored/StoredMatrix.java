package dev.octet.trainer.op.stored;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.layout.WeightForm;
import dev.octet.quant.merge.LowRank;
import dev.octet.quant.merge.WeightGrid;
import dev.octet.trainer.kernel.OperandType;
import java.util.ArrayList;
import java.util.List;

/** What the operands that stand for a stored matrix mean. */
public sealed interface StoredMatrix {
    /** Its rows and columns. */
    Shape shape();

    /** The operands that stand for it, in their order: elements; or codes, scales and, where there are some, zero points, as U8. */
    List<OperandType> operands();

    /** Rows. */
    default int rows() {
        return Math.toIntExact(shape().dim(0));
    }

    /** Columns. */
    default int cols() {
        return Math.toIntExact(shape().dim(1));
    }

    /**
     * Floats as they lie.
     *
     * @param type F32, BF16 or F16, of two axes
     */
    record Floats(OperandType type) implements StoredMatrix {
        /** @throws IllegalArgumentException for another type, or when it is not a matrix */
        public Floats {
            boolean floats = type.dtype() == DType.F32 || type.dtype() == DType.BF16 || type.dtype() == DType.F16;
            if (!floats || type.shape().rank() != 2) {
                throw new IllegalArgumentException(type + " is not a matrix of F32, BF16 or F16");
            }
        }

        @Override
        public Shape shape() {
            return type.shape();
        }

        @Override
        public List<OperandType> operands() {
            return List.of(type);
        }
    }

    /**
     * A frozen matrix and the factors of a product that is added to it.
     *
     * @param base floats or codes
     * @param rank rows of A
     * @param factor the product's scaling
     * @param orientation how the matrix lies
     */
    record Member(StoredMatrix base, int rank, float factor, LowRank.Orientation orientation) {
        /** The operands that stand for it: those of the base, A [r, in], B [out, r]. */
        List<OperandType> operands() {
            List<OperandType> all = new ArrayList<>(base.operands());
            boolean straight = orientation == LowRank.Orientation.OUT_IN;
            int in = straight ? base.cols() : base.rows();
            int out = straight ? base.rows() : base.cols();
            all.add(new OperandType(DType.F32, Shape.of(rank, in)));
            all.add(new OperandType(DType.F32, Shape.of(out, rank)));
            return all;
        }
    }

    /**
     * A matrix as it will lie in the merged file: the base with an adapter's product, rounded with fresh scales.
     *
     * @param own the matrix
     * @param siblings matrices that share its scale and have a product, too
     * @param grid what the file can hold
     * @param baseScale the scale that it shares with weights without an adapter; NaN where there are none
     */
    record Merged(Member own, List<Member> siblings, WeightGrid grid, float baseScale) implements StoredMatrix {
        public Merged {
            siblings = List.copyOf(siblings);
        }

        @Override
        public Shape shape() {
            return own.base().shape();
        }

        @Override
        public List<OperandType> operands() {
            List<OperandType> all = new ArrayList<>(own.operands());
            siblings.forEach(s -> all.addAll(s.operands()));
            return all;
        }

        /** The matrix, then its siblings. */
        List<Member> members() {
            List<Member> all = new ArrayList<>(List.of(own));
            all.addAll(siblings);
            return all;
        }
    }

    /** Codes with scales. */
    record Codes(WeightForm form) implements StoredMatrix {
        @Override
        public Shape shape() {
            return form.shape();
        }

        @Override
        public List<OperandType> operands() {
            List<OperandType> all = new ArrayList<>();
            all.add(bytes(form.codeBytes()));
            all.add(bytes(form.scaleBytes()));
            if (form.zeroPointRows() > 0) {
                all.add(bytes(form.zeroPointBytes()));
            }
            return all;
        }

        private static OperandType bytes(long count) {
            return new OperandType(DType.U8, Shape.of(count));
        }
    }
}
