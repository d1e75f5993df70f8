package dev.octet.converter.gguf;

import dev.octet.converter.checkpoint.Buffers;
import dev.octet.converter.checkpoint.Buffers.Use;
import dev.octet.converter.checkpoint.WeightReader;
import dev.octet.converter.gguf.GgufFamily.Trait;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.gguf.GgufTensor;
import dev.octet.formats.gguf.GgufType;
import dev.octet.formats.gguf.GgufWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.cast.BlockCast;
import dev.octet.quant.ggml.GgmlEncode;
import dev.octet.quant.ggml.Nvfp4Blocks;
import dev.octet.quant.layout.ScaleTensor;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.number.Float8Format;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongUnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * The tensors of a GGUF file in pieces of some rows that are read, put in order, encoded and written on their own, by any thread. Rows that have the file's type
 * already are copied; codes and scales of NVFP4 are, too.
 */
final class GgufTiles {
    static final int NVFP4_GROUP = 16;

    /** Types whose encoding refuses what is not finite. */
    private static final Set<GgufType> CHECKED = Set.of(GgufType.F16, GgufType.Q8_0);

    /** Elements that are read at once, at least a row. */
    private static final int TILE = 1 << 18;

    private final Checkpoint checkpoint;
    private final StoredCheckpoint stored;
    private final WeightReader reader;
    private final GgufFamily family;
    private final int headSize;
    private final BlockCast cast = BlockCast.best();
    private final Map<String, Long> lost = new ConcurrentHashMap<>();

    GgufTiles(Checkpoint checkpoint, StoredCheckpoint stored, GgufFamily family, int headSize) {
        this.checkpoint = checkpoint;
        this.stored = stored;
        this.reader = WeightReader.of(checkpoint, stored);
        this.family = family;
        this.headSize = headSize;
    }

    /** Some rows of a tensor. */
    interface Tile {
        /** Bytes in the file. */
        long bytes();

        /**
         * Writes them.
         *
         * @throws InvalidDataException when an element is not finite, or larger than the type's largest
         */
        void write(GgufWriter file, Buffers buffers) throws IOException;
    }

    private interface Rows {
        void write(GgufWriter file, long first, long count, Buffers buffers) throws IOException;
    }

    private record SomeRows(GgufTensor tensor, long first, long count, Rows rows) implements Tile {
        @Override
        public long bytes() {
            return tensor.type().bytes(count * elementsOfRow(tensor));
        }

        @Override
        public void write(GgufWriter file, Buffers buffers) throws IOException {
            rows.write(file, first, count, buffers);
        }
    }

    /** Numbers of blocks by parameter whose scales became zero though their elements were not, of the tiles written so far. */
    Map<String, Long> lost() {
        return lost;
    }

    /** A tensor that is in no checkpoint. */
    Tile of(GgufTensor tensor, float[] values) {
        return new SomeRows(tensor, 0, rows(tensor), (file, _, _, buffers) -> {
            MemorySegment bytes = buffers.buffer(Use.CODES, tensor.byteSize());
            GgmlEncode.encode(tensor.type(), MemorySegment.ofArray(values), values.length, bytes);
            file.write(tensor, 0, bytes);
        });
    }

    /**
     * A parameter.
     *
     * @param kept whether its codes and scales go over as they are
     */
    List<Tile> of(GgufTensor tensor, String parameter, boolean kept) {
        Rows rows;
        if (kept) {
            StoredWeight weight = Objects.requireNonNull(stored.weights().get(parameter));
            rows = (file, first, count, buffers) -> repack(file, tensor, weight, first, count, buffers);
        } else {
            StoredTensor matrix = plainMatrix(tensor, parameter);
            if (matrix != null && matrix.spec().dtype() == sameType(tensor)) {
                rows = (file, first, count, buffers) -> copy(file, tensor, parameter, matrix, first, count, buffers);
            } else if (matrix != null && matrix.spec().dtype() == DType.BF16 && CHECKED.contains(tensor.type())) {
                rows = (file, first, count, buffers) -> encode(file, tensor, parameter, matrix, first, count, buffers);
            } else {
                rows = (file, first, count, buffers) -> encode(file, tensor, parameter, first, count, buffers);
            }
        }
        long all = rows(tensor);
        long step = step(all, elementsOfRow(tensor));
        List<Tile> tiles = new ArrayList<>();
        for (long first = 0; first < all; first += step) {
            tiles.add(new SomeRows(tensor, first, Math.min(step, all - first), rows));
        }
        return tiles;
    }

    private static boolean isVector(GgufTensor tensor) {
        return tensor.shape().rank() < 2;
    }

    private static long rows(GgufTensor tensor) {
        return isVector(tensor) ? 1 : tensor.shape().dim(0);
    }

