package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Parallel;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/** Matrices to codes and back, band of rows by band of rows. Multiplies where {@link ElementCast} divides, so the scaled floats go through it with scale 1. */
final class MatrixCodes {
    /** Elements of a band, about: as F32 they lie in a second-level cache. */
    private static final int BAND = 16_384;

    private static final ElementCast CAST = ElementCast.best();

    private final Blocks blocks;
    private final Parallel parallel;

    /** Rows of a band: whole blocks, unless blocks go from top to bottom. */
    private final int band;

    MatrixCodes(Blocks blocks, Parallel parallel) {
        this.blocks = blocks;
        this.parallel = parallel;
        int rows = Math.max(1, BAND / Math.max(1, blocks.cols()));
        this.band = isTall() ? rows : Math.max(1, rows / blocks.blockRows()) * blocks.blockRows();
    }

    private boolean isTall() {
        return blocks.blockRows() >= blocks.rows();
    }

    private interface Band {
        void accept(int first, int rows);
    }

    private void bands(Band body) {
        parallel.ranges(blocks.rows(), band, (from, to) -> body.accept((int) from, (int) (to - from)));
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
        float[] amax = new float[blocks.count()];
        if (!isTall()) {
            bands((first, rows) -> amax(x, first, rows, amax, first / blocks.blockRows() * blocks.gridCols(), seesNaN));
            return amax;
        }
        float[][] parts = new float[Math.ceilDiv(blocks.rows(), band)][];
        bands((first, rows) -> {
            float[] part = new float[amax.length];
            amax(x, first, rows, part, 0, seesNaN);
            parts[first / band] = part;
        });
        for (float[] part : parts) {
            for (int i = 0; i < amax.length; i++) {
                amax[i] = part[i] > amax[i] || Float.isNaN(part[i]) ? part[i] : amax[i];
            }
        }
        return amax;
    }

    /** Raises the amaxes of a band, whose first block's is at {@code at}. */
    private void amax(CpuTensor x, int first, int rows, float[] amax, int at, boolean seesNaN) {
        int cols = blocks.cols();
        int width = x.dtype().bits() / 8;
        MemorySegment all = MemorySegment.ofArray(amax);
        boolean nan = false;
        for (int r = 0; r < rows; r += runRows(rows - r)) {
            int n = runRows(rows - r);
            long start = (long) (first + r) * cols;
            MemorySegment values = x.bytes().asSlice(start * width, (long) n * cols * width);
            int from = at + r / blocks.blockRows() * blocks.gridCols();
            int groups = Math.ceilDiv(n * cols, groupSize(n));
            CAST.amaxGroups(x.dtype(), values, groupSize(n), all.asSlice(from * 4L, groups * 4L));
            for (int i = from; i < from + groups; i++) {
                nan |= Float.isNaN(amax[i]);
            }
        }
        if (nan && !seesNaN) {
            amaxWithoutNaN(x, first, rows, amax, at);
        }
    }

    /** Rare, so slow. */
    private void amaxWithoutNaN(CpuTensor x, int first, int rows, float[] amax, int at) {
        Arrays.fill(amax, at, at + Math.ceilDiv(rows, blocks.blockRows()) * blocks.gridCols(), 0);
        float[] row = new float[blocks.cols()];
        for (int r = 0; r < rows; r++) {
            x.read((long) (first + r) * row.length, row, 0, row.length);
            for (int c = 0; c < row.length; c++) {
                int i = at + r / blocks.blockRows() * blocks.gridCols() + c / blocks.blockCols();
                float magnitude = Math.abs(row[c]);
                amax[i] = magnitude > amax[i] ? magnitude : amax[i];
            }
        }
    }

    /** How many of {@code left} rows the groups of {@link #groupSize} elements run through without a break at a row's end. */
    private int runRows(int left) {
        boolean rowsOfGroups = blocks.blockRows() == 1 && blocks.cols() % width() == 0;
        return isWhole() || rowsOfGroups ? left : 1;
    }

    /** Neighbouring elements with one scale, in a run of {@code rows} rows. */
    private int groupSize(int rows) {
        return isWhole() ? Math.max(1, rows * blocks.cols()) : width();
    }

    private int width() {
        return Math.min(blocks.blockCols(), Math.max(1, blocks.cols()));
    }

    private boolean isWhole() {
        return isTall() && blocks.gridCols() == 1;
    }

    /** Codes of {@code cast(f32(x · quantScale))}, saturating. */
    void encode(CpuTensor x, float[] quantScales, Float8Format format, MemorySegment codes) {
        int cols = blocks.cols();
        bands((first, rows) -> {
            float[] tile = new float[rows * cols];
            x.read((long) first * cols, tile, 0, tile.length);
            for (int r = 0; r < rows; r++) {
                multiply(tile, r * cols, quantScales, (first + r) / blocks.blockRows() * blocks.gridCols());
            }
            MemorySegment to = codes.asSlice((long) first * cols, tile.length);
            CAST.encode(DType.F32, MemorySegment.ofArray(tile), 1, format, Overflow.SATURATE, to);
        });
    }

    /** Multiplies a row by the scales from {@code at} on. */
    private void multiply(float[] tile, int start, float[] scales, int at) {
        int cols = blocks.cols();
        if (blocks.blockCols() == 1) {
            for (int c = 0; c < cols; c++) {
                tile[start + c] *= scales[at + c];
            }
            return;
        }
        for (int c = 0; c < cols; c += blocks.blockCols()) {
            float scale = scales[at + c / blocks.blockCols()];
            int end = start + Math.min(cols, c + blocks.blockCols());
            for (int i = start + c; i < end; i++) {
                tile[i] *= scale;
            }
        }
    }

    /**
     * What codes stand for.
     *
     * @param scales one for each block; null for the bare codes
     * @param type what {@code f32(code · scale)} is rounded to
     */
    void decode(Float8Format format, MemorySegment codes, float @Nullable [] scales, DType type, MemorySegment target) {
        int cols = blocks.cols();
        int width = type.bits() / 8;
        bands((first, rows) -> {
            if (scales == null) {
                long start = (long) first * cols;
                long n = (long) rows * cols;
                CAST.decode(format, codes.asSlice(start, n), 1, type, target.asSlice(start * width, n * width));
                return;
            }
            MemorySegment all = MemorySegment.ofArray(scales);
            for (int r = 0; r < rows; r += runRows(rows - r)) {
                int n = runRows(rows - r) * cols;
                long start = (long) (first + r) * cols;
                int size = groupSize(runRows(rows - r));
                MemorySegment by = all.asSlice(
                        (long) (first + r) / blocks.blockRows() * blocks.gridCols() * 4, Math.ceilDiv(n, size) * 4L);
                MemorySegment to = target.asSlice(start * width, (long) n * width);
                CAST.decodeGroups(format, codes.asSlice(start, n), by, size, type, to);
            }
        });
    }
}
