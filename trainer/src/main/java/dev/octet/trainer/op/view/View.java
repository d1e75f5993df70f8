package dev.octet.trainer.op.view;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;
import java.util.stream.LongStream;

/**
 * The elements of input 0 in the same order under another shape. Nothing is computed where the two can share memory.
 *
 * @param type the ONNX operator it was read from
 */
public record View(String type, OperandType x, Shape shape) implements Op {
    /** Octet's operator that passes its input on and no gradient back. */
    public static final String DETACH = "Detach";

    /** Its row in the table of operators. */
    public static final OpEntry<View> ENTRY = OpEntry.of(View.class, new ViewReference(), new ViewCpu(), new ViewCuda())
            .onnx("Dropout", View::dropout)
            .onnx("Flatten", View::flatten)
            .onnx("Identity", View::identity)
            .onnx("Reshape", View::reshape)
            .onnx("Squeeze", View::squeeze)
            .onnx("Unsqueeze", View::unsqueeze)
            .octet(DETACH, View::detach);

    /** Reshape: 0 copies the input's dimension unless {@code allowzero}, one -1 is what is left. */
    static View reshape(OpSource source) {
        OperandType x = source.input(0);
        long[] wanted = source.longs(1);
        boolean copiesZero = source.node().intAttribute("allowzero", 0) == 0;
        int open = -1;
        long known = 1;
        for (int i = 0; i < wanted.length; i++) {
            if (wanted[i] == 0 && copiesZero) {
                wanted[i] = i < x.shape().rank() ? x.shape().dim(i) : 0;
            }
            if (wanted[i] == -1 && open < 0) {
                open = i;
            } else if (wanted[i] < 0) {
                throw mismatch(source, x, wanted);
            } else {
                known *= wanted[i];
            }
        }
        if (open >= 0) {
            wanted[open] = known == 0 ? 0 : x.count() / known;
        }
        return of("Reshape", source, wanted);
    }

    /** Flatten: [product of the axes before {@code axis}, product of the others]. */
    static View flatten(OpSource source) {
        Shape shape = source.input(0).shape();
        long axis = source.node().intAttribute("axis", 1);
        int at = axis == shape.rank() ? shape.rank() : source.axis(axis, shape.rank());
        long[] dims = shape.toArray();
        return of(
                "Flatten",
                source,
                LongStream.of(dims).limit(at).reduce(1, (a, b) -> a * b),
                LongStream.of(dims).skip(at).reduce(1, (a, b) -> a * b));
    }

    /** Squeeze: without the named axes, or without all of length 1. */
    static View squeeze(OpSource source) {
        Shape shape = source.input(0).shape();
        boolean[] dropped = new boolean[shape.rank()];
        long[] axes = axes(source);
        for (long axis : axes) {
            dropped[source.axis(axis, shape.rank())] = true;
        }
        List<Long> dims = new ArrayList<>();
        for (int i = 0; i < shape.rank(); i++) {
            if (!(axes.length == 0 ? shape.dim(i) == 1 : dropped[i])) {
                dims.add(shape.dim(i));
            }
        }
        return of("Squeeze", source, dims.stream().mapToLong(d -> d).toArray());
    }

    /** Unsqueeze: axes of length 1 at the named places of the result. */
    static View unsqueeze(OpSource source) {
        Shape shape = source.input(0).shape();
        long[] axes = axes(source);
        TreeSet<Integer> places = new TreeSet<>();
        for (long axis : axes) {
            places.add(source.axis(axis, shape.rank() + axes.length));
        }
        long[] dims = new long[shape.rank() + places.size()];
        for (int i = 0, next = 0; i < dims.length; i++) {
            dims[i] = places.contains(i) ? 1 : shape.dim(next++);
        }
        return of("Unsqueeze", source, dims);
    }

    /** Identity. */
    static View identity(OpSource source) {
        return of("Identity", source, source.input(0).shape().toArray());
    }

    /** Detach: the identity, whose gradient is zero. */
    static View detach(OpSource source) {
        return of(DETACH, source, source.input(0).shape().toArray());
    }

    /**
     * Dropout, which keeps everything: exporters leave it in models made for inference, where it is the identity, and Octet trains on
     * without random noise.
     */
    static View dropout(OpSource source) {
        if (!source.node().output(1).isEmpty()) {
            throw source.refusal("its mask is an output", "export the model for inference");
        }
        return of("Dropout", source, source.input(0).shape().toArray());
    }

    /** Axes from input 1 (opset 13) or from the attribute (before). */
    private static long[] axes(OpSource source) {
        return source.has(1)
                ? source.longs(1)
                : source.node().intsAttribute("axes").orElse(List.of()).stream()
                        .mapToLong(a -> a)
                        .toArray();
    }

    private static View of(String type, OpSource source, long... dims) {
        OperandType x = source.input(0);
        Shape shape = Shape.of(dims);
        if (shape.elementCount() != x.count()) {
            throw mismatch(source, x, dims);
        }
        return new View(type, x, shape);
    }

    private static RuntimeException mismatch(OpSource source, OperandType x, long[] dims) {
        return source.refusal(
                x.shape() + " does not become " + Arrays.toString(dims), "the model is damaged; export it again");
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(new OperandType(x.dtype(), shape));
    }

    @Override
    public boolean isView() {
        return true;
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i == 0 && !type.equals(DETACH);
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return false;
    }
}
