package dev.octet.converter.plan;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import java.lang.foreign.Arena;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * The scales that a training run multiplied the codes of one weight with.
 *
 * @param scales dequantisation multipliers, F32, one for each block, row-major; each is above zero
 * @param blocks which elements share a scale, of the matrix as it lies in the graph
 * @param turned whether the matrix lies as [in, out]
 * @param global the scale above scales of two levels (NVFP4), which {@code scales} include; null for one level
 */
public record WeightScales(
        Tensor scales,
        Blocks blocks,
        boolean turned,
        @Nullable Float global) {
    /** @throws IllegalArgumentException when there is not a scale for each block */
    public WeightScales {
        if (scales.dtype() != DType.F32 || scales.shape().elementCount() != blocks.scaleCount()) {
            throw new IllegalArgumentException(scales.spec() + " for " + blocks.scaleCount() + " blocks");
        }
    }

    /** Whether a Linear holds its matrix as [in, out]. */
    static boolean isTurned(Node linear) {
        return linear.intAttribute("transB", 0) == 0;
    }

    /** The multiplier of an element, counted as the matrix lies in the graph. */
    public float of(long element) {
        return scales.bytes().getAtIndex(Tensor.F32_LE, blocks.scaleOf(element));
    }

    /**
     * These scales in other blocks, each of which lies within one of these.
     *
     * @param granularity of the matrix in [out, in] order
     * @return F32 in the order of the blocks of the matrix in [out, in] order; empty where a block would have several scales
     */
    public Optional<Tensor> in(Granularity granularity, Arena arena) {
        Shape own = blocks.shape();
        long out = own.dim(turned ? 1 : 0);
        long in = own.dim(turned ? 0 : 1);
        Blocks wanted = Blocks.of(Shape.of(out, in), granularity);
        Tensor made = Tensor.allocate(arena, new TensorSpec("scales", DType.F32, wanted.scaleShape()));
        long rows = wanted.blockRows();
        long cols = wanted.blockCols();
        int at = 0;
        for (long r = 0; r < out; r += rows) {
            for (long c = 0; c < in; c += cols) {
                long first = block(r, c, out, in);
                long last = block(Math.min(out, r + rows) - 1, Math.min(in, c + cols) - 1, out, in);
                if (first != last) {
                    return Optional.empty();
                }
                made.bytes().setAtIndex(Tensor.F32_LE, at++, scales.bytes().getAtIndex(Tensor.F32_LE, first));
            }
        }
        return Optional.of(made);
    }

    private long block(long row, long col, long out, long in) {
        return blocks.scaleOf(turned ? col * out + row : row * in + col);
    }
}
