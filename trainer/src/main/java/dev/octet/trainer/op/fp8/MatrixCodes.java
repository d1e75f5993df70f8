package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.cast.BlockCast;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Parallel;
import dev.octet.trainer.kernel.Scratch;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Matrices to codes and back, band of rows by band of rows. Training libraries multiply by the quantScale where {@link BlockCast} divides
 * by the scale, so to be encoded the products are cast with scale 1.
 */
final class MatrixCodes {
    /** Elements of a band, about: as F32 they lie in a second-level cache. */
    private static final int BAND = 16_384;

    private static final BlockCast CAST = BlockCast.best();
    private static final Scratch CODES = new Scratch();

    /** Values of a band, for the calling thread: made anew for each band they were most of what a step leaves to the collector. */
    private static final ThreadLocal<float[]> VALUES = ThreadLocal.withInitial(() -> new float[BAND]);

    private final Blocks blocks;
    private final Parallel parallel;

    /** Rows of a band. */
    private final int rows;

    /** Rows of a band of whole blocks; the same if blocks go from top to bottom. Wide ones do not fit a cache, so only amaxes need them. */
    private final int blockRows;

    MatrixCodes(Blocks blocks, Parallel parallel) {
        this.blocks = blocks;
        this.parallel = parallel;
        this.rows = (int) Math.max(1, BAND / Math.max(1, blocks.cols()));
        int height = Math.toIntExact(blocks.blockRows());
        this.blockRows = isTall() ? rows : Math.max(1, rows / height) * height;
    }

    private boolean isTall() {
        return blocks.blockRows() >= blocks.rows();
    }

    private void bands(int height, Consumer<ScaleRuns> body) {
        ScaleRuns all = blocks.runs();
        long cols = blocks.cols();
        parallel.ranges(blocks.rows(), height, (from, to) -> body.accept(all.part(from * cols, to * cols)));
    }

    /** Multipliers of each block from its values. */
    float[] quantScales(CpuTensor x, Float8Format format, QuantScaleRule rule) {
        return quantScales(amax(x, rule.seesNaN()), format, rule, x.dtype());
    }

    static float[] quantScales(float[] amax, Float8Format format, QuantScaleRule rule, DType type) {
        float[] scales = new float[amax.length];
        for (int i = 0; i < scales.length; i++) {
            scales[i] = rule.quantScale(amax[i], format, type);
        }
        return scales;
    }

    /** The reciprocals. */
    static float[] scales(float[] quantScales) {
        float[] scales = new float[quantScales.length];
        for (int i = 0; i < scales.length; i++) {
            scales[i] = QuantScaleRule.scale(quantScales[i]);
        }
        return scales;
    }

    /** Largest magnitude of each block. The order of bands does not matter: maxima are exact. */
    float[] amax(CpuTensor x, boolean seesNaN) {
        float[] amax = new float[Math.toIntExact(blocks.scaleCount())];
        if (x.count() == 0) {
            return amax;
        }
        if (!isTall()) {
            bands(blockRows, runs -> amax(x, runs, seesNaN, amax, (int) runs.firstScale()));
            return amax;
        }
        long perBand = rows * blocks.cols();
        float[][] parts = new float[Math.toIntExact(Math.ceilDiv(blocks.rows(), rows))][];
        bands(rows, runs -> {
            float[] part = new float[amax.length];
            amax(x, runs, seesNaN, part, 0);
            parts[(int) (runs.from() / perBand)] = part;
        });
        for (float[] part : parts) {
            for (int i = 0; i < amax.length; i++) {
                amax[i] = part[i] > amax[i] || Float.isNaN(part[i]) ? part[i] : amax[i];
            }
        }
        return amax;
    }

    /** The amaxes of a band, the first to be written at {@code at}. */
    private static void amax(CpuTensor x, ScaleRuns runs, boolean seesNaN, float[] amax, int at) {
        int count = (int) runs.scaleCount();
        MemorySegment all = MemorySegment.ofArray(amax);
        CAST.amax(x.dtype(), elements(x.bytes(), x.dtype(), runs), runs, all.asSlice(at * 4L, count * 4L));
        for (int i = at; i < at + count && !seesNaN; i++) {
            if (Float.isNaN(amax[i])) {
                amaxWithoutNaN(x, runs, amax, at);
                return;
            }
        }
    }

    /** Rare, so slow. */
    private static void amaxWithoutNaN(CpuTensor x, ScaleRuns runs, float[] amax, int at) {
        Arrays.fill(amax, at, at + (int) runs.scaleCount(), 0);
        float[] values = values(x, runs);
        runs.forEachGroup((first, count, scale) -> {
            int i = at + (int) (scale - runs.firstScale());
            int start = (int) (first - runs.from());
            for (int c = start; c < start + count; c++) {
                float magnitude = Math.abs(values[c]);
                amax[i] = magnitude > amax[i] ? magnitude : amax[i];
            }
        });
    }

    /** Those of a band, from the start of an array that the thread's next band overwrites. */
    private static float[] values(CpuTensor x, ScaleRuns runs) {
        int count = Math.toIntExact(runs.elements());
        float[] values = room(count);
        x.read(runs.from(), values, 0, count);
        return values;
    }

    private static float[] room(int count) {
        float[] room = VALUES.get();
        if (room.length < count) {
            room = new float[count];
            VALUES.set(room);
        }
        return room;
    }

