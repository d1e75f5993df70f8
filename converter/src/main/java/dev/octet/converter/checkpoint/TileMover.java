package dev.octet.converter.checkpoint;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.file.PartFile;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.layout.ScaleTensor;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.layout.WeightScheme;
import dev.octet.quant.measure.Difference;
import dev.octet.quant.number.Codes;
import dev.octet.quant.number.Minifloat;
import dev.octet.quant.scale.GlobalScale;
import dev.octet.quant.scale.Granularity;
import dev.octet.quant.scale.StoredScale;
import dev.octet.quant.tile.TileCast;
import dev.octet.quant.tile.TileShape;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.MemorySegment;
import java.util.Objects;
import java.util.function.ToLongFunction;
import org.jspecify.annotations.Nullable;

/**
 * Moves one tile from the source to its place in a file of the target: read, find scales, encode or decode, write. A tile crosses memory
 * once. For use by several threads at once.
 */
final class TileMover {
    private static final float INT8_MAX = 127;

    private final Checkpoint source;
    private final StoredCheckpoint stored;
    private final WeightReader reader;
    private final TileCast cast = new TileCast();
    private final Scratch.Pool pool;

    TileMover(Checkpoint source, StoredCheckpoint stored, Scratch.Pool pool) {
        this.source = source;
        this.stored = stored;
        this.reader = WeightReader.of(source, stored);
        this.pool = pool;
    }

    /** Where tensors start in the file being written. */
    interface Places extends ToLongFunction<TensorSpec> {}

    /** The blocks of a weight in the source; of one that is not quantised, all of it. */
    Granularity sourceGranularity(String name) {
        StoredWeight weight = stored.weights().get(name);
        return weight == null ? new Granularity.PerTensor() : weight.granularity();
    }

    /** The largest magnitude in a tile of the source. */
    float amax(TensorStep.Quantize step, Tile tile) {
        return with(scratch -> {
            MemorySegment floats = read(step, tile, scratch);
            TileShape whole = shape(step.target(), tile, new Granularity.PerTensor());
            MemorySegment amax = scratch.buffer(Buffers.Use.SCALES, Float.BYTES);
            cast.amax(step.type(), floats, whole, amax);
            requireFinite(step, tile, floats, amax, 1);
            return amax.get(Tensor.F32_LE, 0);
        });
    }

    private static TileShape shape(StoredWeight weight, Tile tile, Granularity granularity) {
        return new TileShape(tile.rows(), MatrixShape.of(weight.shape()).cols(), granularity);
    }

    /** The values of a tile as {@code step.type()}. */
    private MemorySegment read(TensorStep.Quantize step, Tile tile, Scratch scratch) throws IOException {
        long cols = MatrixShape.of(step.target().shape()).cols();
        long width = step.type().bits() / 8;
        MemorySegment floats = scratch.buffer(Buffers.Use.SOURCE, tile.rows() * cols * width);
        StoredWeight weight = stored.weights().get(step.name());
        if (weight != null) {
            reader.readQuantized(weight, tile.fromRow(), tile.fromRow() + tile.rows(), step.type(), floats, scratch);
        } else {
            source.read(tensor(step.name()), tile.fromRow() * cols * width, floats);
        }
        return floats;
    }

    private StoredTensor tensor(String name) {
        return Objects.requireNonNull(source.tensor(name), name);
    }

    private static void requireFinite(
            TensorStep.Quantize step, Tile tile, MemorySegment floats, MemorySegment amax, long count) {
        for (long i = 0; i < count; i++) {
            if (!Float.isFinite(amax.get(Tensor.F32_LE, i * Float.BYTES))) {
                throw nonFinite(step, tile, floats);
            }
        }
    }

    private static InvalidDataException nonFinite(TensorStep.Quantize step, Tile tile, MemorySegment floats) {
        long cols = MatrixShape.of(step.target().shape()).cols();
        long i = 0;
        while (Float.isFinite(Floats.get(step.type(), floats, i))) {
            i++;
        }
        return new InvalidDataException(
                "the weight holds " + Floats.get(step.type(), floats, i),
                "tensor '" + step.name() + "', row " + (tile.fromRow() + i / cols) + ", column " + i % cols,
                "mend the checkpoint, or leave such tensors as they are with --allow-nonfinite");
    }

