package dev.octet.quant.merge;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.cast.BlockCast;
import dev.octet.quant.gptq.BlockScales;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.GlobalScale;
import dev.octet.quant.scale.GlobalScale.Direction;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/**
 * The numbers that a quantised weight can be: values rounded with fresh scales, as the file that is written of them holds them. Training that is
 * aware of the merge computes with them; scales follow from the values as they do when a checkpoint is written.
 *
 * @param scheme codes, blocks and rule of the scales
 * @param second whether readers multiply or divide by the second level of scales; null where there is none
 */
public record WeightGrid(OperandSpec scheme, @Nullable Direction second) {
    private static final BlockCast CAST = BlockCast.best();
    private static final int MAX_GROWTH = 64;

    public WeightGrid {
        if (scheme.twoLevels() != (second != null)) {
            throw new IllegalArgumentException("a scheme of " + (scheme.twoLevels() ? "two levels" : "one level")
                    + " and a second level of " + second);
        }
    }

    /** Whether a scale follows from all of a weight, so that its largest magnitude must be known before a row is rounded. */
    public boolean hasWholeScale() {
        return scheme.perTensor() || scheme.twoLevels();
    }

    /** The scale of the whole weight: a multiplier, of two levels the upper one as stored. */
    public float wholeScale(float amax) {
        return second == null
                ? scheme.storedScale(amax)
                : GlobalScale.of(amax, scheme.format(), second).value();
    }

    /**
     * A scale that is shared with weights that do not change, made larger by the smallest power of two with which it holds {@code amax}.
     *
     * @param scale as {@link #wholeScale} gives it
     */
    public float grown(float scale, float amax) {
        int growth = growth(scale, amax);
        return Math.scalb(scale, second == Direction.DIVISOR ? -growth : growth);
    }

    /** By how many powers of two {@link #grown} makes a scale larger. */
    public int growth(float scale, float amax) {
        double multiplier = second == Direction.DIVISOR ? 1.0 / scale : scale;
        double most = multiplier * scheme.type().maxValue() * (second == null ? 1 : Float8Format.E4M3FN.maxValue());
        int growth = 0;
        while (amax > Math.scalb(most, growth) && growth < MAX_GROWTH) {
            growth++;
        }
        return growth;
    }

    /**
     * Codes and scales of rows.
     *
     * @param codes integers one to a byte, floats of four bits two
     * @param scales F32 multipliers of the blocks as readers compute them
     * @param zeroPoints I8; of no length without zero points
     */
    public record Encoded(MemorySegment codes, MemorySegment scales, MemorySegment zeroPoints) {}

    /**
     * Rounds rows to the grid.
     *
     * @param rows how many; they start with a block and end with one, or with the weight
     * @param values {@code rows * cols} F32, finite
     * @param whole the scale of the whole weight, where {@link #hasWholeScale}
     * @param type F32, BF16 or F16
     * @param target takes the values as readers see them
     */
    public void round(long rows, long cols, MemorySegment values, float whole, DType type, MemorySegment target) {
        try (Arena arena = Arena.ofConfined()) {
            Encoded e = encode(rows, cols, values, whole, arena);
            ScaleRuns runs = runs(rows, cols);
            if (e.zeroPoints().byteSize() > 0) {
                CAST.decodeAffine(e.codes(), runs, e.scales(), e.zeroPoints(), type, target);
            } else {
                CAST.decode(scheme.type(), e.codes(), runs, e.scales(), type, target);
            }
        }
    }

    private ScaleRuns runs(long rows, long cols) {
        return Blocks.of(Shape.of(rows, cols), scheme.granularity()).runs();
    }

    /**
     * Codes and scales of rows, as {@link #round}.
     *
     * @param arena owns them
     */
    public Encoded encode(long rows, long cols, MemorySegment values, float whole, Arena arena) {
        ScaleRuns runs = runs(rows, cols);
        MemorySegment scales = arena.allocate(runs.scaleCount() * Float.BYTES, 64);
        MemorySegment codes = arena.allocate(scheme.type().bytes(runs.elements()), 64);
        BlockScales blocks = BlockScales.usual(scheme);
        BlockScales.Values of = new BlockScales.Values(DType.F32, values, runs, scales);
        if (scheme.type().hasZeroPoint()) {
            MemorySegment zeroPoints = arena.allocate(runs.scaleCount(), 64);
            blocks.affine(of, CAST.ranges(DType.F32, values, runs), zeroPoints);
            CAST.encodeAffine(scheme.type(), DType.F32, values, runs, scales, zeroPoints, codes);
            return new Encoded(codes, scales, zeroPoints);
        }
        if (scheme.perTensor()) {
            scales.set(Tensor.F32_LE, 0, whole);
        } else {
            CAST.amax(DType.F32, values, runs, scales);
            if (second != null) {
                blocks.twoLevels(of, new GlobalScale(whole, second), arena.allocate(runs.scaleCount(), 64));
            } else {
                blocks.oneLevel(of);
            }
        }
        CAST.encode(scheme.type(), DType.F32, values, runs, scales, codes);
        return new Encoded(codes, scales, MemorySegment.NULL);
    }
}
