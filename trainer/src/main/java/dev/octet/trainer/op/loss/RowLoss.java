package dev.octet.trainer.op.loss;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * Mean over rows of how far x is from a target: Octet's {@code MeanSquaredErrorLoss} and {@code CosineLoss}. Inputs: x [.., n], the target
 * in the same shape, and perhaps the weights of the rows [..], such as an attention mask. Output: Σ w l / Σ w, 0 / 0 when all rows weigh
 * nothing; F32.
 *
 * @param x type of input 0
 * @param target type of input 1
 * @param size elements of a row
 */
public record RowLoss(Kind kind, OperandType x, OperandType target, int rows, int size) implements Op {
    /** How far a row is from its target. */
    public enum Kind {
        /** Mean of (x - t)². */
        MEAN_SQUARED_ERROR("MeanSquaredErrorLoss"),
        /** 1 - x·t / (|x| |t|); lengths below 1e-8 count as 1e-8, as torch has it. */
        COSINE("CosineLoss");

        private final String type;

        Kind(String type) {
            this.type = type;
        }

        /** Name of the operator. */
        public String type() {
            return type;
        }
    }

    /** Shortest length that a row is divided by. */
    static final double SHORTEST = 1e-8;

    /** Its row in the table of operators. */
    public static final OpEntry<RowLoss> ENTRY = OpEntry.of(
                    RowLoss.class, new RowLossReference(), new RowLossCpu(), new RowLossCuda())
            .octet(Kind.COSINE.type(), RowLoss::readCosine)
            .octet(Kind.MEAN_SQUARED_ERROR.type(), RowLoss::readSquared);

    /** Reads {@code MeanSquaredErrorLoss}. */
    static RowLoss readSquared(OpSource source) {
        return read(source, Kind.MEAN_SQUARED_ERROR);
    }

    /** Reads {@code CosineLoss}. */
    static RowLoss readCosine(OpSource source) {
        return read(source, Kind.COSINE);
    }

    private static RowLoss read(OpSource source, Kind kind) {
        OperandType x = source.input(0);
        OperandType target = source.input(1);
        if (!x.shape().equals(target.shape())) {
            throw source.refusal(
                    "the target is " + target.shape() + ", the value " + x.shape(), "give a target of the same shape");
        }
        RowLoss loss = of(kind, x, target);
        if (source.has(2) && source.input(2).count() != loss.rows) {
            throw source.refusal(
                    "the mask is " + source.input(2).shape() + " for rows of " + x.shape(),
                    "give a mask of the value's shape without its last axis");
        }
        return loss;
    }

    /** For values of these types. */
    public static RowLoss of(Kind kind, OperandType x, OperandType target) {
        int rank = x.shape().rank();
        int size = rank == 0 ? 1 : Math.toIntExact(x.shape().dim(rank - 1));
        return new RowLoss(kind, x, target, Math.toIntExact(size == 0 ? 0 : x.count() / size), size);
    }

    @Override
    public String type() {
        return kind.type();
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(new OperandType(DType.F32, Shape.SCALAR));
    }

    @Override
    public List<OperandType> saved() {
        return outputs();
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i < 2;
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return true;
    }

    @Override
    public boolean backwardReadsOutput(int j) {
        return j == 1;
    }
}
