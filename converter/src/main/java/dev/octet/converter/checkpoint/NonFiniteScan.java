package dev.octet.converter.checkpoint;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.model.Shard;
import dev.octet.formats.model.ShardHeader;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.work.Workers;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;

/** Finds the unquantised float matrices that hold a NaN or an infinity; reads all of them. */
public final class NonFiniteScan {
    private static final long CHUNK_BYTES = 1L << 20;

    private NonFiniteScan() {}

    /** The findings ({@code holds NaN}, {@code holds Infinity}) by tensor name. */
    public static Map<String, String> of(Checkpoint checkpoint, StoredCheckpoint stored, StreamOptions options)
            throws IOException {
        record Piece(TensorSpec spec, long from, long bytes) {}
        List<Piece> pieces = new ArrayList<>();
        long total = 0;
        for (Shard shard : checkpoint.shards()) {
            for (ShardHeader.Entry e : shard.header().entries()) {
                DType type = e.spec().dtype();
                boolean floats = type == DType.F32 || type == DType.BF16 || type == DType.F16;
                if (floats
                        && e.spec().shape().rank() >= 2
                        && stored.plain().containsKey(e.spec().name())) {
                    for (long from = 0; from < e.spec().byteSize(); from += CHUNK_BYTES) {
                        pieces.add(new Piece(
                                e.spec(), from, Math.min(CHUNK_BYTES, e.spec().byteSize() - from)));
                    }
                    total += e.spec().byteSize();
                }
            }
        }
        ByteCounter counter = new ByteCounter(options.progress(), total);
        Map<String, String> found = Collections.synchronizedMap(new TreeMap<>());
        try (TileScratch.Pool pool = new TileScratch.Pool()) {
            Workers.run(pieces.size(), options.threads(), i -> {
                Piece piece = pieces.get(i);
                TileScratch scratch = pool.take();
                try {
                    MemorySegment bytes = scratch.buffer(Buffers.Use.SOURCE, piece.bytes());
                    checkpoint.read(
                            Objects.requireNonNull(
                                    checkpoint.tensor(piece.spec().name())),
                            piece.from(),
                            bytes);
                    float amax = ElementCast.best().amax(piece.spec().dtype(), bytes);
                    if (!Float.isFinite(amax)) {
                        // a tensor with NaN and infinity is reported as NaN, whichever thread finds its element first
                        found.merge(piece.spec().name(), "holds " + amax, (a, b) -> a.compareTo(b) > 0 ? a : b);
                    }
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                } finally {
                    pool.give(scratch);
                }
                counter.add(piece.bytes());
            });
        } catch (UncheckedIOException e) {
            throw Objects.requireNonNullElseGet(e.getCause(), () -> new IOException(e));
        }
        return found;
    }
}
