package dev.octet.quant.layout;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.cast.BlockCast;
import dev.octet.quant.cast.Words;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.scale.ScaleNumbers;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * What the stored bytes of one quantised matrix mean, so that rows of it can be decoded wherever the bytes lie:
 * {@code value = f32((code - zeroPoint) * scale)}, where a scale is what is stored, as F32, after {@link Second}.
 *
 * @param shape {@code [rows, columns]} of the matrix, not of its codes
 * @param codes one to a byte; {@link QuantType#E2M1} two, the earlier in the low nibble; packed into I32 along the rows {@code inWords}
 * @param granularity which elements share a scale
 * @param inWords whether the codes of each row are packed into I32, offset binary
 * @param scale number type of the stored scales
 * @param direction whether a stored scale multiplies or divides
 * @param second the second level of scales; null where there is none
 * @param zeroPointRows rows of the matrix whose zero points are packed into one I32; 1 for one I8 each, 0 without zero points
 */
public record WeightForm(
        Shape shape,
        QuantType codes,
        Granularity granularity,
        boolean inWords,
        DType scale,
        ScaleTensor.Direction direction,
        @Nullable Second second,
        int zeroPointRows) {
    private static final BlockCast CAST = BlockCast.best();

    /**
     * One number that all scales of a matrix are multiplied or divided by, rounded to F32 (NVFP4).
     *
     * @param direction whether they are multiplied or divided
     */
    public record Second(float value, ScaleTensor.Direction direction) {}

    /** @throws IllegalArgumentException when it is not a matrix, or its rows do not end with a byte */
    public WeightForm {
        if (shape.rank() != 2) {
            throw new IllegalArgumentException("a matrix of shape " + shape);
        }
        if (codes == QuantType.E2M1 && shape.dim(1) % 2 != 0) {
            throw new IllegalArgumentException("rows of " + shape.dim(1) + " four-bit codes");
        }
        if (!ScaleNumbers.isNumber(scale) || codes.hasZeroPoint() != (zeroPointRows > 0)) {
            throw new IllegalArgumentException(codes + " with scales of " + scale + ", zero points " + zeroPointRows);
        }
    }

    /** Which elements share a scale. */
    public Blocks blocks() {
        return Blocks.of(shape, granularity);
    }

    /** Bytes of the codes of a row. */
    public long rowBytes() {
        long cols = shape.dim(1);
        return inWords ? Words.of(codes.bits()).words(cols) * Integer.BYTES : codes.bytes(cols);
    }

    /** Bytes of all codes. */
    public long codeBytes() {
        return shape.dim(0) * rowBytes();
    }

    /** Bytes of all scales. */
    public long scaleBytes() {
        return blocks().scaleCount() * scale.bits() / 8;
    }

    /** Bytes of all zero points. */
    public long zeroPointBytes() {
        if (zeroPointRows <= 1) {
            return zeroPointRows * blocks().scaleCount();
        }
        return Math.ceilDiv(shape.dim(0), (long) zeroPointRows) * blocks().gridCols() * Integer.BYTES;
    }

    /**
     * Decodes rows.
     *
     * @param allCodes {@link #codeBytes}
     * @param allScales {@link #scaleBytes}
     * @param allZeroPoints {@link #zeroPointBytes}; null without zero points
     * @param fromRow first row
     * @param toRow the row after the last
     * @param type F32, BF16 or F16: values are rounded to F32 and from there to it
     * @param target takes {@code (toRow - fromRow) * columns} elements of {@code type}
     */
    public void decode(
            MemorySegment allCodes,
            MemorySegment allScales,
            @Nullable MemorySegment allZeroPoints,
            long fromRow,
            long toRow,
            DType type,
            MemorySegment target) {
        long cols = shape.dim(1);
        if (fromRow >= toRow || cols == 0) {
            return;
        }
        ScaleRuns runs = blocks().runs(fromRow * cols, toRow * cols);
        try (Arena scratch = Arena.ofConfined()) {
            MemorySegment raw = allCodes.asSlice(fromRow * rowBytes(), (toRow - fromRow) * rowBytes());
            MemorySegment bytes = raw;
            if (inWords) {
                bytes = scratch.allocate(runs.elements(), 64);
                Words.of(codes.bits()).unpackRows(raw, toRow - fromRow, cols, bytes);
            }
            MemorySegment scales = scales(allScales, runs.firstScale(), runs.scaleCount(), scratch);
            if (zeroPointRows == 0) {
                CAST.decode(codes, bytes, runs, scales, type, target);
            } else {
                MemorySegment points = Objects.requireNonNull(allZeroPoints);
                CAST.decodeAffine(bytes, runs, scales, zeroPoints(points, fromRow, toRow, runs, scratch), type, target);
            }
        }
    }

    /**
     * Scales as F32 multipliers, the second level brought in; unchecked.
     *
     * @param allScales {@link #scaleBytes}
     * @param first index of the first one
     * @param scratch owns the result where scales are not stored as it
     */
    public MemorySegment scales(MemorySegment allScales, long first, long count, Arena scratch) {
        long width = scale.bits() / 8;
        MemorySegment stored = allScales.asSlice(first * width, count * width);
        if (scale == DType.F32 && direction == ScaleTensor.Direction.MULTIPLIER && second == null) {
            return stored;
        }
        MemorySegment f32 = scratch.allocate(count * Float.BYTES, 64);
        ScaleNumbers.read(scale, stored, count, f32);
        if (direction == ScaleTensor.Direction.DIVISOR) {
            for (long i = 0; i < count; i++) {
                f32.set(Tensor.F32_LE, i * Float.BYTES, 1 / f32.get(Tensor.F32_LE, i * Float.BYTES));
            }
        }
        if (second != null) {
            switch (second.direction()) {
                case MULTIPLIER -> ScaleNumbers.multiply(f32, count, second.value());
                case DIVISOR -> ScaleNumbers.divide(f32, count, second.value());
            }
        }
        return f32;
    }

    private MemorySegment zeroPoints(MemorySegment all, long fromRow, long toRow, ScaleRuns runs, Arena scratch) {
        if (zeroPointRows == 1) {
            return all.asSlice(runs.firstScale(), runs.scaleCount());
        }
        long groups = blocks().gridCols();
        long first = fromRow / zeroPointRows;
        long words = (Math.ceilDiv(toRow, (long) zeroPointRows) - first) * groups;
        MemorySegment points = scratch.allocate(runs.scaleCount(), 64);
        Words.of(codes.bits())
                .unpackColumns(
                        all.asSlice(first * groups * Integer.BYTES, words * Integer.BYTES),
                        fromRow,
                        toRow - fromRow,
                        groups,
                        points);
        return points;
    }
}
