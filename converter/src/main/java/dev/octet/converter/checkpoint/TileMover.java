package dev.octet.converter.checkpoint;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.cast.BlockCast;
import dev.octet.quant.cast.ElementCast.Range;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.cast.Words;
import dev.octet.quant.gptq.BlockScales;
import dev.octet.quant.layout.ScaleTensor;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.measure.CastError;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.GlobalScale;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Moves one tile from the source to its place in a file of the target: read, find scales, encode or decode, write. A tile crosses memory
 * once. For use by several threads at once.
 */
final class TileMover {
    private final Checkpoint source;
    private final StoredCheckpoint stored;
    private final WeightReader reader;
    private final BlockCast cast = BlockCast.best();
    private final TileScratch.Pool pool;
    private final MergeTiles merges;
    private final CompensatedTiles compensated;
    private final WeightRounding rounding;
    private @Nullable Checkpoint keptSource;

    TileMover(
            Checkpoint source,
            StoredCheckpoint stored,
            TileScratch.Pool pool,
            MergedWeights merged,
            WeightRounding rounding) {
        this.source = source;
        this.stored = stored;
        this.reader = WeightReader.of(source, stored);
        this.pool = pool;
        this.merges = new MergeTiles(merged);
        this.compensated = new CompensatedTiles(rounding);
        this.rounding = rounding;
    }

    /**
     * A tile that is being quantised.
     *
     * @param floats its values, of {@code step.type()}
     * @param runs its elements by blocks
     * @param scales the multipliers of these, to be filled with what a reader will see
     */
    private record Encoding(
            TensorStep.Quantize step,
            Tile tile,
            MemorySegment floats,
            ScaleRuns runs,
            MemorySegment scales,
            Output output) {
        StoredWeight weight() {
            return step.target();
        }

        OperandSpec scheme() {
            return step.scheme();
        }

        BlockScales.Values values() {
            return new BlockScales.Values(step.type(), floats, runs, scales);
        }

        boolean startsMatrix() {
            return tile.startsMatrix(weight().blocks());
        }

        /** Which number the tile's matrix has in scales of which each matrix may have one. */
        long indexIn(Shape scale) {
            return scale.elementCount() == 1 ? 0 : tile.matrix();
        }

        /** Writes the scales of the blocks. */
        void writeScales() throws IOException {
            ScaleTensor scale = Objects.requireNonNull(weight().scale());
            MemorySegment raw = output.buffer(
                    Buffers.Use.STORED, runs.scaleCount() * scale.spec().dtype().bits() / 8);
            ScaleForms.write(scale, scales, runs.scaleCount(), raw);
            output.file().write(scale, weight().blocks().scaleOfRow(tile.fromRow()), raw);
        }
    }

    /** Memory for the steps of one tile, and the file it goes to. */
    private record Output(TileScratch scratch, TargetFile file) {
        MemorySegment buffer(Buffers.Use use, long bytes) {
            return scratch.buffer(use, bytes);
        }

        /** Writes one scale, given as a multiplier. */
        void writeOne(ScaleTensor scale, long index, float multiplier) throws IOException {
            MemorySegment one = buffer(Buffers.Use.SECOND_SCALES, Float.BYTES);
            MemorySegment raw =
                    buffer(Buffers.Use.SECOND_STORED, scale.spec().dtype().bits() / 8);
            one.set(Tensor.F32_LE, 0, multiplier);
            ScaleForms.write(scale, one, 1, raw);
            file.write(scale, index, raw);
        }
    }

    /** The blocks of a weight in the source; of one that is not quantised, all of it. */
    Granularity sourceGranularity(String name) {
        StoredWeight weight = stored.weights().get(name);
        return weight == null ? new Granularity.PerTensor() : weight.granularity();
    }

    /** The largest magnitude in a tile of the source. */
    float amax(TensorStep.Quantize step, Tile tile) {
        return with(scratch -> {
            MemorySegment floats = read(step, tile, scratch);
            ScaleRuns whole = runs(step.target(), tile, new Granularity.PerTensor());
            MemorySegment amax = scratch.buffer(Buffers.Use.SCALES, Float.BYTES);
            cast.amax(step.type(), floats, whole, amax);
            requireFinite(step, tile, floats, amax, 1);
            return amax.get(Tensor.F32_LE, 0);
        });
    }

