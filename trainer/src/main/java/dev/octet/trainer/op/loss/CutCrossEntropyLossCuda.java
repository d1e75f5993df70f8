package dev.octet.trainer.op.loss;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.collective.RankReduction;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.CudaHostCall;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.OperandType;
import java.util.ArrayList;
import java.util.List;

/** The scores stay on the GPU: three numbers of each position travel. */
final class CutCrossEntropyLossCuda implements CudaKernel<CutCrossEntropyLoss> {
    @Override
    public void forward(CutCrossEntropyLoss op, Frame<CudaTensor> frame, CudaStream cuda) {
        ClassLabels own = op.own();
        int n = own.count();
        CudaTensor loss = frame.output(0);
        CudaLoss all = CudaLoss.room(n, cuda);
        all = own.reduction() == Reduction.NONE ? all.into(loss) : all;
        if (n > 0) {
            CudaSource source = source(op, frame);
            OperandType type = new OperandType(DType.F32, Shape.of(3L * n));
            CudaTensor parts = new CudaTensor(type, cuda.workspace(type.byteSize()));
            List<Object> arguments = new ArrayList<>(List.of(frame.input(0), frame.input(1), parts, (long) n));
            addClasses(op, arguments);
            arguments.add(op.smoothing());
            Grid rows = CudaLoss.rows(n, own.classes());
            cuda.launch(source, "cut_cross_entropy_parts", rows, arguments.toArray());
            List<CudaTensor> changed = List.of(parts);
            cuda.onHost(new CudaHostCall(op.type(), changed, changed, copies -> join(op, copies.apply(parts))));
            List<Object> more = new ArrayList<>(
                    List.of(frame.input(1), parts, frame.output(1), all.losses(), all.weights(), (long) n));
            op.all().addRule(more);
            cuda.launch(source, "cut_cross_entropy_losses", Grid.over(n, CudaLoss.THREADS, 1), more.toArray());
        }
        all.reduce(own.reduction(), loss, frame.output(2), cuda);
    }

    /** From the largest score of each position, its exponentials' sum and the expected score, each of this rank's classes: log Σ exp x of all classes, and the expected score. */
    private static void join(CutCrossEntropyLoss op, CpuTensor parts) {
        int n = op.own().count();
        float[] own = new float[n];
        parts.read(0, own, 0, n);
        float[] largest = own.clone();
        op.ranks().allReduce(largest, RankReduction.MAX);
        float[] sums = new float[2 * n];
        parts.read(n, sums, 0, 2 * n);
        for (int i = 0; i < n; i++) {
            // nothing but -infinity here counts for nothing; NaN does
            sums[i] = own[i] == Float.NEGATIVE_INFINITY && sums[i] == 0
                    ? 0
                    : (float) (sums[i] * Math.exp((double) own[i] - largest[i]));
        }
        op.ranks().allReduce(sums, RankReduction.SUM);
        for (int i = 0; i < n; i++) {
            largest[i] = (float) (largest[i] + Math.log(sums[i]));
        }
        parts.write(0, largest, 0, n);
        parts.write(n, sums, n, n);
    }

    @Override
    public void backward(CutCrossEntropyLoss op, Frame<CudaTensor> frame, CudaStream cuda) {
        ClassLabels own = op.own();
        if (own.count() == 0 || own.classes() == 0) {
            return;
        }
        List<Object> arguments = new ArrayList<>(List.of(
                frame.input(0),
                frame.input(1),
                frame.output(1),
                frame.output(2),
                frame.hasUpstream(0) ? frame.upstream(0) : (Object) 0L,
                frame.gradient(0),
                own.reduction() == Reduction.NONE ? 1 : 0,
                (long) own.count()));
        addClasses(op, arguments);
        arguments.add(op.smoothing());
        Grid rows = CudaLoss.rows(own.count(), own.classes());
        cuda.launch(source(op, frame), "cut_cross_entropy_backward", rows, arguments.toArray());
    }

    private static void addClasses(CutCrossEntropyLoss op, List<Object> arguments) {
        arguments.add(op.own().classes());
        arguments.add(op.first());
        op.all().addRule(arguments);
    }

    private static CudaSource source(CutCrossEntropyLoss op, Frame<CudaTensor> frame) {
        DType x = frame.input(0).dtype();
        return CudaLoss.classes(frame, x, x, 1, 2, op.own().classes());
    }
}
