package dev.octet.trainer.op.elements;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * GatherElements and GatherND: the rows of x that indices point at, one after the other. The gradient of x sums over equal rows, in the
 * order of the indices.
 *
 * @param type the ONNX operator it was read from
 */
public record GatherElements(String type, OperandType x, Places places, OperandType y) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<GatherElements> ENTRY = OpEntry.of(
                    GatherElements.class,
                    new GatherElementsReference(),
                    new GatherElementsCpu(),
                    new GatherElementsCuda())
            .onnx("GatherElements", GatherElements::elements)
            .onnx("GatherND", GatherElements::tuples);

    /** Reads ONNX GatherElements. */
    static GatherElements elements(OpSource source) {
        OperandType x = source.input(0);
        Shape indices = source.input(1).shape();
        int axis = source.axis(source.node().intAttribute("axis", 0), x.shape().rank());
        boolean fits = indices.rank() == x.shape().rank();
        for (int d = 0; fits && d < indices.rank(); d++) {
            fits = d == axis || indices.dim(d) <= x.shape().dim(d);
        }
        if (!fits) {
            throw source.refusal(
                    "indices " + indices + " do not lie within " + x.shape(), "the model is damaged; export it again");
        }
        return new GatherElements(
                "GatherElements",
                x,
                new Places.ByElement(source.node().id(), x.shape(), indices, axis),
                new OperandType(x.dtype(), indices));
    }

    /** Reads ONNX GatherND. */
    static GatherElements tuples(OpSource source) {
        OperandType x = source.input(0);
        Shape indices = source.input(1).shape();
        int batch = Math.toIntExact(source.node().intAttribute("batch_dims", 0));
        boolean fits = indices.rank() > batch
                && batch >= 0
                && indices.rank() > 0
                && batch + indices.dim(-1) <= x.shape().rank();
        for (int d = 0; fits && d < batch; d++) {
            fits = indices.dim(d) == x.shape().dim(d);
        }
        if (!fits) {
            throw source.refusal(
                    "indices " + indices + " do not point into " + x.shape(), "the model is damaged; export it again");
        }
        Places.ByTuple places = new Places.ByTuple(source.node().id(), x.shape(), indices, batch);
        return new GatherElements("GatherND", x, places, new OperandType(x.dtype(), places.rows()));
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(y);
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i == 0;
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return i == 1;
    }
}
