package dev.octet.converter.verify;

import dev.octet.converter.checkpoint.WeightReader;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.layout.ScaleTensor;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.number.QuantType;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.Objects;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * One walk over a quantised weight, in pieces of a fixed number of elements. For each block of elements with one scale it keeps three sums,
 * over codes v and originals o: of v*v, o*v and o*o; from these the error under any scale s follows, {@code oo - 2 s ov + s s vv}.
 */
final class WeightWalk {
    /** Elements read at once. */
    private static final int PIECE = 1 << 20;

    private static final Set<DType> FLOATS = Set.of(DType.F32, DType.BF16, DType.F16);

    private final Checkpoint checkpoint;
    private final StoredWeight weight;
    private final StoredTensor data;
    private final @Nullable Checkpoint from;
    private final @Nullable StoredTensor original;
    private final float[] values;
    private final long[] histogram;
    private final long rows;
    private final long columns;
    private final long matrices;
    private final boolean fourBits;

    /** Reads codes that are packed into words; null when they lie in the file as they are. */
    private final @Nullable WeightReader unpacking;

    private long blocks;
    private long zeroBlocks;
    private double squares;
    private double originalSquares;
    private double asStored;
    private double reciprocal;
    private double transposed;
    private double anyScale;

    private WeightWalk(
            Checkpoint checkpoint,
            WeightReader reader,
            StoredWeight weight,
            StoredTensor data,
            @Nullable Checkpoint from) {
        this.checkpoint = checkpoint;
        this.weight = weight;
        this.data = data;
        this.from = from;
        StoredTensor same = from == null ? null : from.tensor(weight.name());
        this.original =
                same != null && same.shape().equals(weight.shape()) && FLOATS.contains(same.dtype()) ? same : null;
        this.fourBits = weight.codes() == QuantType.E2M1;
        this.unpacking = weight.inWords() ? reader : null;
        this.values = new float[fourBits ? 16 : 256];
        for (int code = 0; code < values.length; code++) {
            values[code] = WeightFacts.value(weight.codes(), code);
        }
        this.histogram = new long[values.length];
        Shape shape = weight.shape();
        this.columns = Blocks.cols(shape);
        this.rows = Blocks.rows(shape);
        this.matrices = rows * columns == 0 ? 0 : shape.elementCount() / (rows * columns);
    }

    /** Walks over a weight; null when its codes are not in this checkpoint. */
    static @Nullable WeightFacts walk(
            Checkpoint checkpoint, StoredCheckpoint stored, StoredWeight weight, @Nullable Checkpoint original)
            throws IOException {
        StoredTensor data = checkpoint.tensor(weight.data().name());
        WeightReader reader = WeightReader.of(checkpoint, stored);
        return data == null ? null : new WeightWalk(checkpoint, reader, weight, data, original).walk();
    }