    /** Copies bytes {@code from .. from + count - 1} of a tensor. */
    void copy(TensorStep.Copy step, long from, long count, PartFile target, Places places) {
        with(scratch -> {
            MemorySegment bytes = scratch.buffer(Buffers.Use.SOURCE, count);
            source.read(step.source(), from, bytes);
            target.write(places.applyAsLong(step.target()) + from, bytes);
            return 0f;
        });
    }

    /** Quantises a tile and writes its codes and scales. */
    void quantize(TensorStep.Quantize step, Tile tile, WholeScales whole, PartFile target, Places places) {
        with(scratch -> {
            MemorySegment floats = read(step, tile, scratch);
            StoredWeight weight = step.target();
            TileShape shape = shape(weight, tile, step.scheme().granularity());
            MemorySegment scales = scratch.buffer(Buffers.Use.SCALES, shape.scaleCount() * Float.BYTES);
            MemorySegment codes = scratch.buffer(Buffers.Use.CODES, shape.codeBytes(weight.codes()));
            if (weight.codes() == Codes.INT8_ASYMMETRIC) {
                MemorySegment zeroPoints = scratch.buffer(Buffers.Use.ZERO_POINTS, shape.scaleCount());
                requireFiniteTile(step, tile, floats, shape, scales);
                cast.affine(step.type(), floats, shape, scales, zeroPoints);
                cast.encodeAffine(step.type(), floats, shape, scales, zeroPoints, codes);
                writeScales(
                        Objects.requireNonNull(weight.scale()), weight, tile, shape, scales, scratch, target, places);
                TensorSpec points = Objects.requireNonNull(weight.zeroPoint());
                target.write(places.applyAsLong(points) + firstScale(weight, tile), zeroPoints);
            } else {
                findScales(step, tile, whole, floats, shape, scales, scratch, target, places);
                cast.encode(weight.codes(), step.type(), floats, shape, scales, codes);
            }
            target.write(places.applyAsLong(weight.data()) + codeOffset(weight, tile), codes);
            if (tile.fromRow() == 0 && weight.inputScale() != null) {
                writeOne(weight.inputScale(), 0, step.inputScale(), scratch, target, places);
            }
            return 0f;
        });
    }

    private void requireFiniteTile(
            TensorStep.Quantize step, Tile tile, MemorySegment floats, TileShape shape, MemorySegment scales) {
        cast.amax(step.type(), floats, shape, scales);
        requireFinite(step, tile, floats, scales, shape.scaleCount());
    }

    /** Fills {@code scales} with the multipliers a reader will see, and writes them. */
    private void findScales(
            TensorStep.Quantize step,
            Tile tile,
            WholeScales whole,
            MemorySegment floats,
            TileShape shape,
            MemorySegment scales,
            Scratch scratch,
            PartFile target,
            Places places)
            throws IOException {
        StoredWeight weight = step.target();
        ScaleTensor scale = Objects.requireNonNull(weight.scale());
        if (step.keptScales() != null) {
            readKept(step, tile, shape, scales, scratch, target, places);
            requireFiniteTileOnly(step, tile, floats, shape, scratch);
        } else if (step.scheme().perTensor()) {
            scales.set(Tensor.F32_LE, 0, storedScale(step.scheme(), whole.amax(step, tile.matrix())));
        } else {
            requireFiniteTile(step, tile, floats, shape, scales);
            if (step.scheme().twoLevels()) {
                twoLevels(step, tile, whole.amax(step, tile.matrix()), shape, scales, scratch, target, places);
                return;
            }
            for (long at = 0; at < scales.byteSize(); at += Float.BYTES) {
                scales.set(Tensor.F32_LE, at, storedScale(step.scheme(), scales.get(Tensor.F32_LE, at)));
            }
        }
        if (step.scheme().twoLevels()) {
            return; // written as they were kept
        }
        if (!step.scheme().perTensor()) {
            writeScales(scale, weight, tile, shape, scales, scratch, target, places);
        } else if (tile.startsMatrix(MatrixShape.of(weight.shape()))) {
            long index = scale.spec().shape().elementCount() == 1 ? 0 : tile.matrix();
            writeOne(scale, index, scales.get(Tensor.F32_LE, 0), scratch, target, places);
        }
    }

