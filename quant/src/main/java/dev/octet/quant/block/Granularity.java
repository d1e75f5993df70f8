package dev.octet.quant.block;

import dev.octet.formats.tensor.Shape;
import java.util.Arrays;

/**
 * The elements of a tensor that share a scale: a box, the {@linkplain #blockShape block}. Blocks tile the tensor from the origin; blocks at
 * the far edges may overhang it.
 *
 * <p>Axes may be negative and then count from the innermost, -1. All methods throw {@link IllegalArgumentException} when the
 * shape has too few axes.
 */
public sealed interface Granularity {
    /** One scale for all elements. Scale shape {@code []}. */
    record PerTensor() implements Granularity {}

    /** One scale per index along {@code axis}; for a weight the output channels. Scale shape {@code [dim(axis)]}. */
    record PerChannel(int axis) implements Granularity {}

    /** One scale per vector along the innermost axis, usually one token. Scale shape: that of the tensor, innermost 1. */
    record PerToken() implements Granularity {}

    /**
     * One scale per {@code size} consecutive elements along {@code axis}. Scale shape: that of the tensor with
     * {@code ceil(dim(axis) / size)} along the axis, as in ONNX blocked quantisation.
     */
    record PerGroup(int axis, int size) implements Granularity {
        public PerGroup {
            requirePositive(size);
        }
    }

    /**
     * One scale per tile of the two innermost axes, 128 x 128 in DeepSeek-V3 checkpoints. Scale shape: that of the tensor with
     * {@code ceil(dim / rows)} and {@code ceil(dim / cols)} innermost.
     */
    record PerBlock(int rows, int cols) implements Granularity {
        public PerBlock {
            requirePositive(rows);
            requirePositive(cols);
        }
    }

    /**
     * The blocks of the microscaling formats: {@code size} (32 in OCP MX v1.0) consecutive elements along {@code axis}, which must
     * be the axis that a matrix product sums over. Scale shape as for {@link PerGroup}; scales are stored as E8M0.
     */
    record Mx(int axis, int size) implements Granularity {
        public Mx {
            requirePositive(size);
        }

        /** Blocks along the innermost axis. */
        public Mx(int size) {
            this(-1, size);
        }
    }

    /** In words, as in {@code per channel}, {@code per 128 x 128}. */
    default String text() {
        return switch (this) {
            case PerTensor() -> "per tensor";
            case PerChannel(int axis) ->
                axis == -2 ? "per channel" : axis == -1 ? "per column" : "per index of axis " + axis;
            case PerToken() -> "per row";
            case PerGroup(int axis, int size) -> "per " + size + (axis == -1 ? "" : " along axis " + axis);
            case PerBlock(int rows, int cols) -> "per " + rows + " x " + cols;
            case Mx(int axis, int size) -> "per " + size + (axis == -1 ? "" : " along axis " + axis);
        };
    }

    /** Extent of the block along each axis of a tensor of shape {@code shape}, at least 1. */
    default long[] blockShape(Shape shape) {
        long[] dims = shape.toArray();
        return switch (this) {
            case PerTensor() -> atLeastOne(dims);
            case PerChannel(int axis) -> {
                dims[resolve(axis, shape)] = 1;
                yield atLeastOne(dims);
            }
            case PerToken() -> {
                long[] block = ones(shape);
                int last = resolve(-1, shape);
                block[last] = Math.max(1, dims[last]);
                yield block;
            }
            case PerGroup(int axis, int size) -> alongAxis(shape, axis, size);
            case Mx(int axis, int size) -> alongAxis(shape, axis, size);
            case PerBlock(int rows, int cols) -> {
                long[] block = ones(shape);
                block[resolve(-2, shape)] = rows;
                block[resolve(-1, shape)] = cols;
                yield block;
            }
        };
    }

    /** Rows that share a scale, so that parts of a matrix begin at a multiple of it; 1 where all rows share one, or all of a column. */
    default int rowAlignment() {
        return this instanceof PerBlock(int rows, int _) ? rows : 1;
    }

    /** Number of blocks along each axis: {@code ceil(dim / block)}. Row-major over it, scales have the order of their blocks. */
    default long[] gridShape(Shape shape) {
        long[] grid = blockShape(shape);
        for (int axis = 0; axis < grid.length; axis++) {
            grid[axis] = Math.ceilDiv(shape.dim(axis), grid[axis]);
        }
        return grid;
    }

    /**
     * Shape of the tensor of scales that belongs to a tensor of shape {@code shape}: the grid of blocks, without the axes of extent
     * 1 for {@link PerTensor} and {@link PerChannel}.
     */
    default Shape scaleShape(Shape shape) {
        return switch (this) {
            case PerTensor() -> Shape.SCALAR;
            case PerChannel(int axis) -> Shape.of(shape.dim(resolve(axis, shape)));
            case PerToken _, PerGroup _, PerBlock _, Mx _ -> Shape.of(gridShape(shape));
        };
    }

    private static long[] alongAxis(Shape shape, int axis, int size) {
        long[] block = ones(shape);
        block[resolve(axis, shape)] = size;
        return block;
    }

    private static int resolve(int axis, Shape shape) {
        int resolved = axis < 0 ? axis + shape.rank() : axis;
        if (resolved < 0 || resolved >= shape.rank()) {
            throw new IllegalArgumentException("no axis " + axis + " in shape " + shape);
        }
        return resolved;
    }

    private static long[] ones(Shape shape) {
        long[] ones = new long[shape.rank()];
        Arrays.fill(ones, 1);
        return ones;
    }

    private static long[] atLeastOne(long[] dims) {
        for (int i = 0; i < dims.length; i++) {
            dims[i] = Math.max(1, dims[i]);
        }
        return dims;
    }

    private static void requirePositive(int size) {
        if (size < 1) {
            throw new IllegalArgumentException("block extent " + size + " is below 1");
        }
    }
}
