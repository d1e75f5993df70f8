package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.CudaCall;
import dev.octet.trainer.kernel.CudaFusion;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.List;
import java.util.Optional;

/** A CUDA twin that does any number of equal steps in one launch, and so one, too. */
abstract class UpdateCuda<O extends UpdateOp> implements CudaKernel.Forward<O>, CudaFusion {
    private final Class<O> type;

    UpdateCuda(Class<O> type) {
        this.type = type;
    }

    /** Whether two steps can be done together: their operands' types and the numbers that all tensors share are the same. */
    abstract boolean belongTogether(O first, O other);

    /** Whether two steps have the same scalars. */
    abstract boolean shareScalars(Frame<CudaTensor> first, Frame<CudaTensor> other);

    /** The same for operators whose forms decide where the scalars are. */
    boolean shareScalars(O first, Frame<CudaTensor> firstFrame, O other, Frame<CudaTensor> otherFrame) {
        return shareScalars(firstFrame, otherFrame);
    }

    /** Another twin for a step that is not written with others: of a tensor of which ranks have parts, who add up numbers within it. Empty for most. */
    Optional<CudaKernel<O>> onHost(O op) {
        return Optional.empty();
    }

    /** Writes steps that belong together. */
    abstract void write(List<O> ops, List<Frame<CudaTensor>> frames, CudaStream cuda);

    @Override
    public final void forward(O op, Frame<CudaTensor> frame, CudaStream cuda) {
        onHost(op)
                .ifPresentOrElse(
                        other -> other.forward(op, frame, cuda), () -> write(List.of(op), List.of(frame), cuda));
    }

    @Override
    public final int length(List<CudaCall> calls, int at) {
        int length = 0;
        while (at + length < calls.size() && follows(calls.get(at), calls.get(at + length))) {
            length++;
        }
        return length > 1 ? length : 0;
    }

    private boolean follows(CudaCall first, CudaCall other) {
        return first.isForward(type)
                && other.isForward(type)
                && onHost(type.cast(first.op())).isEmpty()
                && onHost(type.cast(other.op())).isEmpty()
                && belongTogether(type.cast(first.op()), type.cast(other.op()))
                && shareScalars(type.cast(first.op()), first.frame(), type.cast(other.op()), other.frame());
    }

    @Override
    public final void write(List<CudaCall> calls, CudaStream cuda) {
        write(
                calls.stream().map(c -> type.cast(c.op())).toList(),
                calls.stream().map(CudaCall::frame).toList(),
                cuda);
    }

    /** Whether some inputs are the same memory. */
    static boolean sameInputs(Frame<CudaTensor> first, Frame<CudaTensor> other, int from, int end) {
        for (int i = from; i < end; i++) {
            if (first.input(i).address() != other.input(i).address()) {
                return false;
            }
        }
        return true;
    }
}
