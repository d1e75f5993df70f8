package dev.octet.trainer.op.update;

import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Many tensors in one launch: the rows that describe them, and the chunks of elements they are cut into, in device memory. */
public final class Chunks {
    static final CudaSource SOURCE = CudaSource.of(Chunks.class, "update.cu");

    /** Elements of a chunk, as in update.cu. */
    private static final long CHUNK = 16_384;

    private final long each;
    private final List<Long> words = new ArrayList<>();
    private final List<Long> chunks = new ArrayList<>();
    private int rows;

    /** Of 16384 elements each. */
    public Chunks() {
        this(CHUNK);
    }

    /** Of so many elements each. */
    public Chunks(long each) {
        this.each = each;
    }

    /**
     * Adds a tensor of {@code count} elements; a tensor of none has no chunk.
     *
     * @param row what the kernel knows of it
     */
    public void row(long count, long... row) {
        row(count, Arrays.stream(row).boxed().toList());
    }

    /** The same. */
    public void row(long count, List<Long> row) {
        for (long at = 0; at < count; at += each) {
            chunks.add((long) rows);
            chunks.add(at);
        }
        words.addAll(row);
        rows++;
    }

    /** Chunks so far. */
    long count() {
        return chunks.size() / 2;
    }

    /** Chunks of a tensor. */
    static long of(long count) {
        return Math.ceilDiv(count, CHUNK);
    }

    long table(CudaStream cuda) {
        return cuda.table(words.stream().mapToLong(Long::longValue).toArray());
    }

    /** Launches a kernel with a block for each chunk, its first arguments the table and the chunks. */
    void launch(CudaStream cuda, String kernel, Object... more) {
        launch(cuda, SOURCE, kernel, more);
    }

    /** Launches a kernel of another source, which cuts tensors into the same chunks. */
    public void launch(CudaStream cuda, CudaSource source, String kernel, Object... more) {
        long table = table(cuda);
        long list = cuda.table(chunks.stream().mapToLong(Long::longValue).toArray());
        if (chunks.isEmpty()) {
            return;
        }
        List<Object> arguments = new ArrayList<>(List.of(table, list));
        arguments.addAll(List.of(more));
        cuda.launch(source, kernel, Grid.of(count(), 256), arguments.toArray());
    }
}
