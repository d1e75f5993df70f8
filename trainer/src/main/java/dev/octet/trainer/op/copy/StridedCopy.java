package dev.octet.trainer.op.copy;

import dev.octet.formats.tensor.Shape;
import java.util.ArrayList;
import java.util.List;

/**
 * Elements that go from an input to an output: position p of the box is element {@code inputStart + Σ p·inputSteps} of the one and
 * {@code outputStart + Σ p·outputSteps} of the other. Axes of length 1 are dropped, axes that both sides pass in one go are made one.
 *
 * @param dims lengths of the box's axes, outermost first; at least one axis
 */
record StridedCopy(
        int input,
        int output,
        List<Long> dims,
        long inputStart,
        List<Long> inputSteps,
        long outputStart,
        List<Long> outputSteps) {
    static StridedCopy of(
            int input,
            int output,
            long[] dims,
            long inputStart,
            long[] inputSteps,
            long outputStart,
            long[] outputSteps) {
        List<Long> size = new ArrayList<>();
        List<Long> in = new ArrayList<>();
        List<Long> out = new ArrayList<>();
        for (int d = 0; d < dims.length; d++) {
            if (dims[d] == 1) {
                continue;
            }
            int last = size.size() - 1;
            if (last >= 0 && in.get(last) == inputSteps[d] * dims[d] && out.get(last) == outputSteps[d] * dims[d]) {
                size.set(last, size.get(last) * dims[d]);
                in.set(last, inputSteps[d]);
                out.set(last, outputSteps[d]);
            } else {
                size.add(dims[d]);
                in.add(inputSteps[d]);
                out.add(outputSteps[d]);
            }
        }
        if (size.isEmpty()) {
            size.add(1L);
            in.add(1L);
            out.add(1L);
        }
        return new StridedCopy(
                input, output, List.copyOf(size), inputStart, List.copyOf(in), outputStart, List.copyOf(out));
    }

    /** Elements from one position to the next along each axis of a shape. */
    static long[] steps(Shape shape) {
        long[] steps = new long[shape.rank()];
        long step = 1;
        for (int d = shape.rank() - 1; d >= 0; d--) {
            steps[d] = step;
            step *= shape.dim(d);
        }
        return steps;
    }

    long count() {
        return dims.stream().reduce(1L, (a, b) -> a * b);
    }

    /** The input's element at the box's element {@code i}. */
    long inputAt(long i, int axes) {
        return inputStart + at(i, axes, inputSteps);
    }

    /** The output's element at the box's element {@code i}. */
    long outputAt(long i, int axes) {
        return outputStart + at(i, axes, outputSteps);
    }

    private long at(long i, int axes, List<Long> steps) {
        long at = 0;
        long rest = i;
        for (int d = axes - 1; d >= 0; d--) {
            at += rest % dims.get(d) * steps.get(d);
            rest /= dims.get(d);
        }
        return at;
    }
}