    private static long elementsOfRow(GgufTensor tensor) {
        return isVector(tensor) ? tensor.shape().elementCount() : tensor.rowElements();
    }

    /** A matrix that is stored in floats; null for others. */
    private @Nullable StoredTensor plainMatrix(GgufTensor tensor, String parameter) {
        TensorSpec spec = stored.plain().get(parameter);
        return isVector(tensor) || spec == null ? null : checkpoint.tensor(spec.name());
    }

    private static @Nullable DType sameType(GgufTensor tensor) {
        return switch (tensor.type()) {
            case F32 -> DType.F32;
            case F16 -> DType.F16;
            case BF16 -> DType.BF16;
            default -> null;
        };
    }

    private void copy(
            GgufWriter file,
            GgufTensor tensor,
            String parameter,
            StoredTensor source,
            long first,
            long count,
            Buffers buffers)
            throws IOException {
        DType type = source.spec().dtype();
        long rowBytes = tensor.type().bytes(tensor.rowElements());
        MemorySegment read = buffers.buffer(Use.SOURCE, count * rowBytes);
        checkpoint.read(source, first * rowBytes, read);
        if (!Float.isFinite(cast.cast().amax(type, read))) {
            encode(file, tensor, parameter, first, count, buffers); // says which element it is
            return;
        }
        file.write(tensor, first * rowBytes, inOrder(tensor, first, read, rowBytes, buffers));
    }

    /** Rows in the order of the file. */
    private MemorySegment inOrder(GgufTensor tensor, long first, MemorySegment read, long rowBytes, Buffers buffers) {
        if (!isTurned(tensor)) {
            return read;
        }
        LongUnaryOperator order = order(tensor);
        MemorySegment rows = buffers.buffer(Use.BASE, read.byteSize());
        for (long r = 0; r < read.byteSize() / rowBytes; r++) {
            long from = order.applyAsLong(first + r) - first; // heads lie within a tile
            MemorySegment.copy(read, from * rowBytes, rows, r * rowBytes, rowBytes);
        }
        return rows;
    }

    /** Rows of BF16 without a copy of them in F32. */
    private void encode(
            GgufWriter file,
            GgufTensor tensor,
            String parameter,
            StoredTensor source,
            long first,
            long count,
            Buffers buffers)
            throws IOException {
        long cols = tensor.rowElements();
        long rowBytes = cols * Short.BYTES;
        MemorySegment read = buffers.buffer(Use.SOURCE, count * rowBytes);
        checkpoint.read(source, first * rowBytes, read);
        MemorySegment rows = inOrder(tensor, first, read, rowBytes, buffers);
        MemorySegment blocks = buffers.buffer(Use.CODES, tensor.type().bytes(count * cols));
        int zeros;
        try {
            zeros = GgmlEncode.encode(tensor.type(), DType.BF16, rows, count * cols, blocks);
        } catch (ArithmeticException e) {
            encode(file, tensor, parameter, first, count, buffers); // says what is wrong
            throw e;
        }
        if (zeros > 0) {
            lost.merge(parameter, (long) zeros, Long::sum);
        }
        file.write(tensor, first * tensor.type().bytes(cols), blocks);
    }

    /** The codes and scales of a matrix as they are, in the order of blocks and rows of the file. */
    private void repack(
            GgufWriter file, GgufTensor tensor, StoredWeight weight, long first, long count, Buffers buffers)
            throws IOException {
        long cols = tensor.rowElements();
        long blocksOfRow = cols / GgufType.NVFP4.blockElements();
        long scalesOfRow = cols / NVFP4_GROUP;
        long rowBytes = GgufType.NVFP4.bytes(cols);
        LongUnaryOperator order = order(tensor);
        ScaleTensor scale = Objects.requireNonNull(weight.scale());
        StoredTensor scaleTensor = Objects.requireNonNull(checkpoint.tensor(scale.name()));
        MemorySegment codes = buffers.buffer(Use.SOURCE, count * cols / 2);
        MemorySegment scales = buffers.buffer(Use.SCALES, count * scalesOfRow);
        MemorySegment blocks = buffers.buffer(Use.CODES, count * rowBytes);
        reader.readCodes(weight, first, codes, buffers);
        checkpoint.read(scaleTensor, first * scalesOfRow, scales);
        for (long r = 0; r < count; r++) {
            long from = order.applyAsLong(first + r) - first; // heads lie within a tile
            long bad = Nvfp4Blocks.pack(
                    codes.asSlice(from * cols / 2, cols / 2),
                    scales.asSlice(from * scalesOfRow, scalesOfRow),
                    blocksOfRow,
                    blocks.asSlice(r * rowBytes, rowBytes));
            if (bad >= 0) {
                throw impossible(
                        scale,
                        (first + from) * scalesOfRow + bad,
                        scales.get(ValueLayout.JAVA_BYTE, from * scalesOfRow + bad));
            }
        }
        file.write(tensor, first * rowBytes, blocks);
    }

