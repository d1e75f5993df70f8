package dev.octet.trainer.op.experts;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.ArrayList;
import java.util.List;

/** The products of {@link CudaGroups} with numbers of the type of x. */
final class GroupedLinearCuda implements CudaKernel<GroupedLinear> {
    @Override
    public void forward(GroupedLinear op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor y = frame.output(0);
        CudaGroups.Biases biases = null;
        if (op.hasBias()) {
            List<Long> words = new ArrayList<>();
            for (int e = 0; e < op.experts(); e++) {
                words.add(frame.input(GroupedLinear.WEIGHTS + op.experts() + e).address());
            }
            biases = new CudaGroups.Biases(words, type(op), DType.F32);
        }
        groups(op, frame, cuda)
                .product(
                        type(op),
                        false,
                        CudaGroups.Rows.of(frame.input(0)),
                        weights(op, frame, op.transB()),
                        biases,
                        y,
                        false);
    }

    private static DType type(GroupedLinear op) {
        return op.x().dtype();
    }

    private static CudaGroups groups(GroupedLinear op, Frame<CudaTensor> frame, CudaStream cuda) {
        return new CudaGroups(frame.input(1), op.experts(), op.rows(), cuda);
    }

    private static CudaGroups.Weights weights(GroupedLinear op, Frame<CudaTensor> frame, boolean trans) {
        List<Long> words = new ArrayList<>();
        for (int e = 0; e < op.experts(); e++) {
            words.addAll(List.of(frame.input(GroupedLinear.WEIGHTS + e).address(), 0L));
        }
        return new CudaGroups.Weights(words, CudaGroups.Elements.numbers(type(op)), trans);
    }

    @Override
    public void backward(GroupedLinear op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor dy = frame.upstream(0);
        CudaGroups groups = groups(op, frame, cuda);
        if (frame.wantsGradient(0)) {
            groups.product(
                    type(op),
                    false,
                    CudaGroups.Rows.of(dy),
                    weights(op, frame, !op.transB()),
                    null,
                    frame.gradient(0),
                    false);
        }
        boolean wants = false;
        for (int e = 0; e < op.experts(); e++) {
            wants |= frame.wantsGradient(GroupedLinear.WEIGHTS + e);
        }
        if (wants) { // else x need not be there
            CudaGroups.Rows up = CudaGroups.Rows.of(dy);
            CudaGroups.Rows x = CudaGroups.Rows.of(frame.input(0));
            // of [out, in] the rows are of dy and the columns of x, otherwise the other way round
            groups.gradients(
                    type(op), false, op.transB() ? up : x, op.transB() ? x : up, frame, e -> GroupedLinear.WEIGHTS + e);
        }
        if (op.hasBias()) {
            groups.biasGradients(dy, frame, e -> GroupedLinear.WEIGHTS + op.experts() + e);
        }
    }
}