    private void requireFiniteTileOnly(
            TensorStep.Quantize step, Tile tile, MemorySegment floats, TileShape shape, Scratch scratch) {
        requireFiniteTile(
                step, tile, floats, shape, scratch.buffer(Buffers.Use.SECOND_SCALES, shape.scaleCount() * Float.BYTES));
    }

    /** Takes the scales of a tile from those kept; of two levels both, which are written as they are. */
    private void readKept(
            TensorStep.Quantize step,
            Tile tile,
            TileShape shape,
            MemorySegment scales,
            Scratch scratch,
            PartFile target,
            Places places)
            throws IOException {
        StoredWeight weight = step.target();
        ScaleTensor form = Objects.requireNonNull(weight.scale());
        StoredTensor kept = Objects.requireNonNull(step.keptScales());
        Checkpoint scalesFile = Objects.requireNonNull(keptSource);
        long width = kept.dtype().bits() / 8;
        MemorySegment raw = scratch.buffer(Buffers.Use.STORED, shape.scaleCount() * width);
        long first = kept.shape().elementCount() == 1 ? 0 : firstScale(weight, tile);
        scalesFile.read(kept, first * width, raw);
        ScaleForms.read(form, raw, shape.scaleCount(), scales);
        ScaleTensor global = weight.globalScale();
        if (global != null) {
            target.write(places.applyAsLong(form.spec()) + first * width, raw);
            StoredTensor keptGlobal = Objects.requireNonNull(scalesFile.tensor(global.name()));
            long index = keptGlobal.shape().elementCount() == 1 ? 0 : tile.matrix();
            MemorySegment second = scratch.buffer(Buffers.Use.SECOND_STORED, Float.BYTES);
            scalesFile.read(keptGlobal, index * Float.BYTES, second);
            if (tile.startsMatrix(MatrixShape.of(weight.shape()))) {
                target.write(places.applyAsLong(global.spec()) + index * Float.BYTES, second);
            }
            ScaleForms.applyGlobal(global, second.get(Tensor.F32_LE, 0), scales, shape.scaleCount());
        }
        requirePositive(kept, scales);
    }

    /** Kept scales lie in a file that anybody may have changed. */
    private static void requirePositive(StoredTensor kept, MemorySegment scales) {
        for (long at = 0; at < scales.byteSize(); at += Float.BYTES) {
            float scale = scales.get(Tensor.F32_LE, at);
            if (scale == 0 && kept.dtype() == DType.F8_E4M3FN) {
                scales.set(Tensor.F32_LE, at, Float.MIN_VALUE); // as readers take a block of zeros
            } else if (!(scale > 0 && scale < Float.POSITIVE_INFINITY)) {
                throw new MalformedModelException(
                        "a kept scale is " + scale + ", not positive and finite",
                        kept.shard().path() + ", tensor '" + kept.spec().name() + "'",
                        "dequantise again with --keep-scales, or quantise without it");
            }
        }
    }

    private @Nullable Checkpoint keptSource;

    /** Takes kept scales from {@code checkpoint}. */
    TileMover withKeptScales(@Nullable Checkpoint checkpoint) {
        keptSource = checkpoint;
        return this;
    }

    static float storedScale(WeightScheme scheme, float amax) {
        if (scheme.codes().isInteger()) {
            float scale = amax == 0 ? 1 : Math.max(amax / INT8_MAX, Float.MIN_VALUE);
            return StoredScale.round(scale, scheme.scaleNumber());
        }
        Minifloat format = scheme.codes().minifloat().orElseThrow();
        return StoredScale.round(scheme.rule().scale(amax, format), scheme.scaleNumber());
    }

