package dev.octet.quant.layout;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.block.Granularity.Mx;
import dev.octet.quant.block.Granularity.PerBlock;
import dev.octet.quant.block.Granularity.PerChannel;
import dev.octet.quant.block.Granularity.PerGroup;
import dev.octet.quant.block.Granularity.PerTensor;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Which elements of a weight share a scale, told from the shapes of both. Layouts write one grid of scales in several shapes:
 * {@code [out]}, {@code [out, 1]}, {@code [rows, cols]}, {@code [rows, 1, cols, 1]}; with experts in front, too.
 */
final class ScaleGranularity {
    private static final int MX_BLOCK = 32;

    /** Extents of blocks to try before odd ones, the usual first. */
    private static final List<Integer> USUAL_EXTENTS = List.of(128, 64, 32, 16, 256, 512, 8, 1024);

    private ScaleGranularity() {}

    /**
     * The granularity that gives scales of shape {@code scale}.
     *
     * @param weight shape of the weight, two codes of a byte counted as two
     * @param number what the scales are; E8M0 in blocks of 32 are those of MX
     * @param expected what a configuration says, taken when it fits; null when it says nothing
     * @return empty when no granularity fits
     */
    static Optional<Granularity> of(Shape weight, Shape scale, DType number, @Nullable Granularity expected) {
        if (expected != null && fits(weight, scale, expected)) {
            return Optional.of(microscaling(expected, number));
        }
        if (weight.rank() < 2) {
            return scale.elementCount() == 1 ? Optional.of(new PerTensor()) : Optional.empty();
        }
        long[] grid = grid(weight, scale);
        long out = weight.dim(-2);
        long in = weight.dim(-1);
        if (grid.length == 2) {
            if (grid[0] == out && number == DType.F8_E8M0 && grid[1] == Math.ceilDiv(in, MX_BLOCK)) {
                return Optional.of(new Mx(MX_BLOCK));
            }
            if (grid[0] == 1 && grid[1] == 1) {
                return Optional.of(new PerTensor());
            }
            if (grid[0] == out && grid[1] == 1) {
                return Optional.of(new PerChannel(-2));
            }
            if (scale.rank() < weight.rank()) {
                return Optional.empty(); // a scale for each of some fused parts, whose sizes nobody tells
            }
            return blocks(out, in, grid[0], grid[1], number);
        }
        return scale.elementCount() == 1 ? Optional.of(new PerTensor()) : Optional.empty();
    }

    /** Whether {@code scale} is a shape that layouts give scales of this granularity. */
    private static boolean fits(Shape weight, Shape scale, Granularity granularity) {
        if (granularity instanceof PerTensor) {
            return oneForEachMatrix(weight, scale);
        }
        if (weight.rank() < 2) {
            return false;
        }
        long[] wanted = granularity.gridShape(weight);
        long[] matrix = Arrays.copyOfRange(wanted, wanted.length - 2, wanted.length);
        return Arrays.equals(matrix, grid(weight, scale));
    }

    /** Whether a tensor holds one number for the whole weight, or one for each matrix of it. */
    static boolean oneForEachMatrix(Shape weight, Shape scale) {
        return scale.elementCount() == 1
                || (weight.rank() > 2 && Arrays.equals(new long[] {1, 1}, grid(weight, scale)));
    }

    private static Granularity microscaling(Granularity granularity, DType number) {
        return number == DType.F8_E8M0 && granularity instanceof PerGroup(int axis, int size)
                ? new Mx(axis, size)
                : granularity;
    }

    /**
     * Rows and columns of the grid of scales of one matrix; an empty array when the shape is none that scales have.
     */
    private static long[] grid(Shape weight, Shape scale) {
        long[] dims = scale.toArray();
        int experts = weight.rank() - 2;
        for (int axis = 0; axis < experts; axis++) {
            if (axis >= dims.length || dims[axis] != weight.dim(axis)) {
                return experts > 0 && scale.elementCount() == 1 ? new long[0] : withoutExperts(weight, dims);
            }
        }
        return matrixGrid(Arrays.copyOfRange(dims, experts, dims.length));
    }

    /** Scales that do not start with the number of experts belong to none. */
    private static long[] withoutExperts(Shape weight, long[] dims) {
        return weight.rank() == 2 ? matrixGrid(dims) : new long[0];
    }

    private static long[] matrixGrid(long[] dims) {
        return switch (dims.length) {
            case 0 -> new long[] {1, 1};
            case 1 -> new long[] {dims[0], 1};
            case 2 -> dims;
            case 4 -> dims[1] == 1 && dims[3] == 1 ? new long[] {dims[0], dims[2]} : new long[0];
            default -> new long[0];
        };
    }

    private static Optional<Granularity> blocks(long out, long in, long rows, long cols, DType number) {
        if (rows == 0 || cols == 0 || rows > out || cols > in) {
            return Optional.empty();
        }
        int usualRows = USUAL_EXTENTS.stream()
                .filter(e -> rows != out && Math.ceilDiv(out, e) == rows && Math.ceilDiv(in, e) == cols)
                .findFirst()
                .orElse(0);
        if (usualRows > 0) {
            return Optional.of(new PerBlock(usualRows, usualRows)); // square blocks, 128 first
        }
        long blockRows = extent(out, rows);
        long blockCols = extent(in, cols);
        if (blockRows == 0 || blockCols == 0 || blockRows > Integer.MAX_VALUE || blockCols > Integer.MAX_VALUE) {
            return Optional.empty();
        }
        if (blockRows == 1) {
            return Optional.of(microscaling(new PerGroup(-1, (int) blockCols), number));
        }
        return Optional.of(new PerBlock((int) blockRows, (int) blockCols));
    }

    /** The extent of {@code count} blocks that cover {@code dim}: a usual one if possible; 0 when there is none. */
    private static long extent(long dim, long count) {
        if (dim == count) {
            return 1;
        }
        for (int usual : USUAL_EXTENTS) {
            if (Math.ceilDiv(dim, usual) == count) {
                return usual;
            }
        }
        long extent = Math.ceilDiv(dim, count);
        return Math.ceilDiv(dim, extent) == count ? extent : 0;
    }
}
