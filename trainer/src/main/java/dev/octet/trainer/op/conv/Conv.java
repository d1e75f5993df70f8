package dev.octet.trainer.op.conv;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.Collections;
import java.util.List;

/**
 * ONNX Conv over one or two axes (one is two with a first of length 1).
 *
 * @param x [batch, channels, rows, columns]
 * @param w [filters, channels / groups, kernel rows, kernel columns]
 * @param hasBias whether input 2, [filters], is there
 * @param y [batch, filters, rows, columns]
 */
public record Conv(
        OperandType x,
        OperandType w,
        boolean hasBias,
        OperandType y,
        int batch,
        int channels,
        int filters,
        int groups,
        Window rows,
        Window columns)
        implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<Conv> ENTRY = OpEntry.of(Conv.class, new ConvReference(), new ConvCpu(), new ConvCuda())
            .onnx("Conv", Conv::read);

    /** Reads ONNX Conv of any opset. */
    static Conv read(OpSource source) {
        OperandType x = source.input(0);
        OperandType w = source.input(1);
        int axes = x.shape().rank() - 2;
        if (x.dtype() != w.dtype() || !x.dtype().isFloat()) {
            throw source.refusal("its operands are " + x + " and " + w, "cast one of them in the model");
        }
        if (axes < 1 || axes > 2 || w.shape().rank() != axes + 2) {
            throw source.refusal(
                    "x is " + x + ", w is " + w + "; one or two axes are supported",
                    "leave this layer out of training");
        }
        long groups = source.node().intAttribute("group", 1);
        long channels = x.shape().dim(1);
        long filters = w.shape().dim(0);
        if (groups < 1 || channels != w.shape().dim(1) * groups || filters % groups != 0) {
            throw source.refusal(
                    groups + " groups of " + w + " do not fit " + x, "check the attribute group and the shapes");
        }
        Window last = window(source, x, w, axes, axes - 1);
        Window first = axes == 2 ? window(source, x, w, axes, 0) : Window.ONE;
        Shape y = axes == 2
                ? Shape.of(x.shape().dim(0), filters, first.out(), last.out())
                : Shape.of(x.shape().dim(0), filters, last.out());
        return new Conv(
                x,
                w,
                source.has(2),
                new OperandType(x.dtype(), y),
                Math.toIntExact(x.shape().dim(0)),
                Math.toIntExact(channels),
                Math.toIntExact(filters),
                Math.toIntExact(groups),
                first,
                last);
    }

    private static Window window(OpSource source, OperandType x, OperandType w, int axes, int axis) {
        long in = x.shape().dim(2 + axis);
        long kernel = w.shape().dim(2 + axis);
        long stride = attribute(source, "strides", axes, 1).get(axis);
        long dilation = attribute(source, "dilations", axes, 1).get(axis);
        List<Long> pads = attribute(source, "pads", 2 * axes, 0);
        String auto = source.node().textAttribute("auto_pad", "NOTSET");
        return switch (auto) {
            case "NOTSET", "" -> Window.of(in, kernel, stride, dilation, pads.get(axis), pads.get(axes + axis));
            case "VALID" -> Window.of(in, kernel, stride, dilation, 0, 0);
            case "SAME_UPPER" -> Window.same(in, kernel, stride, dilation, false);
            case "SAME_LOWER" -> Window.same(in, kernel, stride, dilation, true);
            default -> throw source.refusal("auto_pad is '" + auto + "'", "export the model again");
        };
    }

    private static List<Long> attribute(OpSource source, String name, int count, long fallback) {
        List<Long> values = source.node().intsAttribute(name).orElse(Collections.nCopies(count, fallback));
        if (values.size() != count) {
            throw source.refusal(name + " has " + values.size() + " numbers, not " + count, "export the model again");
        }
        return values;
    }

    /** Channels of a group. */
    int groupChannels() {
        return channels / groups;
    }

    /** Filters of a group. */
    int groupFilters() {
        return filters / groups;
    }

    /** Inputs that one output reads: the length of a filter. */
    int taps() {
        return groupChannels() * rows.kernel() * columns.kernel();
    }

    /** Elements of a channel of x. */
    int inPlane() {
        return rows.in() * columns.in();
    }

    /** Elements of a channel of y. */
    int outPlane() {
        return rows.out() * columns.out();
    }

    @Override
    public String type() {
        return "Conv";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(y);
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return i < 2;
    }
}