    /** NVFP4: one scale for the whole weight brings its largest block scale to the largest E4M3 number. */
    private void twoLevels(
            TensorStep.Quantize step,
            Tile tile,
            float amax,
            TileShape shape,
            MemorySegment scales,
            Scratch scratch,
            PartFile target,
            Places places)
            throws IOException {
        StoredWeight weight = step.target();
        Minifloat format = weight.codes().minifloat().orElseThrow();
        ScaleTensor global = Objects.requireNonNull(weight.globalScale());
        GlobalScale second = GlobalScale.of(amax, format, ScaleForms.direction(global));
        if (tile.startsMatrix(MatrixShape.of(weight.shape()))) {
            MemorySegment raw = scratch.buffer(Buffers.Use.SECOND_STORED, Float.BYTES);
            raw.set(Tensor.F32_LE, 0, second.value());
            long index = global.spec().shape().elementCount() == 1 ? 0 : tile.matrix();
            target.write(places.applyAsLong(global.spec()) + index * Float.BYTES, raw);
        }
        MemorySegment bytes = scratch.buffer(Buffers.Use.STORED, shape.scaleCount());
        second.blocks(scales, shape.scaleCount(), format, bytes);
        ScaleTensor scale = Objects.requireNonNull(weight.scale());
        target.write(places.applyAsLong(scale.spec()) + firstScale(weight, tile), bytes);
    }

    private static void writeScales(
            ScaleTensor scale,
            StoredWeight weight,
            Tile tile,
            TileShape shape,
            MemorySegment scales,
            Scratch scratch,
            PartFile target,
            Places places)
            throws IOException {
        long width = scale.spec().dtype().bits() / 8;
        MemorySegment raw = scratch.buffer(Buffers.Use.STORED, shape.scaleCount() * width);
        ScaleForms.write(scale, scales, shape.scaleCount(), raw);
        target.write(places.applyAsLong(scale.spec()) + firstScale(weight, tile) * width, raw);
    }

    private static void writeOne(
            ScaleTensor scale, long index, float multiplier, Scratch scratch, PartFile target, Places places)
            throws IOException {
        long width = scale.spec().dtype().bits() / 8;
        MemorySegment one = scratch.buffer(Buffers.Use.SECOND_SCALES, Float.BYTES);
        MemorySegment raw = scratch.buffer(Buffers.Use.SECOND_STORED, width);
        one.set(Tensor.F32_LE, 0, multiplier);
        ScaleForms.write(scale, one, 1, raw);
        target.write(places.applyAsLong(scale.spec()) + index * width, raw);
    }

    private static long firstScale(StoredWeight weight, Tile tile) {
        MatrixShape shape = MatrixShape.of(weight.shape());
        return tile.matrix() * shape.scalesOfOne(weight.granularity())
                + MatrixShape.scalesBefore(weight.granularity(), tile.fromRow() % shape.rows(), shape.cols());
    }

    private static long codeOffset(StoredWeight weight, Tile tile) {
        long first = tile.fromRow() * MatrixShape.of(weight.shape()).cols();
        return weight.codes() == Codes.E2M1 ? first / 2 : first;
    }

    /** Dequantises a tile and writes its values. */
    void dequantize(TensorStep.Dequantize step, Tile tile, PartFile target, Places places) {
        with(scratch -> {
            long cols = MatrixShape.of(step.source().shape()).cols();
            DType type = step.target().dtype();
            long width = type.bits() / 8;
            MemorySegment floats = scratch.buffer(Buffers.Use.FLOATS, tile.rows() * cols * width);
            reader.readQuantized(step.source(), tile.fromRow(), tile.fromRow() + tile.rows(), type, floats, scratch);
            target.write(places.applyAsLong(step.target()) + tile.fromRow() * cols * width, floats);
            return 0f;
        });
    }

    /** Copies a tile's codes and writes its scales in their new form. */
    void relayout(TensorStep.Relayout step, Tile tile, PartFile target, Places places) {
        with(scratch -> {
            StoredWeight from = step.source();
            StoredWeight to = step.target();
            TileShape shape = shape(to, tile, from.granularity());
            MemorySegment codes = scratch.buffer(Buffers.Use.CODES, shape.codeBytes(from.codes()));
            reader.readCodes(from, tile.fromRow(), codes);
            target.write(places.applyAsLong(to.data()) + codeOffset(to, tile), codes);
            boolean single = from.granularity() instanceof Granularity.PerTensor;
            if (!single || tile.startsMatrix(MatrixShape.of(from.shape()))) {
                relayoutScale(step, tile, shape, scratch, target, places);
            }
            if (tile.fromRow() == 0) {
                wholeScale(from.globalScale(), to.globalScale(), scratch, target, places);
                wholeScale(from.inputScale(), to.inputScale(), scratch, target, places);
            }
            if (from.zeroPoint() != null && to.zeroPoint() != null) {
                MemorySegment points = scratch.buffer(Buffers.Use.ZERO_POINTS, shape.scaleCount());
                source.read(tensor(from.zeroPoint().name()), firstScale(from, tile), points);
                target.write(places.applyAsLong(to.zeroPoint()) + firstScale(to, tile), points);
            }
            return 0f;
        });
    }

