package dev.octet.trainer.op.qat;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.CodeGrid;
import dev.octet.quant.number.Float8Format;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * What a node {@code dev.octet.GridQuantize} says, before the shape of x is known.
 *
 * @param granularity of x as a matrix: its last axis, and all before it as one
 * @param firstAxisAlone whether the rows of the matrix are the first axis alone, as of a convolution's weight
 * @param count what N counts in the factor of gradients
 * @param narrowed whether x is read in the type that products are computed in, as a deployed model hands it to them
 */
public record QuantizeNode(
        CodeGrid grid,
        Granularity granularity,
        boolean firstAxisAlone,
        StepRule rule,
        GridQuantize.Form form,
        Count count,
        boolean narrowed) {
    private static final String GRID = "grid";
    private static final String GRANULARITY = "granularity";
    private static final String FIRST_AXIS = "first_axis_alone";
    private static final String RULE = "rule";
    private static final String PARAMETER = "parameter";
    private static final String OFFSET = "offset";
    private static final String COUNT = "count";
    private static final String NARROWED = "narrowed";

    /** The factor of the gradients of steps of a part of a tensor: that of the whole. */
    public static final String FACTOR = "factor";

    /** What N is in LSQ's factor 1 / √(N · high) of the gradients of steps. */
    public enum Count {
        /** The elements that share a step, all samples of a micro-batch included. */
        SHARED,
        /** The elements of the tensor, as the authors' code has it for steps of channels, too. */
        TENSOR,
        /** The features of a sample, as the paper has it for activations: the last axis. */
        FEATURES,
        /** The factor is 1. */
        NONE
    }

    /** The attributes of the node. */
    public Attribute[] attributes() {
        List<Attribute> all = new ArrayList<>(List.of(
                Attribute.of(GRID, text(grid)),
                Attribute.of(GRANULARITY, text(granularity)),
                Attribute.of(RULE, name(rule)),
                Attribute.of(PARAMETER, name(form.parameter())),
                Attribute.of(OFFSET, name(form.offset())),
                Attribute.of(COUNT, name(count))));
        if (firstAxisAlone) {
            all.add(Attribute.of(FIRST_AXIS, 1L));
        }
        if (narrowed) {
            all.add(Attribute.of(NARROWED, 1L));
        }
        return all.toArray(Attribute[]::new);
    }

    /** Whether a node reads its first input in the narrow type. */
    public static boolean isNarrowed(Node node) {
        return node.intAttribute(NARROWED, 0) != 0;
    }

    /** What a node says; it was made with {@link #attributes}. */
    static QuantizeNode read(Node node) {
        GridQuantize.Form form = new GridQuantize.Form(
                value(GridQuantize.Parameter.class, node, PARAMETER),
                value(GridQuantize.Offset.class, node, OFFSET),
                has(node, GridQuantize.PRE),
                has(node, GridQuantize.GLOBAL));
        return new QuantizeNode(
                grid(node.textAttribute(GRID, "")),
                granularity(node.textAttribute(GRANULARITY, "")),
                node.intAttribute(FIRST_AXIS, 0) != 0,
                value(StepRule.class, node, RULE),
                form,
                value(Count.class, node, COUNT),
                isNarrowed(node));
    }

    private static boolean has(Node node, int i) {
        return i < node.inputs().size() && !node.input(i).isEmpty();
    }

    /** The blocks of a tensor as a matrix. */
    public Blocks blocks(Shape shape) {
        long cols = shape.rank() == 0 ? 1 : shape.dim(-1);
        long rows = cols == 0 ? 0 : shape.elementCount() / cols;
        if (firstAxisAlone) {
            rows = shape.dim(0);
            cols = rows == 0 ? 0 : shape.elementCount() / rows;
        }
        return matrix(granularity, rows, cols);
    }

    private static Blocks matrix(Granularity granularity, long rows, long cols) {
        long[] block = granularity.blockShape(Shape.of(rows, cols));
        return Blocks.ofMatrix(rows, cols, Math.max(1, block[0]), Math.max(1, block[1]));
    }

    /** Shape of the steps of a tensor: none of one step, [channels], or the grid of blocks of its matrix. */
    public Shape stepShape(Shape shape) {
        Blocks blocks = blocks(shape);
        return switch (granularity) {
            case Granularity.PerTensor _ -> Shape.SCALAR;
            case Granularity.PerChannel _ -> Shape.of(blocks.scaleCount());
            default -> blocks.scaleShape();
        };
    }

    GridQuantize op(OperandType x, Shape steps, OpSource source) {
        Blocks blocks = blocks(x.shape());
        if (steps.elementCount() != blocks.scaleCount()) {
            throw source.refusal(
                    "it has " + steps.elementCount() + " steps for " + blocks.scaleCount() + " blocks of " + x.shape(),
                    "quantise it per tensor or per token, with which any number of rows goes");
        }
        float own = (float) factor(x.shape(), blocks);
        return new GridQuantize(x, grid, blocks, rule, form, source.node().floatAttribute(FACTOR, own));
    }

    /** The factor of the gradients of steps. */
    double factor(Shape shape, Blocks blocks) {
        double n = switch (count) {
            case NONE -> 0;
            case SHARED -> (double) blocks.elements() / Math.max(1, blocks.scaleCount());
            case TENSOR -> blocks.elements();
            case FEATURES -> shape.rank() == 0 ? 1 : shape.dim(-1);
        };
        return n == 0 ? 1 : 1 / Math.sqrt(n * grid.high());
    }

    private static String name(Enum<?> value) {
        return value.name().toLowerCase(Locale.ROOT);
    }

    private static <E extends Enum<E>> E value(Class<E> type, Node node, String attribute) {
        return Enum.valueOf(type, node.textAttribute(attribute, "").toUpperCase(Locale.ROOT));
    }

    private static String text(CodeGrid grid) {
        return switch (grid) {
            case CodeGrid.Integers(int least, int largest) -> least + ".." + largest;
            case CodeGrid.Floats(Float8Format format) -> format.name();
            case CodeGrid.Signs() -> "signs";
        };
    }

    private static CodeGrid grid(String text) {
        int dots = text.indexOf("..");
        if (dots >= 0) {
            return new CodeGrid.Integers(
                    Integer.parseInt(text.substring(0, dots)), Integer.parseInt(text.substring(dots + 2)));
        }
        return text.equals("signs") ? new CodeGrid.Signs() : new CodeGrid.Floats(Float8Format.valueOf(text));
    }

    private static String text(Granularity granularity) {
        return switch (granularity) {
            case Granularity.PerTensor() -> "tensor";
            case Granularity.PerToken() -> "token";
            case Granularity.PerChannel(int axis) -> "channel " + axis;
            case Granularity.PerGroup(int axis, int size) -> "group " + axis + " " + size;
            case Granularity.Mx(int axis, int size) -> "mx " + axis + " " + size;
            case Granularity.PerBlock(int rows, int cols) -> "block " + rows + " " + cols;
        };
    }

    private static Granularity granularity(String text) {
        String[] parts = text.split(" ", -1);
        return switch (parts[0]) {
            case "tensor" -> new Granularity.PerTensor();
            case "token" -> new Granularity.PerToken();
            case "channel" -> new Granularity.PerChannel(Integer.parseInt(parts[1]));
            case "group" -> new Granularity.PerGroup(Integer.parseInt(parts[1]), Integer.parseInt(parts[2]));
            case "mx" -> new Granularity.Mx(Integer.parseInt(parts[1]), Integer.parseInt(parts[2]));
            case "block" -> new Granularity.PerBlock(Integer.parseInt(parts[1]), Integer.parseInt(parts[2]));
            default -> throw new IllegalArgumentException("granularity '" + text + "'");
        };
    }
}
