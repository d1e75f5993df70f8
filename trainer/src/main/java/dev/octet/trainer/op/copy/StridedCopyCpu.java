package dev.octet.trainer.op.copy;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import java.lang.foreign.MemorySegment;
import java.util.List;

/** Runs of neighbouring elements are copied as bytes, whatever their type. Only what no box reaches is filled first. */
final class StridedCopyCpu<O extends StridedCopyOp> implements CpuKernel<O> {
    @Override
    public void forward(O op, Frame<CpuTensor> frame, CpuContext cpu) {
        List<StridedCopy> boxes = op.boxes();
        for (int j = 0; j < op.outputs().size(); j++) {
            int output = j;
            CpuTensor y = frame.output(j);
            if (boxes.stream()
                            .filter(b -> b.output() == output)
                            .mapToLong(StridedCopy::count)
                            .sum()
                    < y.count()) {
                fill(y, op.fill(), cpu);
            }
        }
        for (StridedCopy b : boxes) {
            copy(b, frame.input(b.input()), frame.output(b.output()), false, cpu);
        }
    }

    @Override
    public void backward(O op, Frame<CpuTensor> frame, CpuContext cpu) {
        List<StridedCopy> boxes =
                op.boxes().stream().filter(b -> frame.hasUpstream(b.output())).toList();
        int inputs = op.boxes().stream().mapToInt(b -> b.input() + 1).max().orElse(0);
        for (int i = 0; i < inputs; i++) {
            int input = i;
            if (frame.wantsGradient(i)
                    && boxes.stream()
                                    .filter(b -> b.input() == input)
                                    .mapToLong(StridedCopy::count)
                                    .sum()
                            < frame.gradient(i).count()) {
                fill(frame.gradient(i), 0, cpu);
            }
        }
        for (StridedCopy b : boxes) {
            if (frame.wantsGradient(b.input())) {
                copy(b, frame.upstream(b.output()), frame.gradient(b.input()), true, cpu);
            }
        }
    }

    private static void fill(CpuTensor t, double value, CpuContext cpu) {
        long width = t.dtype().bits() / 8;
        if (t.count() == 0) {
            return;
        }
        t.writeNumber(0, value);
        MemorySegment one = t.bytes().asSlice(0, width);
        cpu.parallel().ranges(t.count() - 1, CpuContext.GRAIN, (from, to) -> {
            for (long i = from; i < to; i++) {
                MemorySegment.copy(one, 0, t.bytes(), (i + 1) * width, width);
            }
        });
    }

    /** Copies a box from input to output, or back. */
    private static void copy(StridedCopy b, CpuTensor from, CpuTensor to, boolean back, CpuContext cpu) {
        int width = from.dtype().bits() / 8;
        int last = b.dims().size() - 1;
        long run = b.dims().get(last);
        if (b.count() == 0) {
            return;
        }
        long inputStep = b.inputSteps().get(last);
        long outputStep = b.outputSteps().get(last);
        boolean neighbours = inputStep == 1 && outputStep == 1;
        long fromStep = (back ? outputStep : inputStep) * width;
        long toStep = (back ? inputStep : outputStep) * width;
        cpu.parallel().ranges(b.count() / run, Math.max(1, CpuContext.GRAIN / run), (first, end) -> {
            for (long row = first; row < end; row++) {
                long in = b.inputAt(row, last) * width;
                long out = b.outputAt(row, last) * width;
                long source = back ? out : in;
                long target = back ? in : out;
                if (neighbours) {
                    MemorySegment.copy(from.bytes(), source, to.bytes(), target, run * width);
                } else {
                    for (long i = 0; i < run; i++) {
                        MemorySegment.copy(from.bytes(), source + i * fromStep, to.bytes(), target + i * toStep, width);
                    }
                }
            }
        });
    }
}
