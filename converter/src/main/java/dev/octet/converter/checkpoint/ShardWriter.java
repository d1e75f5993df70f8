package dev.octet.converter.checkpoint;

import dev.octet.formats.file.PartFile;
import dev.octet.formats.safetensors.SafetensorsHeader;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.work.Workers;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * Writes one tensor file, with its tiles distributed over threads. The position of each byte is known in advance, so the file is the same
 * for any number of threads.
 */
final class ShardWriter {
    private static final long COPY_BYTES = 1L << 20;

    private final TileMover mover;
    private final TensorAmax whole;
    private final int threads;
    private final ByteCounter counter;

    ShardWriter(TileMover mover, TensorAmax whole, int threads, ByteCounter counter) {
        this.mover = mover;
        this.whole = whole;
        this.threads = threads;
        this.counter = counter;
    }

    /** One unit of work. */
    private record Piece(long bytes, Runnable work) {}

    /**
     * Writes the file, which gets its final name only when it is complete.
     *
     * @throws IOException when reading or writing fails; nothing is left then
     */
    void write(ShardPlan plan, Path target) throws IOException {
        try (PartFile file = PartFile.create(target, plan.header().fileBytes())) {
            whole.prepare(plan, threads);
            writeHeader(plan.header(), file);
            TargetFile tensors = TargetFile.of(file, plan.header());
            List<Piece> pieces = new ArrayList<>();
            for (TensorStep step : plan.steps()) {
                addPieces(step, tensors, pieces);
            }
            Workers.run(pieces.size(), threads, i -> {
                Piece piece = pieces.get(i);
                piece.work().run();
                counter.add(piece.bytes());
            });
            file.publish();
        } catch (UncheckedIOException e) {
            throw Objects.requireNonNullElseGet(e.getCause(), () -> new IOException(e));
        }
    }

    private static void writeHeader(SafetensorsHeader header, PartFile file) throws IOException {
        byte[] bytes = header.toBytes();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment segment = arena.allocate(bytes.length);
            MemorySegment.copy(MemorySegment.ofArray(bytes), 0, segment, 0, bytes.length);
            file.write(0, segment);
        }
    }

    private void addPieces(TensorStep step, TargetFile target, List<Piece> pieces) {
        switch (step) {
            case TensorStep.Copy copy -> {
                long bytes = copy.target().byteSize();
                for (long from = 0; from < bytes; from += COPY_BYTES) {
                    long first = from;
                    long count = Math.min(COPY_BYTES, bytes - from);
                    pieces.add(new Piece(count, () -> mover.copy(copy, first, count, target)));
                }
            }
            case TensorStep.AttentionScale scale -> pieces.add(new Piece(0, () -> mover.write(scale, target)));
            case TensorStep.Quantize q -> {
                Blocks weight = q.target().blocks();
                for (Tile tile : Tile.of(
                        weight,
                        q.target().rowsOfZeroPoint(),
                        mover.sourceGranularity(q.name()),
                        q.scheme().granularity())) {
                    pieces.add(new Piece(
                            share(q.sourceBytes(), tile, weight), () -> mover.quantize(q, tile, whole, target)));
                }
            }
            case TensorStep.Merge m -> {
                Blocks weight = Blocks.ofEachMatrix(m.target().shape(), mover.sourceGranularity(m.name()));
                for (Tile tile : Tile.of(weight, mover.sourceGranularity(m.name()))) {
                    pieces.add(new Piece(share(m.sourceBytes(), tile, weight), () -> mover.merge(m, tile, target)));
                }
            }
            case TensorStep.Dequantize d -> {
                Blocks weight = d.source().blocks();
                for (Tile tile : Tile.of(weight, d.source().granularity())) {
                    pieces.add(
                            new Piece(share(d.sourceBytes(), tile, weight), () -> mover.dequantize(d, tile, target)));
                }
            }
            case TensorStep.Relayout r -> {
                Blocks weight = r.source().blocks();
                for (Tile tile :
                        Tile.of(weight, r.target().rowsOfZeroPoint(), r.source().granularity())) {
                    pieces.add(new Piece(share(r.sourceBytes(), tile, weight), () -> mover.relayout(r, tile, target)));
                }
            }
        }
    }

    private static long share(long bytes, Tile tile, Blocks weight) {
        return weight.allRows() == 0 ? 0 : bytes / weight.allRows() * tile.rows();
    }
}