    private static ScaleRuns runs(StoredWeight weight, Tile tile, Granularity granularity) {
        return Blocks.of(Shape.of(tile.rows(), Blocks.cols(weight.shape())), granularity)
                .runs();
    }

    /** The values of a tile as {@code step.type()}. */
    private MemorySegment read(TensorStep.Quantize step, Tile tile, TileScratch scratch) throws IOException {
        long cols = Blocks.cols(step.target().shape());
        long width = step.type().bits() / 8;
        MemorySegment floats = scratch.buffer(Buffers.Use.SOURCE, tile.rows() * cols * width);
        StoredWeight weight = stored.weights().get(step.name());
        if (merges.has(step.name())) {
            readMerged(step.name(), tile, floats, scratch);
        } else if (weight != null) {
            reader.readQuantized(weight, tile.fromRow(), tile.fromRow() + tile.rows(), step.type(), floats, scratch);
        } else {
            source.read(tensor(step.name()), tile.fromRow() * cols * width, floats);
        }
        return floats;
    }

    /** The values of a tile with what adapters add, as F32; before that they stay in {@link Buffers.Use#BASE}. */
    private void readMerged(String name, Tile tile, MemorySegment floats, TileScratch scratch) throws IOException {
        reader.read(merges.source(name), tile.fromRow(), tile.fromRow() + tile.rows(), floats);
        MemorySegment.copy(floats, 0, scratch.buffer(Buffers.Use.BASE, floats.byteSize()), 0, floats.byteSize());
        merges.apply(name, tile.fromRow(), floats);
    }

    /** What is left of adapters. */
    List<MergeMeasure> measures(CheckpointPlan plan) {
        return merges.measures(plan);
    }

    /** What compensated rounding gained. */
    List<RoundedError> rounded(CheckpointPlan plan) {
        return compensated.errors(plan);
    }

    /** Adds adapters to a tile that is plain in the target. */
    void merge(TensorStep.Merge step, Tile tile, TargetFile target) {
        with(scratch -> {
            DType type = step.target().dtype();
            long count = tile.rows() * Blocks.cols(step.target().shape());
            MemorySegment floats = scratch.buffer(Buffers.Use.SOURCE, count * Float.BYTES);
            readMerged(step.name(), tile, floats, scratch);
            MemorySegment written = scratch.buffer(Buffers.Use.CODES, count * type.bits() / 8);
            MemorySegment back = scratch.buffer(Buffers.Use.FLOATS, count * Float.BYTES);
            for (long i = 0; i < count; i++) {
                Floats.set(type, written, i, floats.get(Tensor.F32_LE, i * Float.BYTES));
                back.set(Tensor.F32_LE, i * Float.BYTES, Floats.get(type, written, i));
            }
            MemorySegment base = scratch.buffer(Buffers.Use.BASE, count * Float.BYTES);
            merges.measure(step.name(), tile.fromRow(), base, floats, back);
            long width = type.bits() / 8;
            target.write(
                    step.target(), tile.fromRow() * Blocks.cols(step.target().shape()) * width, written);
            return 0f;
        });
    }

    /** Measures a tile that was quantised with adapters. */
    private void measure(Encoding e, MemorySegment codes) {
        if (!merges.measures(e.step().name())) {
            return;
        }
        long bytes = e.runs().elements() * Float.BYTES;
        TileScratch scratch = e.output().scratch();
        MemorySegment back = scratch.buffer(Buffers.Use.FLOATS, bytes);
        QuantType type = e.weight().codes();
        if (type.hasZeroPoint()) {
            MemorySegment points =
                    e.output().buffer(Buffers.Use.ZERO_POINTS, e.runs().scaleCount());
            cast.decodeAffine(codes, e.runs(), e.scales(), points, DType.F32, back);
        } else {
            cast.decode(type, codes, e.runs(), e.scales(), DType.F32, back);
        }
        MemorySegment base = scratch.buffer(Buffers.Use.BASE, bytes);
        merges.measure(e.step().name(), e.tile().fromRow(), base, e.floats(), back);
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
        long cols = Blocks.cols(step.target().shape());
        long i = 0;
        while (Float.isFinite(Floats.get(step.type(), floats, i))) {
            i++;
        }
        return new InvalidDataException(
                "the weight holds " + Floats.get(step.type(), floats, i),
                "tensor '" + step.name() + "', row " + (tile.fromRow() + i / cols) + ", column " + i % cols,
                "repair the checkpoint, or leave such tensors as they are with --allow-nonfinite");
    }