    private static InvalidDataException impossible(ScaleTensor scale, long index, byte code) {
        return new InvalidDataException(
                "scale " + index + " is " + Float8Format.E4M3FN.decode(code & 0xff)
                        + ", and ggml has only scales from 0 to 448, without a sign",
                "tensor '" + scale.name() + "'",
                "export the checkpoint again; `octet verify` lists every such scale");
    }

    private void encode(GgufWriter file, GgufTensor tensor, String parameter, long first, long count, Buffers buffers)
            throws IOException {
        boolean vector = isVector(tensor);
        long cols = elementsOfRow(tensor);
        LongUnaryOperator order = order(tensor);
        float offset = family.has(Trait.NORM_OFFSET) && GgufNames.isNorm(tensor.name()) ? 1 : 0;
        long elements = count * cols;
        MemorySegment values = buffers.buffer(Use.FLOATS, elements * Float.BYTES);
        MemorySegment blocks = buffers.buffer(Use.CODES, tensor.type().bytes(elements));
        reader.read(parameter, first, first + count, values, buffers);
        if (isTurned(tensor) || offset != 0) {
            // rows of a matrix are reordered, of a bias its elements; heads lie within a tile
            long unit = vector ? 1 : cols;
            MemorySegment turned = buffers.buffer(Use.BASE, elements * Float.BYTES);
            for (long r = 0; r < elements / unit; r++) {
                long from = order.applyAsLong(first + r) - first;
                MemorySegment.copy(
                        values, from * unit * Float.BYTES, turned, r * unit * Float.BYTES, unit * Float.BYTES);
            }
            values = turned;
        }
        for (long i = 0; offset != 0 && i < elements; i++) {
            values.set(Tensor.F32_LE, i * Float.BYTES, values.get(Tensor.F32_LE, i * Float.BYTES) + offset);
        }
        requireStorable(tensor.type(), parameter, values);
        int zeros = encode(tensor.type(), parameter, values, blocks);
        if (zeros > 0) {
            lost.merge(parameter, (long) zeros, Long::sum);
        }
        file.write(tensor, first * tensor.type().bytes(cols), blocks);
    }

    private void requireStorable(GgufType type, String parameter, MemorySegment values) {
        float amax = cast.cast().amax(DType.F32, values); // NaN and infinity are above all others
        if (!Float.isFinite(amax)) {
            float v = amax;
            for (long i = 0; i < values.byteSize() / Float.BYTES; i++) {
                v = values.get(Tensor.F32_LE, i * Float.BYTES);
                if (!Float.isFinite(v)) {
                    break;
                }
            }
            throw new InvalidDataException(
                    "an element is " + v, "tensor '" + parameter + "'", "repair the checkpoint first");
        }
        if (type == GgufType.NVFP4 && amax > GgmlEncode.NVFP4_MAX) {
            throw new InvalidDataException(
                    "an element is " + amax + " without its sign, NVFP4 ends at 2688 in GGUF",
                    "tensor '" + parameter + "'",
                    "give --type bf16");
        }
    }

    private static int encode(GgufType type, String parameter, MemorySegment values, MemorySegment blocks) {
        try {
            return GgmlEncode.encode(type, values, values.byteSize() / Float.BYTES, blocks);
        } catch (ArithmeticException e) {
            throw new InvalidDataException(
                    String.valueOf(e.getMessage()),
                    "tensor '" + parameter + "'",
                    type == GgufType.BF16 ? "give --type f32" : "give --type bf16",
                    e);
        }
    }

    /** Rows of a tile: whole heads where rows are reordered, whole blocks of scales where the checkpoint is quantised. */
    private long step(long rows, long cols) {
        long unit = 128; // the largest block of scales
        while (unit % headSize != 0 && unit < (long) headSize * 128) {
            unit += 128;
        }
        long wanted = Math.max(1, TILE / Math.max(1, cols) / unit) * unit;
        return Math.clamp(wanted, 1, Math.max(1, rows));
    }

    private boolean isTurned(GgufTensor tensor) {
        return family.has(Trait.INTERLEAVED_ROTATION)
                && (GgufNames.isQuery(tensor.name()) || GgufNames.isKey(tensor.name()));
    }

    private LongUnaryOperator order(GgufTensor tensor) {
        return isTurned(tensor) ? RowOrder.fromFile(headSize) : LongUnaryOperator.identity();
    }
}
