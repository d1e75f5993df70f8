package dev.octet.trainer.op.loss;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.function.IntToLongFunction;
import org.jspecify.annotations.Nullable;

/**
 * Scores [outer, classes, inner] with a label for each of the outer · inner positions, in this order. Labels that are
 * {@code ignoreIndex} do not count; others weigh 1, or what the weight of their class says.
 *
 * @param scores type of input 0
 * @param positions shape of the labels: that of the scores without the axis of classes
 * @param ignoreIndex null when every label counts
 * @param sequence 0 when the label of a position is its own; otherwise that of the next position in runs of this length, and the last of
 *     each run has none
 */
public record ClassLabels(
        OperandType scores,
        Shape positions,
        int outer,
        int classes,
        int inner,
        @Nullable Long ignoreIndex,
        Reduction reduction,
        int sequence) {
    /**
     * Reads what ONNX's two losses over labels have in common.
     *
     * @throws dev.octet.formats.error.UnsupportedModelException when the shapes of the inputs do not go together
     */
    static ClassLabels read(OpSource source) {
        return read(source, 1, false);
    }

    /**
     * Reads a loss of Octet's domain: classes are the last axis; with {@code shift} the label of a position is that of the next one.
     *
     * @throws dev.octet.formats.error.UnsupportedModelException when the shapes of the inputs do not go together
     */
    static ClassLabels readLast(OpSource source) {
        int last = source.input(0).shape().rank() - 1;
        return read(source, last, source.node().intAttribute("shift", 0) != 0);
    }

    private static ClassLabels read(OpSource source, int axis, boolean shift) {
        OperandType scores = source.input(0);
        OperandType labels = source.input(1);
        String name = source.node().textAttribute("reduction", "mean");
        Reduction reduction = Arrays.stream(Reduction.values())
                .filter(r -> r.name().toLowerCase(Locale.ROOT).equals(name))
                .findFirst()
                .orElseThrow(() -> source.refusal("reduction '" + name + "' is unknown", "use none, mean or sum"));
        Long ignore = source.node().attributes().containsKey("ignore_index")
                ? source.node().intAttribute("ignore_index", 0)
                : null;
        int rank = scores.shape().rank();
        if (rank < 2 || !without(scores.shape(), axis).equals(labels.shape())) {
            throw source.refusal(
                    "labels are " + labels.shape() + " for scores of " + scores.shape() + " with classes at axis "
                            + axis,
                    "labels have the scores' shape without the axis of classes");
        }
        ClassLabels read = of(scores, axis, ignore, reduction);
        if (shift) {
            read = read.shifted();
        }
        if (source.has(2) && source.input(2).count() != read.classes) {
            throw source.refusal(
                    "weights are " + source.input(2).shape() + " for " + read.classes + " classes",
                    "give one weight for each class");
        }
        return read;
    }

    /** For scores with classes at {@code axis}. */
    public static ClassLabels of(OperandType scores, int axis, @Nullable Long ignoreIndex, Reduction reduction) {
        Shape shape = scores.shape();
        long outer = 1;
        for (int i = 0; i < axis; i++) {
            outer *= shape.dim(i);
        }
        long inner = 1;
        for (int i = axis + 1; i < shape.rank(); i++) {
            inner *= shape.dim(i);
        }
        return new ClassLabels(
                scores,
                without(shape, axis),
                Math.toIntExact(outer),
                Math.toIntExact(shape.dim(axis)),
                Math.toIntExact(inner),
                ignoreIndex,
                reduction,
                0);
    }

    /** The same where the label of a position is that of the next one along the last axis of the labels. */
    public ClassLabels shifted() {
        int run = Math.toIntExact(positions.dim(positions.rank() - 1));
        return new ClassLabels(scores, positions, outer, classes, inner, ignoreIndex, reduction, run);
    }

    private static Shape without(Shape shape, int axis) {
        long[] dims = new long[shape.rank() - 1];
        for (int i = 0; i < dims.length; i++) {
            dims[i] = shape.dim(i < axis ? i : i + 1);
        }
        return Shape.of(dims);
    }

    /** How many labels there are. */
    int count() {
        return Math.multiplyExact(outer, inner);
    }

    /** F32, one element for each position. */
    OperandType perPosition() {
        return new OperandType(DType.F32, positions);
    }

    /** Type of the loss: F32 even where the scores are narrower, for it is a sum over thousands of positions. */
    OperandType loss() {
        return reduction == Reduction.NONE ? perPosition() : new OperandType(DType.F32, Shape.SCALAR);
    }

    boolean isIgnored(long label) {
        return ignoreIndex != null && label == ignoreIndex;
    }

    /**
     * The label of each position, -1 where none counts.
     *
     * @param labels the labels as they are given
     * @throws InvalidDataException when a label is not a class and not ignored
     */
    int[] check(IntToLongFunction labels) {
        int[] checked = new int[count()];
        for (int i = 0; i < checked.length; i++) {
            if (sequence > 0 && (i + 1) % sequence == 0) {
                checked[i] = -1;
                continue;
            }
            int from = sequence > 0 ? i + 1 : i;
            long label = labels.applyAsLong(from);
            if (isIgnored(label)) {
                checked[i] = -1;
            } else if (label < 0 || label >= classes) {
                throw outOfRange(from, label);
            } else {
                checked[i] = (int) label;
            }
        }
        return checked;
    }

    private InvalidDataException outOfRange(int position, long label) {
        long[] at = new long[positions.rank()];
        long rest = position;
        for (int i = at.length - 1; i >= 0; i--) {
            at[i] = rest % positions.dim(i);
            rest /= positions.dim(i);
        }
        return new InvalidDataException(
                "label " + Arrays.toString(at) + " is " + label + ", classes are 0 to " + (classes - 1),
                "labels of the loss, " + positions,
                ignoreIndex == null
                        ? "correct the labels"
                        : "correct the labels, or use " + ignoreIndex + " for positions that do not count");
    }

    /** How labels are read, as the last arguments of CUDA kernels. */
    void addRule(List<Object> arguments) {
        arguments.add(classes);
        arguments.add((long) sequence);
        arguments.add(ignoreIndex == null ? 0 : 1);
        arguments.add(ignoreIndex == null ? 0L : (long) ignoreIndex);
    }

    /** Where the scores of a position begin; the next class is {@link #inner} elements on. */
    long start(int position) {
        return (long) (position / inner) * classes * inner + position % inner;
    }

    /** The scores, or their gradients, of one position. */
    void read(CpuTensor t, int position, float[] row) {
        long start = start(position);
        if (inner == 1) {
            t.read(start, row, 0, classes);
        } else {
            for (int k = 0; k < classes; k++) {
                t.read(start + (long) k * inner, row, k, 1);
            }
        }
    }

    void write(CpuTensor t, int position, float[] row) {
        long start = start(position);
        if (inner == 1) {
            t.write(start, row, 0, classes);
        } else {
            for (int k = 0; k < classes; k++) {
                t.write(start + (long) k * inner, row, k, 1);
            }
        }
    }

    /** Reduces the losses of all positions. */
    void writeLoss(CpuTensor to, float[] losses, float divisor) {
        if (reduction == Reduction.NONE) {
            to.write(0, losses, 0, losses.length);
        } else {
            to.write(0, new float[] {(float) (sum(losses) / divisor)}, 0, 1);
        }
    }

    /** Weight of each position; 0 where the label does not count. */
    static float[] weights(Frame<CpuTensor> frame, int[] labels) {
        float[] ofClass = new float[0];
        if (frame.hasInput(2)) {
            CpuTensor t = frame.input(2);
            ofClass = new float[Math.toIntExact(t.count())];
            t.read(0, ofClass, 0, ofClass.length);
        }
        float[] weights = new float[labels.length];
        for (int i = 0; i < weights.length; i++) {
            weights[i] = labels[i] < 0 ? 0 : frame.hasInput(2) ? ofClass[labels[i]] : 1;
        }
        return weights;
    }

    /** In F64, in order. */
    static double sum(float[] x) {
        double sum = 0;
        for (float v : x) {
            sum += v;
        }
        return sum;
    }

    /** Gradient with respect to the unweighted loss of each position; 0 where the label does not count. */
    float[] upstream(Frame<CpuTensor> frame, float[] weights, CpuTensor divisor) {
        float[] up = new float[weights.length];
        if (!frame.hasUpstream(0)) {
            return up;
        }
        float[] by = new float[1];
        divisor.read(0, by, 0, 1);
        if (reduction == Reduction.NONE) {
            frame.upstream(0).read(0, up, 0, up.length);
        } else {
            float[] one = new float[1];
            frame.upstream(0).read(0, one, 0, 1);
            Arrays.fill(up, one[0] / by[0]);
        }
        for (int i = 0; i < up.length; i++) {
            up[i] = weights[i] == 0 ? 0 : up[i] * weights[i];
        }
        return up;
    }
}