    /** Copies bytes {@code from .. from + count - 1} of a tensor. */
    void copy(TensorStep.Copy step, long from, long count, TargetFile target) {
        with(scratch -> {
            MemorySegment bytes = scratch.buffer(Buffers.Use.SOURCE, count);
            source.read(step.source(), from, bytes);
            target.write(step.target(), from, bytes);
            return 0f;
        });
    }

    /** Writes a few numbers. */
    void write(TensorStep.AttentionScale step, TargetFile target) {
        with(scratch -> {
            int count = step.values().size();
            MemorySegment bytes = scratch.buffer(Buffers.Use.SCALES, (long) count * Float.BYTES);
            for (int i = 0; i < count; i++) {
                bytes.set(Tensor.F32_LE, (long) i * Float.BYTES, step.values().get(i));
            }
            target.write(step.target(), 0, bytes);
            return 0f;
        });
    }

    /** Quantises a tile and writes its codes and scales. */
    void quantize(TensorStep.Quantize step, Tile tile, TensorAmax whole, TargetFile target) {
        with(scratch -> {
            StoredWeight weight = step.target();
            ScaleRuns runs = runs(weight, tile, step.scheme().granularity());
            Encoding encoding = new Encoding(
                    step,
                    tile,
                    read(step, tile, scratch),
                    runs,
                    scratch.buffer(Buffers.Use.SCALES, runs.scaleCount() * Float.BYTES),
                    new Output(scratch, target));
            MemorySegment codes =
                    scratch.buffer(Buffers.Use.CODES, weight.codes().bytes(runs.elements()));
            if (weight.codes().hasZeroPoint()) {
                affine(encoding, codes);
            } else {
                findScales(encoding, whole);
                encode(encoding, null, codes);
            }
            measure(encoding, codes);
            writeCodes(weight, tile, codes, encoding.output());
            if (tile.fromRow() == 0 && weight.inputScale() != null) {
                encoding.output().writeOne(weight.inputScale(), 0, step.inputScale());
            }
            return 0f;
        });
    }

    /** Fills the codes of a tile whose scales are known, to nearest or compensated. */
    private void encode(Encoding e, @Nullable MemorySegment zeroPoints, MemorySegment codes) {
        QuantType type = e.weight().codes();
        if (compensated.has(e.step())) {
            long cols = Blocks.cols(e.weight().shape());
            compensated.add(
                    e.step().name(),
                    e.tile().fromRow(),
                    compensated
                            .rows(e.step().name(), cols)
                            .round(type, f32(e), e.runs(), e.scales(), zeroPoints, codes));
        } else if (zeroPoints == null) {
            cast.encode(type, e.step().type(), e.floats(), e.runs(), e.scales(), codes);
        } else {
            cast.encodeAffine(type, e.step().type(), e.floats(), e.runs(), e.scales(), zeroPoints, codes);
        }
    }

    private static MemorySegment f32(Encoding e) {
        DType type = e.step().type();
        if (type == DType.F32) {
            return e.floats();
        }
        MemorySegment wide = e.output().buffer(Buffers.Use.FLOATS, e.runs().elements() * Float.BYTES);
        for (long i = 0; i < e.runs().elements(); i++) {
            wide.set(Tensor.F32_LE, i * Float.BYTES, Floats.get(type, e.floats(), i));
        }
        return wide;
    }

    /** Codes with a zero point: fills {@code codes}, writes scales and zero points. */
    private void affine(Encoding e, MemorySegment codes) throws IOException {
        MemorySegment zeroPoints =
                e.output().buffer(Buffers.Use.ZERO_POINTS, e.runs().scaleCount());
        requireFiniteBlocks(e, e.scales());
        Range[] ranges = cast.ranges(e.step().type(), e.floats(), e.runs());
        rounding.scales(e.step()).affine(e.values(), ranges, zeroPoints);
        encode(e, zeroPoints, codes);
        e.writeScales();
        writeZeroPoints(e.weight(), e.tile(), zeroPoints, e.output());
    }

