package dev.octet.quant.tile;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.cast.Cast;
import dev.octet.quant.cast.Nibbles;
import dev.octet.quant.number.Codes;
import dev.octet.quant.number.Minifloat;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.scale.ScaleGrid;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Casts of tiles: whole rows of a matrix, starting at a border of its blocks, so that the scales of a tile are a run of the matrix's
 * scales (row-major over the blocks). The results are those of {@code dev.octet.quant.Quantizer} on the whole matrix.
 *
 * <p>Floats are F32, BF16 or F16; scales are F32 multipliers, positive and finite; codes one to a byte, {@link Codes#E2M1} two, the earlier
 * in the low nibble. Overflow saturates. Immutable; for use by any number of threads.
 */
public final class TileCast {
    private final Cast cast;

    /** Tiles cast by the fastest twin this JVM can run. */
    public TileCast() {
        this(Cast.best());
    }

    /** Tiles cast by a chosen twin, for tests and measurements. */
    public TileCast(Cast cast) {
        this.cast = cast;
    }

    /**
     * The largest magnitudes; NaN where any element is NaN, else infinity where any is infinite.
     *
     * @param source {@code tile.elements()} floats of {@code type}
     * @param amax takes {@link TileShape#scaleCount} F32, whatever it held before
     */
    public void amax(DType type, MemorySegment source, TileShape tile, MemorySegment amax) {
        amax.fill((byte) 0);
        ScaleGrid grid = tile.grid();
        long width = type.bits() / 8;
        grid.forEachRun(0, tile.elements(), new ScaleGrid.Visitor() {
            @Override
            public void shared(long first, long count, long scale) {
                float value = cast.amax(type, source.asSlice(first * width, count * width));
                // Bits, as in Cast: finite, infinity, NaN is their order as integers.
                int larger = Math.max(amax.get(Tensor.I32_LE, scale * Float.BYTES), Float.floatToRawIntBits(value));
                amax.set(Tensor.I32_LE, scale * Float.BYTES, larger);
            }

            @Override
            public void each(long first, long count, long scale) {
                cast.amaxEach(
                        type,
                        source.asSlice(first * width, count * width),
                        amax.asSlice(scale * Float.BYTES, count * Float.BYTES));
            }
        });
    }

    /**
     * Encodes a tile with symmetric codes.
     *
     * @param source {@code tile.elements()} floats of {@code type}, all finite
     * @param scales {@link TileShape#scaleCount} F32
     * @param codes takes {@link TileShape#codeBytes} bytes
     */
    public void encode(
            Codes format, DType type, MemorySegment source, TileShape tile, MemorySegment scales, MemorySegment codes) {
        if (format.isInteger()) {
            Integers.encode(type, source, tile, scales, null, codes);
            return;
        }
        Minifloat minifloat = format.minifloat().orElseThrow();
        if (format == Codes.E2M1) {
            try (Arena scratch = Arena.ofConfined()) {
                MemorySegment unpacked = scratch.allocate(tile.elements(), 64);
                encodeRuns(minifloat, type, source, tile, scales, unpacked);
                Nibbles.pack(/* codes= */ unpacked, /* packed= */ codes);
            }
        } else {
            encodeRuns(minifloat, type, source, tile, scales, codes);
        }
    }

    private void encodeRuns(
            Minifloat format,
            DType type,
            MemorySegment source,
            TileShape tile,
            MemorySegment scales,
            MemorySegment codes) {
        long width = type.bits() / 8;
        tile.grid().forEachRun(0, tile.elements(), new ScaleGrid.Visitor() {
            @Override
            public void shared(long first, long count, long scale) {
                cast.encode(
                        type,
                        source.asSlice(first * width, count * width),
                        scales.get(Tensor.F32_LE, scale * Float.BYTES),
                        format,
                        Overflow.SATURATE,
                        codes.asSlice(first, count));
            }

            @Override
            public void each(long first, long count, long scale) {
                cast.encodeEach(
                        type,
                        source.asSlice(first * width, count * width),
                        scales.asSlice(scale * Float.BYTES, count * Float.BYTES),
                        format,
                        Overflow.SATURATE,
                        codes.asSlice(first, count));
            }
        });
    }

    /**
     * Decodes a tile: {@code code * scale}, rounded to FP32 and from there to {@code type}.
     *
     * @param codes {@link TileShape#codeBytes} bytes
     * @param scales {@link TileShape#scaleCount} F32
     * @param target takes {@code tile.elements()} floats of {@code type}
     */
    public void decode(
            Codes format, MemorySegment codes, TileShape tile, MemorySegment scales, DType type, MemorySegment target) {
        if (format.isInteger()) {
            Integers.decode(codes, tile, scales, null, type, target);
            return;
        }
        Minifloat minifloat = format.minifloat().orElseThrow();
        if (format == Codes.E2M1) {
            try (Arena scratch = Arena.ofConfined()) {
                MemorySegment unpacked = scratch.allocate(tile.elements(), 64);
                Nibbles.unpack(/* packed= */ codes, /* codes= */ unpacked);
                decodeRuns(minifloat, unpacked, tile, scales, type, target);
            }
        } else {
            decodeRuns(minifloat, codes, tile, scales, type, target);
        }
    }

    private void decodeRuns(
            Minifloat format,
            MemorySegment codes,
            TileShape tile,
            MemorySegment scales,
            DType type,
            MemorySegment target) {
        long width = type.bits() / 8;
        tile.grid().forEachRun(0, tile.elements(), new ScaleGrid.Visitor() {
            @Override
            public void shared(long first, long count, long scale) {
                cast.decode(
                        format,
                        codes.asSlice(first, count),
                        scales.get(Tensor.F32_LE, scale * Float.BYTES),
                        type,
                        target.asSlice(first * width, count * width));
            }

            @Override
            public void each(long first, long count, long scale) {
                cast.decodeEach(
                        format,
                        codes.asSlice(first, count),
                        scales.asSlice(scale * Float.BYTES, count * Float.BYTES),
                        type,
                        target.asSlice(first * width, count * width));
            }
        });
    }

    /**
     * The scales and zero points of asymmetric integers for a tile: the range from the smallest to the largest element, widened to hold
     * zero, laid over -128 .. 127.
     *
     * @param source {@code tile.elements()} floats of {@code type}, all finite
     * @param scales takes {@link TileShape#scaleCount} F32
     * @param zeroPoints takes as many I8
     */
    public void affine(
            DType type, MemorySegment source, TileShape tile, MemorySegment scales, MemorySegment zeroPoints) {
        Integers.affine(type, source, tile, scales, zeroPoints);
    }

    /** As {@link #encode} with {@link Codes#INT8_ASYMMETRIC}; {@code zeroPoints} holds one I8 for each scale. */
    public void encodeAffine(
            DType type,
            MemorySegment source,
            TileShape tile,
            MemorySegment scales,
            MemorySegment zeroPoints,
            MemorySegment codes) {
        Integers.encode(type, source, tile, scales, zeroPoints, codes);
    }

    /** As {@link #decode} with {@link Codes#INT8_ASYMMETRIC}; {@code zeroPoints} holds one I8 for each scale. */
    public void decodeAffine(
            MemorySegment codes,
            TileShape tile,
            MemorySegment scales,
            MemorySegment zeroPoints,
            DType type,
            MemorySegment target) {
        Integers.decode(codes, tile, scales, zeroPoints, type, target);
    }
}
