package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaOnHost;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.rule.AdafactorRule;
import dev.octet.trainer.rule.AdafactorRule.Formula;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** All tensors of a type in seven launches: the moments of rows and columns, their joins, the size of each update, the updates. */
public final class AdafactorStepCuda extends UpdateCuda<AdafactorStep> {
    private static final CudaSource SOURCE = CudaSource.of(AdafactorStepCuda.class, "adafactor.cu");

    /** Elements of a chunk, as in adafactor.cu. */
    private static final long CHUNK = 16_384;

    /** Rows of a slab, as in adafactor.cu. */
    private static final long SLAB = 256;

    private static final CudaKernel<AdafactorStep> ON_HOST =
            new CudaOnHost<>(new AdafactorStepCpu(), op -> AdafactorStep.input(op.second() + 2));

    public AdafactorStepCuda() {
        super(AdafactorStep.class);
    }

    /** Weight decay may differ: it stands in each tensor's row. */
    @Override
    boolean belongTogether(AdafactorStep first, AdafactorStep other) {
        return first.p().dtype() == other.p().dtype() && first.rule().equals(other.rule());
    }

    /** Sums and extremes of whole tensors travel between ranks: each computes its part on the host. */
    @Override
    Optional<CudaKernel<AdafactorStep>> onHost(AdafactorStep op) {
        return op.of().isShared() ? Optional.of(ON_HOST) : Optional.empty();
    }

    @Override
    boolean shareScalars(Frame<CudaTensor> first, Frame<CudaTensor> other) {
        return sameInputs(first, other, 2, AdafactorStep.BUFFERS);
    }

    /** Which block takes which part of which tensor. */
    private static final class Parts {
        private final List<Long> words = new ArrayList<>();

        void add(long tensor, long count, long step) {
            for (long at = 0; at < count; at += step) {
                words.add(tensor);
                words.add(at);
            }
        }

        void launch(CudaStream cuda, String kernel, long table, Object... more) {
            if (words.isEmpty()) {
                return;
            }
            List<Object> arguments = new ArrayList<>(List.of(
                    table, cuda.table(words.stream().mapToLong(Long::longValue).toArray())));
            arguments.addAll(List.of(more));
            cuda.launch(SOURCE, kernel, Grid.of(words.size() / 2, 256), arguments.toArray());
        }
    }

    @Override
    void write(List<AdafactorStep> ops, List<Frame<CudaTensor>> frames, CudaStream cuda) {
        Parts rows = new Parts();
        Parts columns = new Parts();
        Parts joins = new Parts();
        Parts matrices = new Parts();
        Parts chunks = new Parts();
        List<Long> words = new ArrayList<>();
        long sums = 0;
        long means = 0;
        long parts = 0;
        for (int k = 0; k < ops.size(); k++) {
            AdafactorStep op = ops.get(k);
            long count = op.p().count();
            AdafactorShapes shapes = op.factors() ? AdafactorShapes.of(op.p()) : new AdafactorShapes(0, 0, 0);
            addresses(op, frames.get(k), words);
            long ofChunks = Math.ceilDiv(count, CHUNK);
            words.addAll(List.of(count, shapes.batch(), shapes.rows(), shapes.columns(), sums, means, parts, ofChunks));
            words.add(Double.doubleToRawLongBits(op.weightDecay()));
            long slabs = shapes.batch() * Math.ceilDiv(shapes.rows(), SLAB);
            rows.add(k, shapes.batch() * shapes.rows(), 8);
            columns.add(k, slabs * Math.ceilDiv(shapes.columns(), 32L), 1);
            joins.add(k, shapes.batch() * shapes.columns(), 256);
            matrices.add(k, shapes.batch(), 1);
            chunks.add(k, count, CHUNK);
            sums += slabs * shapes.columns();
            means += shapes.batch();
            parts += ofChunks;
        }
        AdafactorRule rule = ops.getFirst().rule();
        Frame<CudaTensor> f = frames.getFirst();
        String suffix = f.input(0).suffix();
        CudaTensor lr = f.input(2);
        CudaTensor step = f.input(3);
        CudaTensor factor = f.input(4);
        CudaTensor leftOut = f.input(5);
        long table = cuda.table(words.stream().mapToLong(Long::longValue).toArray());
        long sumsAt = cuda.workspace(Math.max(1, sums) * Double.BYTES);
        long meansAt = cuda.workspace(Math.max(1, means) * Double.BYTES);
        long partsAt = cuda.workspace(Math.max(1, 2 * parts) * Double.BYTES);
        long numbersAt = cuda.workspace(2L * ops.size() * Double.BYTES);
        rows.launch(cuda, "adafactor_rows_" + suffix, table, step, factor, leftOut, rule.decayRate(), rule.added());
        columns.launch(cuda, "adafactor_columns_" + suffix, table, factor, sumsAt);
        joins.launch(cuda, "adafactor_columns_join", table, step, leftOut, rule.decayRate(), rule.added(), sumsAt);
        matrices.launch(cuda, "adafactor_means", table, rule.leastMean(), meansAt);
        chunks.launch(
                cuda,
                "adafactor_norms_" + suffix,
                table,
                step,
                factor,
                leftOut,
                rule.decayRate(),
                rule.added(),
                rule.leastMoment(),
                meansAt,
                partsAt);
        cuda.launch(
                SOURCE,
                "adafactor_join",
                Grid.over(ops.size() * 32L, 256, 1),
                table,
                (long) ops.size(),
                lr,
                step,
                partsAt,
                rule.eps2(),
                rule.clip(),
                rule.formula() == Formula.TORCH ? 1 : 0,
                rule.scaleParameter() ? 1 : 0,
                rule.relativeStep() ? 1 : 0,
                rule.warmupInit() ? 1 : 0,
                numbersAt);
        chunks.launch(
                cuda,
                "adafactor_" + suffix,
                table,
                factor,
                leftOut,
                rule.beta1().orElse(0),
                rule.leastMoment(),
                meansAt,
                numbersAt);
    }

    /** p, g, row, col, m, then the new ones of all but g; 0 for what a tensor does not have. */
    private static void addresses(AdafactorStep op, Frame<CudaTensor> f, List<Long> words) {
        int second = op.second();
        boolean moment = op.rule().hasMoment();
        boolean factors = op.factors();
        words.add(f.input(0).address());
        words.add(f.input(1).address());
        words.add(f.input(AdafactorStep.input(second)).address());
        words.add(factors ? f.input(AdafactorStep.input(second + 1)).address() : 0L);
        words.add(moment ? f.input(AdafactorStep.input(1)).address() : 0L);
        words.add(f.output(0).address());
        words.add(f.output(second).address());
        words.add(factors ? f.output(second + 1).address() : 0L);
        words.add(moment ? f.output(1).address() : 0L);
    }
}