    /** Writes codes as they lie in a weight's tensor, and with the first of them the weight's shape. */
    private static void writeCodes(StoredWeight weight, Tile tile, MemorySegment codes, Output output)
            throws IOException {
        TensorSpec numbers = weight.shapeNumbers();
        if (tile.fromRow() == 0 && numbers != null) {
            long[] dims = weight.shape().toArray();
            MemorySegment raw = output.buffer(Buffers.Use.WORDS, (long) dims.length * Long.BYTES);
            for (int i = 0; i < dims.length; i++) {
                raw.set(Tensor.I64_LE, (long) i * Long.BYTES, dims[i]);
            }
            output.file().write(numbers, 0, raw);
        }
        if (!weight.inWords()) {
            output.file().write(weight.data(), codeOffset(weight, tile), codes);
            return;
        }
        long cols = Blocks.cols(weight.shape());
        Words packing = Words.of(weight.codes().bits());
        long bytes = packing.words(cols) * Integer.BYTES;
        MemorySegment words = output.buffer(Buffers.Use.WORDS, tile.rows() * bytes);
        packing.packRows(codes, tile.rows(), cols, words);
        output.file().write(weight.data(), tile.fromRow() * bytes, words);
    }

    private static void writeZeroPoints(StoredWeight weight, Tile tile, MemorySegment zeroPoints, Output output)
            throws IOException {
        TensorSpec points = Objects.requireNonNull(weight.zeroPoint());
        int inWord = weight.rowsOfZeroPoint();
        if (inWord == 1) {
            output.file().write(points, weight.blocks().scaleOfRow(tile.fromRow()), zeroPoints);
            return;
        }
        long cols = points.shape().dim(1);
        long down = Math.ceilDiv(tile.rows(), (long) inWord);
        MemorySegment words = output.buffer(Buffers.Use.WORDS, down * cols * Integer.BYTES);
        Words.of(weight.codes().bits()).packColumns(zeroPoints, tile.rows(), cols, words);
        output.file().write(points, tile.fromRow() / inWord * cols * Integer.BYTES, words);
    }

    /** Fills {@code amax} with the largest magnitude of each block. */
    private void requireFiniteBlocks(Encoding e, MemorySegment amax) {
        cast.amax(e.step().type(), e.floats(), e.runs(), amax);
        requireFinite(e.step(), e.tile(), e.floats(), amax, e.runs().scaleCount());
    }

    /** Fills the scales with the multipliers a reader will see, and writes them. */
    private void findScales(Encoding e, TensorAmax whole) throws IOException {
        OperandSpec scheme = e.scheme();
        if (e.step().keptScales() != null) {
            readKept(e);
            requireFiniteBlocks(
                    e, e.output().buffer(Buffers.Use.SECOND_SCALES, e.runs().scaleCount() * Float.BYTES));
            if (scheme.twoLevels()) {
                return; // written as they were kept
            }
        } else if (scheme.perTensor()) {
            float base = e.step().baseScale();
            float scale = Float.isNaN(base)
                    ? scheme.storedScale(whole.amax(e.step(), e.tile().matrix()))
                    : base;
            e.scales().set(Tensor.F32_LE, 0, scale);
        } else {
            requireFiniteBlocks(e, e.scales());
            if (scheme.twoLevels()) {
                twoLevels(e, whole);
                return;
            }
            rounding.scales(e.step()).oneLevel(e.values());
        }
        if (!scheme.perTensor()) {
            e.writeScales();
        } else if (e.startsMatrix()) {
            ScaleTensor scale = Objects.requireNonNull(e.weight().scale());
            e.output()
                    .writeOne(scale, e.indexIn(scale.spec().shape()), e.scales().get(Tensor.F32_LE, 0));
        }
    }