    private WeightFacts walk() throws IOException {
        boolean scaled = scaleCountFits() && weight.zeroPoint() == null;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment codes = arena.allocate(piece(), 64);
            MemorySegment floats = arena.allocate(original == null ? 1 : piece() * Float.BYTES, 64);
            if (scaled) {
                for (long matrix = 0; matrix < matrices; matrix++) {
                    walkMatrix(matrix, codes, floats);
                }
            } else {
                count(codes);
            }
        }
        return new WeightFacts(
                weight,
                new WeightFacts.Histogram(histogram),
                blocks,
                zeroBlocks,
                scaled ? squares : Double.NaN,
                comparison(scaled));
    }

    private WeightFacts.@Nullable Comparison comparison(boolean scaled) {
        if (!scaled || original == null || originalSquares == 0) {
            return null;
        }
        return new WeightFacts.Comparison(
                relative(asStored),
                relative(reciprocal),
                squareGrid() ? relative(transposed) : Double.NaN,
                relative(anyScale));
    }

    private double relative(double error) {
        return Math.sqrt(Math.max(0, error) / originalSquares);
    }

    private Shape matrix() {
        return Shape.of(rows, columns);
    }

    private long scalesOfMatrix() {
        return weight.granularity().scaleShape(matrix()).elementCount();
    }

    private boolean scaleCountFits() {
        ScaleTensor scale = weight.scale();
        if (scale == null || weight.shape().rank() < 1 || !ScaleFacts.readable(scale.number())) {
            return false;
        }
        long count = scale.spec().shape().elementCount();
        return matrices > 0
                && (count == scalesOfMatrix() * matrices
                        || (count == 1 && weight.granularity() instanceof Granularity.PerTensor));
    }

    /** Whether the scales of a matrix are a square of blocks, whose transpose has the same shape. */
    private boolean squareGrid() {
        return weight.granularity() instanceof Granularity.PerBlock(int r, int c)
                && Math.ceilDiv(rows, (long) r) == Math.ceilDiv(columns, (long) c)
                && rows > r;
    }

    /** Elements looked at in one go: of codes packed into words whole rows. */
    private long piece() {
        return unpacking == null ? PIECE : Math.max(1, PIECE / Math.max(1, columns)) * columns;
    }

    /** Codes without usable scales: only how often each occurs. */
    private void count(MemorySegment buffer) throws IOException {
        if (unpacking != null) {
            for (long at = 0; at < rows * columns; at += piece()) {
                MemorySegment part = buffer.asSlice(0, Math.min(piece(), rows * columns - at));
                unpacking.readCodes(weight, at / columns, part);
                for (long i = 0; i < part.byteSize(); i++) {
                    histogram[code(part, i)]++;
                }
            }
            return;
        }
        long bytes = data.spec().byteSize();
        for (long at = 0; at < bytes; at += buffer.byteSize()) {
            MemorySegment piece = buffer.asSlice(0, Math.min(buffer.byteSize(), bytes - at));
            checkpoint.read(data, at, piece);
            long elements = fourBits ? 2 * piece.byteSize() : piece.byteSize();
            for (long i = 0; i < elements; i++) {
                histogram[code(piece, i)]++;
            }
        }
    }

    private int code(MemorySegment codes, long index) {
        if (!fourBits) {
            return codes.get(ValueLayout.JAVA_BYTE, index) & 0xFF;
        }
        int pair = codes.get(ValueLayout.JAVA_BYTE, index / 2) & 0xFF;
        return index % 2 == 0 ? pair & 0xF : pair >> 4;
    }

    private void walkMatrix(long index, MemorySegment codes, MemorySegment floats) throws IOException {
        ScaleRuns all = Blocks.of(matrix(), weight.granularity()).runs();
        BlockSums sums = new BlockSums();
        long elements = rows * columns;
        // sums of a block of rows are complete when its last row was seen
        long band = weight.granularity() instanceof Granularity.PerBlock(int r, int _) ? r * columns : 0;
        for (long at = 0; at < elements; ) {
            long end = Math.min(elements, at + piece());
            if (band > 0 && band <= PIECE) {
                end = Math.min(elements, at + PIECE / band * band);
            }
            readPiece(index * elements + at, end - at, codes, floats);
            ScaleRuns piece = all.part(at, end);
            sums.start(piece);
            visit(piece, codes, floats, sums);
            if (end >= elements || sums.endBefore(all.part(end, end + 1))) {
                settle(index, all.scaleCount(), sums);
            }
            at = end;
        }
        settle(index, all.scaleCount(), sums);
    }

    private void readPiece(long first, long count, MemorySegment codes, MemorySegment floats) throws IOException {
        if (unpacking != null) {
            unpacking.readCodes(weight, first / columns, codes.asSlice(0, count));
        } else {
            long byteFrom = fourBits ? first / 2 : first;
            checkpoint.read(data, byteFrom, codes.asSlice(0, fourBits ? Math.ceilDiv(count, 2L) : count));
        }
        StoredTensor o = original;
        Checkpoint source = from;
        if (o != null && source != null) {
            long width = o.dtype().bits() / 8;
            source.read(o, first * width, floats.asSlice(0, count * width));
        }
    }

    private void visit(ScaleRuns piece, MemorySegment codes, MemorySegment floats, BlockSums sums) {
        piece.forEachGroup(
                (first, count, scale) -> add(first - piece.from(), count, codes, floats, sums, sums.slot(scale)));
    }

    private void add(long first, long count, MemorySegment codes, MemorySegment floats, BlockSums sums, int slot) {
        double vv = 0;
        double ov = 0;
        double oo = 0;
        StoredTensor o = original;
        for (long i = first; i < first + count; i++) {
            int code = code(codes, i);
            histogram[code]++;
            double v = values[code];
            if (!Double.isFinite(v)) {
                continue; // NaN and infinity have a rule of their own
            }
            vv += v * v;
            if (o != null) {
                double x = Floats.get(o.dtype(), floats, i);
                ov += x * v;
                oo += x * x;
            }
        }
        sums.add(slot, vv, ov, oo);
    }

    /** Takes the sums of complete blocks into the errors. */
    private void settle(long matrix, long scaleCount, BlockSums sums) throws IOException {
        if (sums.count == 0) {
            return;
        }
        boolean single = weight.scale() != null && weight.scale().spec().shape().elementCount() == 1;
        long offset = single ? 0 : matrix * scalesOfMatrix();
        double[] scales = scales(offset + (single ? 0 : sums.first), single ? 1 : sums.count, matrix);
        double[] flipped = squareGrid() && original != null ? scales(offset, scaleCount, matrix) : new double[0];
        int side = (int) Math.sqrt(flipped.length);
        for (int i = 0; i < sums.count; i++) {
            double s = scales[single ? 0 : i];
            double vv = sums.vv[i];
            double ov = sums.ov[i];
            double oo = sums.oo[i];
            blocks++;
            zeroBlocks += vv == 0 ? 1 : 0;
            squares += s * s * vv;
            originalSquares += oo;
            asStored += oo - 2 * s * ov + s * s * vv;
            reciprocal += oo - 2 * ov / s + vv / (s * s);
            anyScale += vv == 0 ? oo : oo - ov * ov / vv;
            if (flipped.length > 0) {
                long block = sums.first + i;
                double t = flipped[(int) (block % side * side + block / side)];
                transposed += oo - 2 * t * ov + t * t * vv;
            }
        }
        sums.count = 0;
    }

    /** Scales as multipliers, the second level taken in. */
    private double[] scales(long first, long count, long matrix) throws IOException {
        ScaleTensor scale = Objects.requireNonNull(weight.scale());
        double factor = 1;
        ScaleTensor global = weight.globalScale();
        if (global != null) {
            boolean one = global.spec().shape().elementCount() == 1;
            factor = numbers(global, one ? 0 : matrix, 1)[0];
        }
        double[] numbers = numbers(scale, first, Math.toIntExact(count));
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] *= factor;
        }
        return numbers;
    }

    private double[] numbers(ScaleTensor scale, long first, int count) throws IOException {
        StoredTensor tensor = checkpoint.tensor(scale.name());
        double[] numbers = new double[count];
        if (tensor == null || first + count > tensor.shape().elementCount()) {
            Arrays.fill(numbers, Double.NaN);
            return numbers;
        }
        long width = tensor.dtype().bits() / 8;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment bytes = arena.allocate(count * width, 64);
            checkpoint.read(tensor, first * width, bytes);
            for (int i = 0; i < count; i++) {
                double x = ScaleFacts.value(scale.number(), bytes, i);
                numbers[i] = scale.direction() == ScaleTensor.Direction.DIVISOR ? 1 / x : x;
            }
        }
        return numbers;
    }

    /** Sums of the blocks that a piece of a matrix touches. */
    private static final class BlockSums {
        private long first;
        private int count;
        private double[] vv = new double[0];
        private double[] ov = new double[0];
        private double[] oo = new double[0];

        /** Makes room for the blocks of a piece, keeping what was begun before. */
        void start(ScaleRuns piece) {
            if (count == 0) {
                first = piece.firstScale();
            }
            int needed = Math.toIntExact(piece.firstScale() + piece.scaleCount() - first);
            if (needed > vv.length) {
                vv = Arrays.copyOf(vv, needed);
                ov = Arrays.copyOf(ov, needed);
                oo = Arrays.copyOf(oo, needed);
            }
            if (needed > count) {
                Arrays.fill(vv, count, needed, 0);
                Arrays.fill(ov, count, needed, 0);
                Arrays.fill(oo, count, needed, 0);
                count = needed;
            }
        }

        int slot(long scale) {
            return (int) (scale - first);
        }

        void add(int slot, double moreVv, double moreOv, double moreOo) {
            vv[slot] += moreVv;
            ov[slot] += moreOv;
            oo[slot] += moreOo;
        }

        /** Whether the next element belongs to none of these blocks. */
        boolean endBefore(ScaleRuns next) {
            return next.firstScale() >= first + count;
        }
    }
}
