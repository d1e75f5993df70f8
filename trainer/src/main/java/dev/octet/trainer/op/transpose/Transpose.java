package dev.octet.trainer.op.transpose;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;
import java.util.stream.IntStream;

/**
 * Axis {@code i} of the result is axis {@code order.get(i)} of x. The gradient is transposed back by the inverse order.
 *
 * @param order a permutation of the axes
 */
public record Transpose(OperandType x, List<Integer> order) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<Transpose> ENTRY = OpEntry.of(
                    Transpose.class, new TransposeReference(), new TransposeCpu(), new TransposeCuda())
            .onnx("Transpose", Transpose::read);

    public Transpose {
        order = List.copyOf(order);
    }

    /** Reads ONNX Transpose; without {@code perm} the axes are reversed. */
    static Transpose read(OpSource source) {
        OperandType x = source.input(0);
        int rank = x.shape().rank();
        List<Integer> order = source.node()
                .intsAttribute("perm")
                .map(p -> p.stream().map(axis -> source.axis(axis, rank)).toList())
                .orElseGet(() ->
                        IntStream.range(0, rank).mapToObj(i -> rank - 1 - i).toList());
        if (order.size() != rank || order.stream().distinct().count() != rank) {
            throw source.refusal(
                    "perm " + order + " does not permute " + x.shape(), "the model is damaged; export it again");
        }
        return new Transpose(x, order);
    }

    /** The shape of the result. */
    Shape shape() {
        return Shape.of(order.stream().mapToLong(axis -> x.shape().dim(axis)).toArray());
    }

    /** What takes the result back to x. */
    Transpose inverse() {
        return new Transpose(
                new OperandType(x.dtype(), shape()),
                IntStream.range(0, order.size()).mapToObj(order::indexOf).toList());
    }

    @Override
    public String type() {
        return "Transpose";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(new OperandType(x.dtype(), shape()));
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return false;
    }
}
