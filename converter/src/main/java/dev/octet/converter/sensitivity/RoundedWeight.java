package dev.octet.converter.sensitivity;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.cast.BlockCast;
import dev.octet.quant.gptq.BlockScales;
import dev.octet.quant.gptq.CompensatedRows;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.GlobalScale;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/**
 * A weight rounded to a format and back, with the bytes that {@code octet quantize} writes with rounding to nearest: the same scales in the
 * same stored types, the same codes.
 */
final class RoundedWeight {
    private RoundedWeight() {}

    /**
     * Rounds.
     *
     * @param weight F32 [out, in], all finite
     * @param arena owns the result
     * @return F32 of the same shape
     */
    static Tensor of(Tensor weight, OperandSpec spec, Arena arena) {
        return of(weight, BlockScales.usual(spec), null, arena);
    }

    /**
     * Rounds as {@code octet quantize} does to checkpoints.
     *
     * @param weight F32 [out, in], all finite
     * @param how its scales are chosen
     * @param rows rounds with compensation; null to round to nearest
     * @param arena owns the result
     * @return F32 of the same shape
     */
    static Tensor of(Tensor weight, BlockScales how, @Nullable CompensatedRows rows, Arena arena) {
        OperandSpec spec = how.scheme();
        Blocks blocks = Blocks.of(weight.shape(), spec.granularity());
        ScaleRuns runs = blocks.runs();
        Tensor rounded = Tensor.allocate(arena, new TensorSpec(weight.name(), DType.F32, weight.shape()));
        BlockCast cast = BlockCast.best();
        try (Arena scratch = Arena.ofConfined()) {
            MemorySegment scales = scratch.allocate(Math.max(1, blocks.scaleCount() * Float.BYTES), 64);
            MemorySegment codes = scratch.allocate(Math.max(1, spec.type().bytes(blocks.elements())), 64);
            BlockScales.Values values = new BlockScales.Values(DType.F32, weight.bytes(), runs, scales);
            MemorySegment zeroPoints = null;
            if (spec.type().hasZeroPoint()) {
                zeroPoints = scratch.allocate(Math.max(1, blocks.scaleCount()));
                how.affine(values, cast.ranges(DType.F32, weight.bytes(), runs), zeroPoints);
            } else {
                cast.amax(DType.F32, weight.bytes(), runs, scales);
                symmetric(how, values, scratch);
            }
            if (rows != null) {
                rows.round(spec.type(), weight.bytes(), runs, scales, zeroPoints, codes);
            } else if (zeroPoints != null) {
                cast.encodeAffine(spec.type(), DType.F32, weight.bytes(), runs, scales, zeroPoints, codes);
            } else {
                cast.encode(spec.type(), DType.F32, weight.bytes(), runs, scales, codes);
            }
            if (zeroPoints != null) {
                cast.decodeAffine(codes, runs, scales, zeroPoints, DType.F32, rounded.bytes());
            } else {
                cast.decode(spec.type(), codes, runs, scales, DType.F32, rounded.bytes());
            }
        }
        return rounded;
    }

    private static void symmetric(BlockScales how, BlockScales.Values values, Arena scratch) {
        if (!how.scheme().twoLevels()) {
            how.oneLevel(values);
            return;
        }
        long count = values.runs().scaleCount();
        float amax = 0;
        for (long i = 0; i < count; i++) {
            amax = Math.max(amax, values.scales().get(Tensor.F32_LE, i * Float.BYTES));
        }
        how.twoLevels(values, how.global(amax, GlobalScale.Direction.DIVISOR), scratch.allocate(Math.max(1, count)));
    }

    /**
     * Values rounded to a type by one scale that is known, and back.
     *
     * @param values F32
     * @param scale the dequantisation multiplier of all elements
     */
    static Tensor withScale(Tensor values, QuantType type, float scale, Arena arena) {
        Blocks blocks = Blocks.of(values.shape(), new Granularity.PerTensor());
        ScaleRuns runs = blocks.runs();
        Tensor rounded = Tensor.allocate(arena, new TensorSpec(values.name(), DType.F32, values.shape()));
        BlockCast cast = BlockCast.best();
        try (Arena scratch = Arena.ofConfined()) {
            MemorySegment scales = scratch.allocate(Float.BYTES, 64);
            scales.set(Tensor.F32_LE, 0, scale);
            MemorySegment codes = scratch.allocate(Math.max(1, type.bytes(blocks.elements())), 64);
            cast.encode(type, DType.F32, values.bytes(), runs, scales, codes);
            cast.decode(type, codes, runs, scales, DType.F32, rounded.bytes());
        }
        return rounded;
    }
}
