package dev.octet.trainer.op.copy;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** x cut along an axis; gradients are joined, zeros where an output has none. */
public record Split(OperandType x, int axis, List<Long> sizes) implements StridedCopyOp {
    /** Its row in the table of operators. */
    public static final OpEntry<Split> ENTRY = StridedCopyOp.entry(Split.class).onnx("Split", Split::read);

    public Split {
        sizes = List.copyOf(sizes);
    }

    /** Reads ONNX Split: sizes are an input from opset 13 on, an attribute before; without, all are equal but perhaps the last. */
    static Split read(OpSource source) {
        OperandType x = source.input(0);
        int axis = source.axis(source.node().intAttribute("axis", 0), x.shape().rank());
        long size = x.shape().dim(axis);
        int parts = source.node().outputs().size();
        List<Long> sizes = source.has(1)
                ? Arrays.stream(source.longs(1)).boxed().toList()
                : source.node().intsAttribute("split").orElseGet(() -> equal(size, parts));
        if (sizes.size() != parts
                || sizes.stream().mapToLong(s -> s).sum() != size
                || sizes.stream().anyMatch(s -> s < 0)) {
            throw source.refusal(
                    "an axis of " + size + " is not cut into " + sizes + " for " + parts + " outputs",
                    "the model is damaged; export it again");
        }
        return new Split(x, axis, sizes);
    }

    private static List<Long> equal(long size, int parts) {
        long part = Math.ceilDiv(size, (long) parts);
        List<Long> sizes = new ArrayList<>();
        for (int k = 0; k < parts; k++) {
            sizes.add(Math.max(0, Math.min(part, size - k * part)));
        }
        return sizes;
    }

    @Override
    public String type() {
        return "Split";
    }

    @Override
    public List<OperandType> outputs() {
        List<OperandType> parts = new ArrayList<>();
        for (long size : sizes) {
            long[] dims = x.shape().toArray();
            dims[axis] = size;
            parts.add(new OperandType(x.dtype(), Shape.of(dims)));
        }
        return parts;
    }

    @Override
    public List<StridedCopy> boxes() {
        List<OperandType> parts = outputs();
        List<StridedCopy> boxes = new ArrayList<>();
        long start = 0;
        long whole = Concat.row(x.shape(), axis);
        for (int k = 0; k < parts.size(); k++) {
            Shape part = parts.get(k).shape();
            long row = Concat.row(part, axis);
            long[] dims = {row == 0 ? 0 : part.elementCount() / row, row};
            boxes.add(StridedCopy.of(0, k, dims, start, new long[] {whole, 1}, 0, new long[] {row, 1}));
            start += row;
        }
        return boxes;
    }
}
