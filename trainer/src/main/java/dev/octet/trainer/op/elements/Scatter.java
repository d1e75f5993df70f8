package dev.octet.trainer.op.elements;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.Arrays;
import java.util.List;

/**
 * ScatterElements and ScatterND: x with rows of updates put, or added, where indices point. Of updates put at the same place the last
 * one stays, and only it has a gradient.
 *
 * @param type the ONNX operator it was read from
 * @param adds whether updates are added; else they replace
 */
public record Scatter(String type, OperandType x, OperandType updates, Places places, boolean adds) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<Scatter> ENTRY = OpEntry.of(
                    Scatter.class, new ScatterReference(), new ScatterCpu(), new ScatterCuda())
            .onnx("ScatterElements", Scatter::elements)
            .onnx("ScatterND", Scatter::tuples);

    /** Reads ONNX ScatterElements. */
    static Scatter elements(OpSource source) {
        OperandType x = source.input(0);
        Shape indices = source.input(1).shape();
        int axis = source.axis(source.node().intAttribute("axis", 0), x.shape().rank());
        return of(
                "ScatterElements", source, new Places.ByElement(source.node().id(), x.shape(), indices, axis), indices);
    }

    /** Reads ONNX ScatterND. */
    static Scatter tuples(OpSource source) {
        OperandType x = source.input(0);
        Shape indices = source.input(1).shape();
        if (indices.rank() == 0 || indices.dim(-1) > x.shape().rank()) {
            throw source.refusal(
                    "indices " + indices + " do not point into " + x.shape(), "the model is damaged; export it again");
        }
        Places.ByTuple places = new Places.ByTuple(source.node().id(), x.shape(), indices, 0);
        return of("ScatterND", source, places, places.rows());
    }

    private static Scatter of(String type, OpSource source, Places places, Shape rows) {
        String reduction = source.node().textAttribute("reduction", "none");
        if (!reduction.equals("none") && !reduction.equals("add")) {
            throw source.refusal("its reduction is '" + reduction + "'", "Octet trains 'none' and 'add'");
        }
        if (!source.input(2).shape().equals(rows)) {
            throw source.refusal(
                    "updates of " + source.input(2).shape() + " where indices point at " + rows,
                    "the model is damaged; export it again");
        }
        return new Scatter(type, source.input(0), source.input(2), places, reduction.equals("add"));
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(x);
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i != 1;
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return i == 1;
    }

    /**
     * Which update each element has that was replaced, and -1 where none.
     *
     * @param starts of the rows
     */
    int[] replacedBy(long[] starts) {
        int[] by = new int[Math.toIntExact(x.count())];
        Arrays.fill(by, -1);
        int inner = Math.toIntExact(places.inner());
        for (int r = 0; r < starts.length; r++) {
            for (int i = 0; i < inner; i++) {
                by[(int) starts[r] + i] = r * inner + i;
            }
        }
        return by;
    }
}
