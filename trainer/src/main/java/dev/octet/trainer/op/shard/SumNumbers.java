package dev.octet.trainer.op.shard;

import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.ReferenceKernel;
import java.util.Collections;
import java.util.List;

/**
 * Adds single numbers of all ranks in F64, in the order of ranks, as the squares of what each has of a gradient. Inputs: this rank's. Outputs: the sums, which may be the inputs themselves.
 *
 * @param tensors types of the numbers, one element each
 * @param world not used before the step runs
 */
public record SumNumbers(List<OperandType> tensors, int rank, Collectives world) implements RankOp {
    /** Its row in the table of operators. */
    public static final OpEntry<SumNumbers> ENTRY = OpEntry.of(
            SumNumbers.class,
            new OfDoubles(),
            new OfTensors(),
            RankOp.onHost(new OfTensors(), op -> op.tensors.size()));

    public SumNumbers {
        tensors = List.copyOf(tensors);
    }

    /** All ranks have all. */
    @Override
    public List<Integer> owners() {
        return Collections.nCopies(tensors.size(), rank);
    }

    @Override
    public String type() {
        return "SumNumbers";
    }

    @Override
    public List<OperandType> outputs() {
        return tensors;
    }

    /** For printed programs, which are the same whatever joins the ranks. */
    @Override
    public String toString() {
        return "SumNumbers[" + tensors.size() + ", rank=" + rank + "]";
    }

    private static final class OfTensors implements CpuKernel.Forward<SumNumbers> {
        @Override
        public void forward(SumNumbers op, Frame<CpuTensor> frame, CpuContext cpu) {
            double[] own = new double[op.tensors.size()];
            for (int i = 0; i < own.length; i++) {
                own[i] = frame.input(i).readNumber(0);
            }
            double[] sums = op.world.sums(own);
            for (int i = 0; i < own.length; i++) {
                frame.output(i).writeNumber(0, sums[i]);
            }
        }
    }

    private static final class OfDoubles implements ReferenceKernel.Forward<SumNumbers> {
        @Override
        public void forward(SumNumbers op, Frame<double[]> frame) {
            double[] own = new double[op.tensors.size()];
            for (int i = 0; i < own.length; i++) {
                own[i] = frame.input(i)[0];
            }
            double[] sums = op.world.sums(own);
            for (int i = 0; i < own.length; i++) {
                frame.output(i)[0] = sums[i];
            }
        }
    }
}
