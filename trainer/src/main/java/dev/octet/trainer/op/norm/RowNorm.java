package dev.octet.trainer.op.norm;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.ArrayList;
import java.util.List;

/**
 * {@code y = x̂ · w + b} with {@code x̂ = (x - mean) · r} and {@code r = 1 / sqrt(variance + epsilon)}, row by row: ONNX
 * LayerNormalization (17). Without centring, mean is 0 and the variance is the mean square: RMSNormalization (23). Inputs: x, w and,
 * perhaps, b.
 *
 * <p>Mean (when centred) and r are outputs of LayerNormalization when the node asks for them, otherwise they are saved; so mean is
 * output 1 and r is output 2 (output 1 without centring) in any case. Both are F32.
 *
 * @param x type of input 0
 * @param y type of output 0
 * @param rows product of the dimensions before {@code axis}
 * @param size product of the others: elements normalised together, and elements of w and b
 * @param nodeOutputs how many outputs the node has: 1 to 3
 */
public record RowNorm(
        OperandType x, OperandType y, boolean centred, int axis, int rows, int size, float epsilon, int nodeOutputs)
        implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<RowNorm> ENTRY = OpEntry.of(
                    RowNorm.class, new RowNormReference(), new RowNormCpu(), new RowNormCuda())
            .onnx("LayerNormalization", RowNorm::readLayer)
            .octet("LayerNormalization", RowNorm::readLayer)
            .onnx("RMSNormalization", RowNorm::readRms)
            .octet("RMSNormalization", RowNorm::readRms);

    /** Reads LayerNormalization of ONNX's or Octet's domain. */
    static RowNorm readLayer(OpSource source) {
        int outputs = source.node().outputs().size();
        return read(source, true, source.input(0).dtype(), outputs);
    }

    /** Reads RMSNormalization of ONNX's or Octet's domain. */
    static RowNorm readRms(OpSource source) {
        return read(source, false, source.input(1).dtype(), 1);
    }

    private static RowNorm read(OpSource source, boolean centred, DType result, int outputs) {
        OperandType x = source.input(0);
        long axis = source.node().intAttribute("axis", -1);
        int at = Math.toIntExact(axis < 0 ? axis + x.shape().rank() : axis);
        if (at < 0 || at >= x.shape().rank()) {
            throw source.refusal("axis " + axis + " is outside of " + x.shape(), "export the model again");
        }
        RowNorm norm = of(x, result, centred, at, source.node().floatAttribute("epsilon", 1e-5f), Math.max(1, outputs));
        for (int i = 1; i <= 2; i++) {
            if (source.has(i) && source.input(i).count() != norm.size) {
                throw source.refusal(
                        "input " + i + " is " + source.input(i).shape() + ", a row has " + norm.size + " elements",
                        "expand the input to the normalised dimensions of " + x.shape());
            }
        }
        return norm;
    }

    /** Normalises the axes from {@code axis} on. */
    public static RowNorm of(OperandType x, DType result, boolean centred, int axis, float epsilon, int nodeOutputs) {
        long rows = 1;
        for (int i = 0; i < axis; i++) {
            rows *= x.shape().dim(i);
        }
        int r = Math.toIntExact(rows);
        int size = Math.toIntExact(rows == 0 ? 0 : x.count() / rows);
        return new RowNorm(x, x.as(result), centred, axis, r, size, epsilon, nodeOutputs);
    }

    @Override
    public String type() {
        return centred ? "LayerNormalization" : "RMSNormalization";
    }

    /** Output that holds r. */
    int deviationOutput() {
        return centred ? 2 : 1;
    }

    private List<OperandType> all() {
        long[] dims = new long[x.shape().rank()];
        for (int i = 0; i < dims.length; i++) {
            dims[i] = i < axis ? x.shape().dim(i) : 1;
        }
        OperandType perRow = new OperandType(DType.F32, Shape.of(dims));
        List<OperandType> all = new ArrayList<>(List.of(y, perRow));
        if (centred) {
            all.add(perRow);
        }
        return all;
    }

    @Override
    public List<OperandType> outputs() {
        return all().subList(0, nodeOutputs);
    }

    @Override
    public List<OperandType> saved() {
        List<OperandType> all = all();
        return all.subList(nodeOutputs, all.size());
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return i < 2;
    }

    @Override
    public boolean backwardReadsOutput(int j) {
        return j > 0;
    }
}
