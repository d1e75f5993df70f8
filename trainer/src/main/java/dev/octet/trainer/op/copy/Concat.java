package dev.octet.trainer.op.copy;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.LongStream;

/** The inputs one after the other along an axis; the gradient is cut into their parts. */
public record Concat(List<OperandType> inputs, int axis) implements StridedCopyOp {
    /** Its row in the table of operators. */
    public static final OpEntry<Concat> ENTRY =
            StridedCopyOp.entry(Concat.class).onnx("Concat", Concat::read);

    public Concat {
        inputs = List.copyOf(inputs);
    }

    /** Reads ONNX Concat. */
    static Concat read(OpSource source) {
        List<OperandType> inputs = IntStream.range(0, source.inputs().size())
                .mapToObj(source::input)
                .toList();
        Shape first = inputs.getFirst().shape();
        int axis = source.axis(source.node().intAttribute("axis", 0), first.rank());
        for (OperandType t : inputs) {
            boolean fits = t.dtype() == inputs.getFirst().dtype() && t.shape().rank() == first.rank();
            for (int d = 0; fits && d < first.rank(); d++) {
                fits = d == axis || t.shape().dim(d) == first.dim(d);
            }
            if (!fits) {
                throw source.refusal(
                        "inputs of " + inputs + " do not join along axis " + axis,
                        "the model is damaged; export it again");
            }
        }
        return new Concat(inputs, axis);
    }

    @Override
    public String type() {
        return "Concat";
    }

    @Override
    public List<OperandType> outputs() {
        long[] dims = inputs.getFirst().shape().toArray();
        dims[axis] = inputs.stream().mapToLong(t -> t.shape().dim(axis)).sum();
        return List.of(new OperandType(inputs.getFirst().dtype(), Shape.of(dims)));
    }

    @Override
    public List<StridedCopy> boxes() {
        List<OperandType> parts = inputs;
        List<StridedCopy> boxes = new ArrayList<>();
        long start = 0;
        long whole = row(outputs().getFirst().shape(), axis);
        for (int k = 0; k < parts.size(); k++) {
            Shape part = parts.get(k).shape();
            long row = row(part, axis);
            long[] dims = {row == 0 ? 0 : part.elementCount() / row, row};
            boxes.add(StridedCopy.of(k, 0, dims, 0, new long[] {row, 1}, start, new long[] {whole, 1}));
            start += row;
        }
        return boxes;
    }

    /** Elements of the axes from {@code axis} on. */
    static long row(Shape shape, int axis) {
        return LongStream.of(shape.toArray()).skip(axis).reduce(1, (a, b) -> a * b);
    }
}