    private void relayoutScale(
            TensorStep.Relayout step, Tile tile, TileShape shape, Scratch scratch, PartFile target, Places places)
            throws IOException {
        ScaleTensor from = WeightReader.requireScale(step.source());
        ScaleTensor to = WeightReader.requireScale(step.target());
        long first = firstScale(step.source(), tile);
        if (from.spec().shape().elementCount() == 1 && first > 0) {
            return; // one scale for all matrices, written with the first
        }
        convert(from, to, first, shape.scaleCount(), step.factor(), scratch, target, places);
    }

    private void wholeScale(
            @Nullable ScaleTensor from, @Nullable ScaleTensor to, Scratch scratch, PartFile target, Places places)
            throws IOException {
        if (from != null && to != null) {
            convert(from, to, 0, from.spec().shape().elementCount(), 1, scratch, target, places);
        }
    }

    private void convert(
            ScaleTensor from,
            ScaleTensor to,
            long first,
            long count,
            float factor,
            Scratch scratch,
            PartFile target,
            Places places)
            throws IOException {
        long width = from.spec().dtype().bits() / 8;
        MemorySegment raw = scratch.buffer(Buffers.Use.STORED, count * width);
        source.read(tensor(from.name()), first * width, raw);
        long targetWidth = to.spec().dtype().bits() / 8;
        if (factor == 1 && from.number() == to.number() && from.direction() == to.direction()) {
            target.write(places.applyAsLong(to.spec()) + first * targetWidth, raw);
            return;
        }
        MemorySegment f32 = scratch.buffer(Buffers.Use.SCALES, count * Float.BYTES);
        ScaleForms.read(from, raw, count, f32);
        for (long at = 0; factor != 1 && at < f32.byteSize(); at += Float.BYTES) {
            f32.set(Tensor.F32_LE, at, f32.get(Tensor.F32_LE, at) * factor);
        }
        MemorySegment written = scratch.buffer(Buffers.Use.SECOND_STORED, count * targetWidth);
        ScaleForms.write(to, f32, count, written);
        target.write(places.applyAsLong(to.spec()) + first * targetWidth, written);
    }

    /**
     * Decibels that a weight loses in its first tile by a scale that is not its own.
     *
     * @param shared the scale it has
     * @param own the scale it would have alone
     */
    double lostDb(TensorStep.Quantize step, float shared, float own) {
        Tile first = Tile.of(MatrixShape.of(step.target().shape()), sourceGranularity(step.name()))
                .getFirst();
        return with(scratch -> {
            MemorySegment floats = read(step, first, scratch);
            return (float) (sqnr(step, first, floats, own, scratch) - sqnr(step, first, floats, shared, scratch));
        });
    }

    private double sqnr(TensorStep.Quantize step, Tile tile, MemorySegment floats, float scale, Scratch scratch) {
        TileShape shape = shape(step.target(), tile, new Granularity.PerTensor());
        MemorySegment one = scratch.buffer(Buffers.Use.SCALES, Float.BYTES);
        one.set(Tensor.F32_LE, 0, scale);
        Codes format = step.target().codes();
        MemorySegment codes = scratch.buffer(Buffers.Use.CODES, shape.codeBytes(format));
        MemorySegment back = scratch.buffer(Buffers.Use.FLOATS, shape.elements() * Float.BYTES);
        cast.encode(format, step.type(), floats, shape, one, codes);
        cast.decode(format, codes, shape, one, DType.F32, back);
        return Difference.between(step.type(), floats, DType.F32, back, shape.elements())
                .sqnrDb();
    }

    private interface Body {
        float run(Scratch scratch) throws IOException;
    }

    private float with(Body body) {
        Scratch scratch = pool.take();
        try {
            return body.run(scratch);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } finally {
            pool.give(scratch);
        }
    }
}