    /** Takes the scales of a tile from those kept; of two levels both, which are written as they are. */
    private void readKept(Encoding e) throws IOException {
        ScaleTensor form = Objects.requireNonNull(e.weight().scale());
        StoredTensor kept = Objects.requireNonNull(e.step().keptScales());
        Checkpoint scalesFile = Objects.requireNonNull(keptSource);
        long count = e.runs().scaleCount();
        long width = kept.dtype().bits() / 8;
        MemorySegment raw = e.output().buffer(Buffers.Use.STORED, count * width);
        long first = kept.shape().elementCount() == 1
                ? 0
                : e.weight().blocks().scaleOfRow(e.tile().fromRow());
        scalesFile.read(kept, first * width, raw);
        ScaleForms.read(form, raw, count, e.scales());
        ScaleTensor global = e.weight().globalScale();
        if (global != null) {
            e.output().file().write(form.spec(), first * width, raw);
            StoredTensor keptGlobal = Objects.requireNonNull(scalesFile.tensor(global.name()));
            long index = e.indexIn(keptGlobal.shape());
            MemorySegment second = e.output().buffer(Buffers.Use.SECOND_STORED, Float.BYTES);
            scalesFile.read(keptGlobal, index * Float.BYTES, second);
            if (e.startsMatrix()) {
                e.output().file().write(global, index, second);
            }
            ScaleForms.applyGlobal(global, second.get(Tensor.F32_LE, 0), e.scales(), count);
        }
        requirePositive(kept, e.scales());
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

    /** Takes kept scales from {@code checkpoint}. */
    TileMover withKeptScales(@Nullable Checkpoint checkpoint) {
        keptSource = checkpoint;
        return this;
    }

    /** NVFP4: one scale for the whole weight brings its largest block scale to the largest E4M3 number. */
    private void twoLevels(Encoding e, TensorAmax whole) throws IOException {
        BlockScales blocks = rounding.scales(e.step());
        ScaleTensor global = Objects.requireNonNull(e.weight().globalScale());
        float base = e.step().baseScale();
        GlobalScale second = Float.isNaN(base)
                ? blocks.global(whole.amax(e.step(), e.tile().matrix()), ScaleForms.direction(global))
                : new GlobalScale(base, ScaleForms.direction(global));
        if (e.startsMatrix()) {
            MemorySegment raw = e.output().buffer(Buffers.Use.SECOND_STORED, Float.BYTES);
            raw.set(Tensor.F32_LE, 0, second.value());
            e.output().file().write(global, e.indexIn(global.spec().shape()), raw);
        }
        MemorySegment bytes = e.output().buffer(Buffers.Use.STORED, e.runs().scaleCount());
        blocks.twoLevels(e.values(), second, bytes);
        ScaleTensor scale = Objects.requireNonNull(e.weight().scale());
        e.output().file().write(scale, e.weight().blocks().scaleOfRow(e.tile().fromRow()), bytes);
    }

    private static long codeOffset(StoredWeight weight, Tile tile) {
        long first = tile.fromRow() * Blocks.cols(weight.shape());
        return weight.codes() == QuantType.E2M1 ? first / 2 : first;
    }

    /** Dequantises a tile and writes its values. */
    void dequantize(TensorStep.Dequantize step, Tile tile, TargetFile target) {
        with(scratch -> {
            long cols = Blocks.cols(step.source().shape());
            DType type = step.target().dtype();
            long width = type.bits() / 8;
            MemorySegment floats = scratch.buffer(Buffers.Use.FLOATS, tile.rows() * cols * width);
            reader.readQuantized(step.source(), tile.fromRow(), tile.fromRow() + tile.rows(), type, floats, scratch);
            target.write(step.target(), tile.fromRow() * cols * width, floats);
            return 0f;
        });
    }

    /** Copies a tile's codes and writes its scales in their new form. */
    void relayout(TensorStep.Relayout step, Tile tile, TargetFile target) {
        with(scratch -> {
            StoredWeight from = step.source();
            StoredWeight to = step.target();
            ScaleRuns runs = runs(to, tile, from.granularity());
            MemorySegment codes = scratch.buffer(Buffers.Use.CODES, from.codes().bytes(runs.elements()));
            reader.readCodes(from, tile.fromRow(), codes, scratch);
            Output output = new Output(scratch, target);
            writeCodes(to, tile, codes, output);
            boolean single = from.granularity() instanceof Granularity.PerTensor;
            if (!single || tile.startsMatrix(from.blocks())) {
                relayoutScale(step, tile, runs.scaleCount(), output);
            }
            if (tile.fromRow() == 0) {
                wholeScale(from.globalScale(), to.globalScale(), step.globalFactor(), output);
                wholeScale(from.inputScale(), to.inputScale(), 1, output);
            }
            if (from.zeroPoint() != null && to.zeroPoint() != null) {
                writeZeroPoints(
                        to,
                        tile,
                        reader.readZeroPoints(from, tile.fromRow(), tile.rows(), runs.scaleCount(), scratch),
                        output);
            }
            return 0f;
        });
    }

    private void relayoutScale(TensorStep.Relayout step, Tile tile, long count, Output output) throws IOException {
        ScaleTensor from = WeightReader.requireScale(step.source());
        ScaleTensor to = WeightReader.requireScale(step.target());
        long first = step.source().blocks().scaleOfRow(tile.fromRow());
        if (from.spec().shape().elementCount() == 1 && first > 0) {
            return; // one scale for all matrices, written with the first
        }
        convert(from, to, first, count, step.factor(), output);
    }

    private void wholeScale(@Nullable ScaleTensor from, @Nullable ScaleTensor to, float factor, Output output)
            throws IOException {
        if (from != null && to != null) {
            convert(from, to, 0, from.spec().shape().elementCount(), factor, output);
        }
    }

    /** Brings scales {@code first .. first + count - 1} from one form into the other, multiplied by {@code factor}. */
    private void convert(ScaleTensor from, ScaleTensor to, long first, long count, float factor, Output output)
            throws IOException {
        long width = from.spec().dtype().bits() / 8;
        MemorySegment raw = output.buffer(Buffers.Use.STORED, count * width);
        source.read(tensor(from.name()), first * width, raw);
        if (factor == 1 && from.number() == to.number() && from.direction() == to.direction()) {
            output.file().write(to, first, raw);
            return;
        }
        MemorySegment f32 = output.buffer(Buffers.Use.SCALES, count * Float.BYTES);
        ScaleForms.read(from, raw, count, f32);
        for (long at = 0; factor != 1 && at < f32.byteSize(); at += Float.BYTES) {
            f32.set(Tensor.F32_LE, at, f32.get(Tensor.F32_LE, at) * factor);
        }
        MemorySegment written = output.buffer(
                Buffers.Use.SECOND_STORED, count * to.spec().dtype().bits() / 8);
        ScaleForms.write(to, f32, count, written);
        output.file().write(to, first, written);
    }

    /**
     * Decibels that a weight loses in its first tile by a scale that is not its own.
     *
     * @param shared the scale it has
     * @param own the scale it would have alone
     */
    double lostDb(TensorStep.Quantize step, float shared, float own) {
        Tile first =
                Tile.of(step.target().blocks(), sourceGranularity(step.name())).getFirst();
        return with(scratch -> {
            MemorySegment floats = read(step, first, scratch);
            return (float) (sqnr(step, first, floats, own, scratch) - sqnr(step, first, floats, shared, scratch));
        });
    }

    private double sqnr(TensorStep.Quantize step, Tile tile, MemorySegment floats, float scale, TileScratch scratch) {
        ScaleRuns runs = runs(step.target(), tile, new Granularity.PerTensor());
        MemorySegment one = scratch.buffer(Buffers.Use.SCALES, Float.BYTES);
        one.set(Tensor.F32_LE, 0, scale);
        QuantType format = step.target().codes();
        MemorySegment codes = scratch.buffer(Buffers.Use.CODES, format.bytes(runs.elements()));
        MemorySegment back = scratch.buffer(Buffers.Use.FLOATS, runs.elements() * Float.BYTES);
        cast.encode(format, step.type(), floats, runs, one, codes);
        cast.decode(format, codes, runs, one, DType.F32, back);
        return CastError.between(step.type(), floats, DType.F32, back, runs.elements())
                .sqnrDb();
    }

    private interface Body {
        float run(TileScratch scratch) throws IOException;
    }

    private float with(Body body) {
        TileScratch scratch = pool.take();
        try {
            return body.run(scratch);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } finally {
            pool.give(scratch);
        }
    }
}