    private static void encode(float[] values, int count, Float8Format format, MemorySegment codes) {
        CAST.cast()
                .encode(
                        DType.F32,
                        MemorySegment.ofArray(values).asSlice(0, (long) count * Float.BYTES),
                        1,
                        format,
                        CAST.overflow(),
                        codes);
    }

    private static MemorySegment elements(MemorySegment bytes, DType type, ScaleRuns runs) {
        return part(bytes, type, runs.from(), runs.elements());
    }

    private static MemorySegment codes(MemorySegment codes, ScaleRuns runs) {
        return codes.asSlice(runs.from(), runs.elements());
    }

    /** Codes of {@code cast(f32(x · quantScale))}, saturating. */
    void encode(CpuTensor x, float[] quantScales, Float8Format format, MemorySegment codes) {
        bands(rows, runs -> encode(x, runs, quantScales, format, codes(codes, runs)));
    }

    private static void encode(
            CpuTensor x, ScaleRuns runs, float[] quantScales, Float8Format format, MemorySegment codes) {
        float[] values = values(x, runs);
        runs.forEach((first, count, scale, size) ->
                multiply(values, (int) (first - runs.from()), (int) count, quantScales, (int) scale, size));
        encode(values, Math.toIntExact(runs.elements()), format, codes);
    }

    /** Multiplies a run by the scales from {@code at} on. */
    private static void multiply(float[] values, int start, int count, float[] scales, int at, long size) {
        if (size == 1) {
            for (int i = 0; i < count; i++) {
                values[start + i] *= scales[at + i];
            }
            return;
        }
        int group = (int) Math.min(size, count);
        for (int i = 0; i < count; i += group) {
            float scale = scales[at + i / group];
            int end = start + Math.min(count, i + group);
            for (int c = start + i; c < end; c++) {
                values[c] *= scale;
            }
        }
    }

    /** Values rounded to what their codes stand for, the codes being no longer than a band: as {@link #encode} and {@link #decode} do it. */
    void round(
            CpuTensor x,
            float[] quantScales,
            Float8Format format,
            float @Nullable [] scales,
            DType type,
            MemorySegment target) {
        bands(rows, runs -> {
            MemorySegment codes = CODES.room(runs.elements());
            encode(x, runs, quantScales, format, codes);
            decode(runs, format, codes, scales, type, elements(target, type, runs));
        });
    }

    /**
     * A rectangle of a matrix with one scale; as a result its rows lie side by side.
     *
     * @param stride elements of the whole matrix from one row to the next
     */
    record Part(int row, int rows, int column, int columns, int stride) {
        private long at(long i) {
            return (row + i) * stride + column;
        }

        private boolean hasGaps() {
            return columns != stride;
        }

        /** Rows of a band that fits a second-level cache. */
        private long band() {
            return Math.max(1, BAND / Math.max(1, columns));
        }
    }

    /** A part rounded to its bare codes, as {@link #round} does it. */
    void roundPart(CpuTensor x, Part part, float quantScale, Float8Format format, DType type, MemorySegment target) {
        int columns = part.columns;
        parallel.ranges(part.rows, part.band(), (from, to) -> {
            int count = Math.toIntExact((to - from) * columns);
            float[] values = room(count);
            if (part.hasGaps()) {
                for (long i = from; i < to; i++) {
                    x.read(part.at(i), values, (int) (i - from) * columns, columns);
                }
            } else {
                x.read(part.at(from), values, 0, count);
            }
            for (int i = 0; i < count; i++) {
                values[i] *= quantScale;
            }
            MemorySegment codes = CODES.room(count);
            encode(values, count, format, codes);
            CAST.cast().decode(format, codes, 1, type, part(target, type, from * columns, count));
        });
    }

    /** The bare codes of a part. */
    void decodePart(Float8Format format, MemorySegment codes, Part part, DType type, MemorySegment target) {
        int columns = part.columns;
        parallel.ranges(part.rows, part.band(), (from, to) -> {
            if (!part.hasGaps()) {
                long count = (to - from) * columns;
                MemorySegment own = codes.asSlice(part.at(from), count);
                CAST.cast().decode(format, own, 1, type, part(target, type, from * columns, count));
                return;
            }
            for (long i = from; i < to; i++) {
                MemorySegment own = codes.asSlice(part.at(i), columns);
                CAST.cast().decode(format, own, 1, type, part(target, type, i * columns, columns));
            }
        });
    }

    private static MemorySegment part(MemorySegment bytes, DType type, long from, long count) {
        long width = type.bits() / 8;
        return bytes.asSlice(from * width, count * width);
    }

    /**
     * What codes stand for.
     *
     * @param scales one for each block; null for the bare codes
     * @param type what {@code f32(code · scale)} is rounded to
     */
    void decode(Float8Format format, MemorySegment codes, float @Nullable [] scales, DType type, MemorySegment target) {
        bands(rows, runs -> decode(runs, format, codes(codes, runs), scales, type, elements(target, type, runs)));
    }

    private static void decode(
            ScaleRuns runs,
            Float8Format format,
            MemorySegment codes,
            float @Nullable [] scales,
            DType type,
            MemorySegment to) {
        if (scales == null) {
            CAST.cast().decode(format, codes, 1, type, to);
            return;
        }
        MemorySegment by = MemorySegment.ofArray(scales).asSlice(runs.firstScale() * 4, runs.scaleCount() * 4);
        CAST.decode(QuantType.of(format).orElseThrow(), codes, runs, by, type, to);
    }
}
