package dev.octet.converter.checkpoint;

import dev.octet.converter.checkpoint.Buffers.Use;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.cast.BlockCast;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.cast.Words;
import dev.octet.quant.layout.ScaleTensor;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.scale.GlobalScale;
import dev.octet.quant.scale.ScaleNumbers;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Reads rows of any weight of a checkpoint as floats, plain or quantised in any layout: reads by position, dequantises tile by tile.
 * Thread-safe; each call allocates only the memory it needs.
 */
public final class WeightReader {
    private final Checkpoint checkpoint;
    private final StoredCheckpoint stored;
    private final BlockCast cast = BlockCast.best();

    private WeightReader(Checkpoint checkpoint, StoredCheckpoint stored) {
        this.checkpoint = checkpoint;
        this.stored = stored;
    }

    /** A reader of the weights that {@code stored} recognised in {@code checkpoint}. */
    public static WeightReader of(Checkpoint checkpoint, StoredCheckpoint stored) {
        return new WeightReader(checkpoint, stored);
    }

    /**
     * The shape of a weight (not of its codes).
     *
     * @throws IllegalArgumentException when there is no such weight
     */
    public Shape shape(String name) {
        StoredWeight weight = stored.weights().get(name);
        return weight != null ? weight.shape() : plain(name).shape();
    }

    private TensorSpec plain(String name) {
        TensorSpec spec = stored.plain().get(name);
        if (spec == null) {
            throw new IllegalArgumentException("there is no weight '" + name + "'");
        }
        return spec;
    }

    /**
     * Reads rows as F32; several experts' matrices count as one, {@code [experts * out, in]}, a vector as one row.
     *
     * @param fromRow first row; for a weight in blocks, at the start of a block
     * @param toRow the row after the last
     * @param floats takes {@code (toRow - fromRow) * cols} F32
     * @throws UnsupportedModelException for an element type other than the supported floats
     * @throws InvalidDataException when a scale is not positive and finite
     * @throws MalformedModelException when the weight has no scale
     */
    public void read(String name, long fromRow, long toRow, MemorySegment floats) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            read(name, fromRow, toRow, floats, in(arena));
        }
    }

    /**
     * The same with scratch memory of the caller's.
     *
     * @param buffers whose {@code STORED} and {@code READ_...} are overwritten
     */
    public void read(String name, long fromRow, long toRow, MemorySegment floats, Buffers buffers) throws IOException {
        StoredWeight weight = stored.weights().get(name);
        if (weight == null) {
            readPlain(plain(name), fromRow, toRow, DType.F32, floats, buffers);
            return;
        }
        Blocks matrix = weight.blocks();
        long row = fromRow;
        while (row < toRow) { // matrix by matrix, because blocks do not cross matrices
            long end = Math.min(toRow, (row / matrix.rows() + 1) * matrix.rows());
            long offset = (row - fromRow) * matrix.cols() * Float.BYTES;
            long bytes = (end - row) * matrix.cols() * Float.BYTES;
            readQuantized(weight, row, end, DType.F32, floats.asSlice(offset, bytes), buffers);
            row = end;
        }
    }

    /** Reads rows of an unquantised tensor as {@code type}: F32, BF16 or F16. */
    private void readPlain(TensorSpec spec, long fromRow, long toRow, DType type, MemorySegment floats, Buffers buffers)
            throws IOException {
        StoredTensor tensor = tensor(spec);
        long cols = Blocks.cols(spec.shape());
        long count = (toRow - fromRow) * cols;
        if (spec.dtype() == type) {
            checkpoint.read(tensor, fromRow * cols * type.bits() / 8, floats);
            return;
        }
        if (spec.dtype() != DType.F32 && spec.dtype() != DType.BF16 && spec.dtype() != DType.F16) {
            throw new UnsupportedModelException(
                    "elements of type " + spec.dtype() + " are not floats that Octet computes with",
                    "tensor '" + spec.name() + "'",
                    "leave the tensor as it is (`octet quantize --keep`), or convert it to F32, BF16 or F16");
        }
        long width = spec.dtype().bits() / 8;
        MemorySegment raw = buffers.buffer(Use.STORED, count * width);
        checkpoint.read(tensor, fromRow * cols * width, raw);
        Floats.convert(spec.dtype(), raw, type, floats, count);
    }

    /**
     * Reads and dequantises rows of one matrix of a quantised weight.
     *
     * @param fromRow first row, counted over all matrices, at the start of a block
     * @param type F32, BF16 or F16
     */
    void readQuantized(StoredWeight weight, long fromRow, long toRow, DType type, MemorySegment target, Buffers buffers)
            throws IOException {
        ScaleRuns tile = tile(weight, toRow - fromRow);
        MemorySegment codes = buffers.buffer(Use.READ_CODES, weight.codes().bytes(tile.elements()));
        readCodes(weight, fromRow, codes, buffers);
        MemorySegment scales = readScales(weight, fromRow, tile.scaleCount(), buffers);
        if (weight.zeroPoint() == null) {
            cast.decode(weight.codes(), codes, tile, scales, type, target);
        } else {
            MemorySegment zeroPoints = readZeroPoints(weight, fromRow, toRow - fromRow, tile.scaleCount(), buffers);
            cast.decodeAffine(codes, tile, scales, zeroPoints, type, target);
        }
    }

    /** Rows of one matrix of a weight, the first at the border of a block. */
    private static ScaleRuns tile(StoredWeight weight, long rows) {
        return Blocks.of(Shape.of(rows, Blocks.cols(weight.shape())), weight.granularity())
                .runs();
    }

    /** The codes of rows: integers one to a byte, floats of four bits two. */
    public void readCodes(StoredWeight weight, long fromRow, MemorySegment codes) throws IOException {
        try (Arena scratch = Arena.ofConfined()) {
            readCodes(weight, fromRow, codes, in(scratch));
        }
    }

    /** The same with scratch memory of the caller's. */
    public void readCodes(StoredWeight weight, long fromRow, MemorySegment codes, Buffers buffers) throws IOException {
        long cols = Blocks.cols(weight.shape());
        if (weight.inWords()) {
            Words packing = Words.of(weight.codes().bits());
            long rows = cols == 0 ? 0 : codes.byteSize() / cols;
            long bytes = packing.words(cols) * Integer.BYTES;
            MemorySegment words = buffers.buffer(Use.READ_WORDS, rows * bytes);
            checkpoint.read(tensor(weight.data()), fromRow * bytes, words);
            packing.unpackRows(words, rows, cols, codes);
            return;
        }
        long first = fromRow * cols;
        if (weight.codes() == QuantType.E2M1 && first % 2 != 0) {
            throw new UnsupportedModelException(
                    "rows of " + cols + " four-bit codes do not end at a byte border",
                    "tensor '" + weight.data().name() + "'",
                    "pad the rows to an even number of columns");
        }
        checkpoint.read(tensor(weight.data()), weight.codes() == QuantType.E2M1 ? first / 2 : first, codes);
    }

    private static long firstScale(StoredWeight weight, long fromRow) {
        boolean one = weight.granularity() instanceof Granularity.PerTensor;
        return one && singleScale(weight) ? 0 : weight.blocks().scaleOfRow(fromRow);
    }

    private static boolean singleScale(StoredWeight weight) {
        ScaleTensor scale = weight.scale();
        return scale != null && scale.spec().shape().elementCount() == 1;
    }

    /** The scales of a tile as F32 multipliers, the second level multiplied in. */
    private MemorySegment readScales(StoredWeight weight, long fromRow, long count, Buffers buffers)
            throws IOException {
        MemorySegment scales = buffers.buffer(Use.READ_SCALES, count * Float.BYTES);
        ScaleTensor stored = requireScale(weight);
        readNumbers(stored, firstScale(weight, fromRow), count, scales, buffers);
        ScaleTensor global = weight.globalScale();
        if (global != null) {
            float second = readGlobal(global, globalIndex(weight, global, fromRow), buffers);
            ScaleForms.applyGlobal(global, second, scales, count);
        }
        requirePositive(weight, stored, fromRow, scales);
        return scales;
    }

    private static long globalIndex(StoredWeight weight, ScaleTensor global, long fromRow) {
        long count = global.spec().shape().elementCount();
        return count == 1 ? 0 : fromRow / Blocks.rows(weight.shape());
    }

    /** The scale tensor of a weight, which must have one. */
    static ScaleTensor requireScale(StoredWeight weight) {
        ScaleTensor scale = weight.scale();
        String unread = weight.unread();
        if (unread != null) {
            throw new UnsupportedModelException(
                    "Octet does not read this quantised weight: " + unread,
                    "tensor '" + weight.data().name() + "'",
                    "take the model it was made from, or have the tool that wrote it dequantise it");
        }
        if (scale == null) {
            throw new MalformedModelException(
                    "the quantised weight has no scale",
                    "tensor '" + weight.data().name() + "'",
                    "download or export the checkpoint again; codes without a scale mean nothing");
        }
        return scale;
    }

    /** A second-level scale as stored, multiplier or divisor. */
    private float readGlobal(ScaleTensor global, long index, Buffers buffers) throws IOException {
        long width = global.spec().dtype().bits() / 8;
        MemorySegment raw = buffers.buffer(Use.READ_STORED, width);
        checkpoint.read(tensor(global.spec()), index * width, raw);
        MemorySegment one = buffers.buffer(Use.READ_SECOND, Float.BYTES);
        ScaleNumbers.read(global.number(), raw, 1, one);
        return one.get(Tensor.F32_LE, 0);
    }

    /** A scale of one element: a multiplier, of two levels the upper one as stored. */
    float wholeScale(ScaleTensor scale) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            return readGlobal(scale, 0, in(arena));
        }
    }

    /**
     * The scale above the block scales of a quantised weight of one matrix; null without one.
     *
     * @throws InvalidDataException when it is not positive, finite and normal
     */
    public @Nullable GlobalScale globalScale(String name) throws IOException {
        ScaleTensor global = quantized(name).globalScale();
        if (global == null) {
            return null;
        }
        float value = wholeScale(global);
        if (!(value >= Float.MIN_NORMAL && value < Float.POSITIVE_INFINITY)) {
            throw new InvalidDataException(
                    "the upper scale is " + value + ", not positive, finite and normal",
                    "tensor '" + global.name() + "'",
                    "export the checkpoint again; `octet verify` lists every such scale");
        }
        return new GlobalScale(value, ScaleForms.direction(global));
    }

    private void readNumbers(ScaleTensor scale, long first, long count, MemorySegment f32, Buffers buffers)
            throws IOException {
        long width = scale.spec().dtype().bits() / 8;
        MemorySegment raw = buffers.buffer(Use.READ_STORED, count * width);
        checkpoint.read(tensor(scale.spec()), first * width, raw);
        ScaleForms.read(scale, raw, count, f32);
    }

    private static void requirePositive(StoredWeight weight, ScaleTensor stored, long fromRow, MemorySegment scales) {
        for (long i = 0; i < scales.byteSize() / Float.BYTES; i++) {
            float scale = scales.get(Tensor.F32_LE, i * Float.BYTES);
            if (!(scale > 0 && scale < Float.POSITIVE_INFINITY)) {
                if (scale == 0 && stored.number() == DType.F8_E4M3FN) {
                    continue; // the scale was rounded to zero: all values of the block are zero
                }
                throw new InvalidDataException(
                        "scale " + (firstScale(weight, fromRow) + i) + " is " + scale + ", not positive and finite",
                        "tensor '" + stored.name() + "'",
                        "export the checkpoint again; `octet verify` lists every such scale");
            }
        }
    }

    /** The {@code count} zero points of rows of one matrix, one to a byte. */
    MemorySegment readZeroPoints(StoredWeight weight, long fromRow, long rows, long count, Buffers buffers)
            throws IOException {
        TensorSpec spec = Objects.requireNonNull(weight.zeroPoint());
        MemorySegment points = buffers.buffer(Use.READ_POINTS, count);
        int inWord = weight.rowsOfZeroPoint();
        if (inWord > 1) {
            long first = fromRow / inWord;
            long cols = spec.shape().dim(1);
            long bytes = (Math.ceilDiv(fromRow + rows, (long) inWord) - first) * cols * Integer.BYTES;
            MemorySegment words = buffers.buffer(Use.READ_WORDS, bytes);
            checkpoint.read(tensor(spec), first * cols * Integer.BYTES, words);
            Words.of(weight.codes().bits()).unpackColumns(words, fromRow, rows, cols, points);
            return points;
        }
        checkpoint.read(tensor(spec), firstScale(weight, fromRow), points);
        return points;
    }

    /**
     * Reads the multiplier of each element of some rows of a quantised weight; rows as for {@link #read}.
     *
     * @param multipliers takes {@code (toRow - fromRow) * cols} F32
     * @throws InvalidDataException when a scale is not positive and finite
     * @throws MalformedModelException when the weight has no scale
     */
    public void readMultipliers(String name, long fromRow, long toRow, MemorySegment multipliers) throws IOException {
        StoredWeight weight = quantized(name);
        Blocks matrix = weight.blocks();
        long row = fromRow;
        while (row < toRow) {
            long end = Math.min(toRow, (row / matrix.rows() + 1) * matrix.rows());
            long first = (row - fromRow) * matrix.cols();
            try (Arena scratch = Arena.ofConfined()) {
                ScaleRuns tile = tile(weight, end - row);
                MemorySegment scales = readScales(weight, row, tile.scaleCount(), in(scratch));
                spread(tile, scales, multipliers.asSlice(first * Float.BYTES, tile.elements() * Float.BYTES));
            }
            row = end;
        }
    }

    private static void spread(ScaleRuns tile, MemorySegment scales, MemorySegment multipliers) {
        tile.forEachGroup((first, count, scale) -> {
            float value = scales.get(Tensor.F32_LE, scale * Float.BYTES);
            for (long i = first; i < first + count; i++) {
                multipliers.set(Tensor.F32_LE, i * Float.BYTES, value);
            }
        });
    }

    /** Number of scales of a quantised weight. */
    public long scaleCount(String name) {
        return requireScale(quantized(name)).spec().shape().elementCount();
    }

    /**
     * Reads scales {@code from .. to - 1} of a quantised weight as multipliers, including the second level, without checking them.
     *
     * @param multipliers takes {@code to - from} F32
     */
    public void readScales(String name, long from, long to, MemorySegment multipliers) throws IOException {
        StoredWeight weight = quantized(name);
        ScaleTensor scale = requireScale(weight);
        ScaleTensor global = weight.globalScale();
        try (Arena scratch = Arena.ofConfined()) {
            readNumbers(scale, from, to - from, multipliers, in(scratch));
            if (global == null) {
                return;
            }
            long perGlobal =
                    Math.max(1, scaleCount(name) / global.spec().shape().elementCount());
            for (long at = from; at < to; ) {
                long index = at / perGlobal;
                long count = Math.min(to, (index + 1) * perGlobal) - at;
                MemorySegment part = multipliers.asSlice((at - from) * Float.BYTES, count * Float.BYTES);
                ScaleForms.applyGlobal(global, readGlobal(global, index, in(scratch)), part, count);
                at += count;
            }
        }
    }

    /**
     * The static input scale (multiplier) of a weight's Linear, the largest if there are several; null without one.
     *
     * @throws InvalidDataException when it is not positive and finite
     */
    public @Nullable Float inputScale(String name) throws IOException {
        StoredWeight weight = stored.weights().get(name);
        ScaleTensor scale = weight == null ? null : weight.inputScale();
        if (scale == null) {
            return null;
        }
        long count = scale.spec().shape().elementCount();
        float largest = 0;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment f32 = arena.allocate(count * Float.BYTES, Float.BYTES);
            readNumbers(scale, 0, count, f32, in(arena));
            for (long i = 0; i < count; i++) {
                largest = Math.max(largest, f32.get(Tensor.F32_LE, i * Float.BYTES));
            }
        }
        if (!(largest > 0 && largest < Float.POSITIVE_INFINITY)) {
            throw new InvalidDataException(
                    "the input scale is " + largest + ", not positive and finite",
                    "tensor '" + scale.name() + "'",
                    "export the checkpoint again; `octet verify` lists every such scale");
        }
        return largest;
    }

    /** Buffers for one call, freed with {@code arena}. */
    private static Buffers in(Arena arena) {
        return (_, bytes) -> arena.allocate(bytes, 64);
    }

    private StoredWeight quantized(String name) {
        StoredWeight weight = stored.weights().get(name);
        if (weight == null) {
            throw new IllegalArgumentException("there is no quantised weight '" + name + "'");
        }
        return weight;
    }

    private StoredTensor tensor(TensorSpec spec) {
        @Nullable StoredTensor tensor = checkpoint.tensor(spec.name());
        if (tensor == null) {
            throw new IllegalArgumentException("there is no tensor '" + spec.name() + "'");
        }
        return tensor;
    }
}
