package dev.octet.formats.file;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.formats.model.Pieces;
import dev.octet.formats.model.Pieces.Placed;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A file of 16-bit numbers 0, 1, 2, ...: the element at position 2 n is n, so what was read says where it came from. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PieceReaderTest {
    @TempDir
    Path folder;

    private Path file(int elements) throws IOException {
        byte[] bytes = new byte[2 * elements];
        for (int i = 0; i < elements; i++) {
            bytes[2 * i] = (byte) i;
            bytes[2 * i + 1] = (byte) (i >>> 8);
        }
        return Files.write(folder.resolve("numbers"), bytes);
    }

    private static int[] read(Pieces pieces, long from, long count) throws IOException {
        try (OpenFiles files = new OpenFiles();
                Arena arena = Arena.ofConfined()) {
            MemorySegment into = arena.allocate(2 * Math.max(1, count));
            PieceReader.read(files, pieces, 2 * from, into.asSlice(0, 2 * count));
            int[] found = new int[(int) count];
            for (int i = 0; i < count; i++) {
                found[i] = Short.toUnsignedInt(into.get(ValueLayout.JAVA_SHORT_UNALIGNED, 2L * i));
            }
            return found;
        }
    }

    /** Cuts a tensor along random borders into chunks that lie in random order in the file, and reads random stretches of it. */
    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5, 6, 7, 8})
    void tensors_in_random_chunks_are_read_in_random_stretches(long seed) throws IOException {
        SplittableRandom random = new SplittableRandom(seed);
        int rank = 1 + random.nextInt(4);
        long[] dims = new long[rank];
        for (int k = 0; k < rank; k++) {
            dims[k] = 1L + random.nextInt(9);
        }
        Shape shape = Shape.of(dims);
        int total = (int) shape.elementCount();
        int[] expected = new int[total];
        Path file = file(total);
        List<Placed> parts = new ArrayList<>();
        int[] next = {0};
        cut(random, new long[rank], dims.clone(), 0, (from, size) -> {
            Shape own = Shape.of(size);
            parts.add(new Placed(
                    Pieces.of(file, 2L * next[0], DType.F16, own),
                    Arrays.stream(from).boxed().toList()));
            long[] steps = Pieces.rowMajor(dims);
            long[] index = new long[rank];
            for (int i = 0; i < own.elementCount(); i++) {
                long flat = 0;
                long rest = i;
                for (int k = rank - 1; k >= 0; k--) {
                    index[k] = from[k] + rest % size[k];
                    rest /= size[k];
                    flat += index[k] * steps[k];
                }
                expected[(int) flat] = next[0]++;
            }
        });
        Pieces pieces = Pieces.assembled(shape, 2, parts);
        for (int i = 0; i < 50; i++) {
            int from = random.nextInt(total);
            int count = 1 + random.nextInt(total - from);
            int[] found = read(pieces, from, count);
            for (int e = 0; e < count; e++) {
                assertEquals(expected[from + e], found[e], pieces + ", element " + (from + e));
            }
        }
    }

    private interface Chunk {
        void at(long[] from, long[] size);
    }

    private static void cut(SplittableRandom random, long[] from, long[] size, int depth, Chunk chunk) {
        int axis = random.nextInt(size.length);
        if (depth > 3 || size[axis] < 2) {
            chunk.at(from.clone(), size.clone());
            return;
        }
        long first = 1 + random.nextLong(size[axis] - 1);
        long[] head = size.clone();
        head[axis] = first;
        cut(random, from, head, depth + 1, chunk);
        long[] behind = from.clone();
        behind[axis] += first;
        long[] tail = size.clone();
        tail[axis] -= first;
        cut(random, behind, tail, depth + 1, chunk);
    }

    @Test
    void a_large_transposed_matrix_is_read_in_parts() throws IOException {
        int rows = 1500;
        int columns = 40; // more than a stretch's bytes in all
        Pieces matrix = Pieces.of(file(rows * columns), 0, DType.F16, Shape.of(rows, columns))
                .transposed();
        int[] found = read(matrix, 0, (long) rows * columns);
        for (int r = 0; r < columns; r++) {
            for (int c = 0; c < rows; c++) {
                assertEquals((c * columns + r) & 0xFFFF, found[r * rows + c]);
            }
        }
    }

    @Test
    void narrowed_selected_and_joined_again_it_is_the_same() throws IOException {
        Pieces cube = Pieces.of(file(24), 0, DType.F16, Shape.of(2, 3, 4));
        Pieces rows = cube.select(0, 1);
        Pieces swapped = Pieces.joined(List.of(rows.narrow(1, 2, 2), rows.narrow(1, 0, 2)), 1);
        int[] found = read(swapped, 0, 12);
        int[] expected = {14, 15, 12, 13, 18, 19, 16, 17, 22, 23, 20, 21};
        for (int i = 0; i < 12; i++) {
            assertEquals(expected[i], found[i]);
        }
    }

    @Test
    void chunks_that_overlap_are_refused() throws IOException {
        Pieces part = Pieces.of(file(8), 0, DType.F16, Shape.of(2, 2));
        IllegalArgumentException e = assertThrows(
                IllegalArgumentException.class,
                () -> Pieces.assembled(
                        Shape.of(3, 2),
                        2,
                        List.of(new Placed(part, List.of(0L, 0L)), new Placed(part, List.of(1L, 0L)))));
        assertEquals("the chunks at [0, 0] and [1, 0] overlap", e.getMessage());
    }

    @Test
    void a_gap_between_chunks_is_refused() throws IOException {
        Pieces part = Pieces.of(file(8), 0, DType.F16, Shape.of(2, 2));
        IllegalArgumentException e = assertThrows(
                IllegalArgumentException.class,
                () -> Pieces.assembled(
                        Shape.of(5, 2),
                        2,
                        List.of(new Placed(part, List.of(0L, 0L)), new Placed(part, List.of(3L, 0L)))));
        assertEquals("the chunks hold 8 elements, [5, 2] has 10", e.getMessage());
    }

    @Test
    void a_chunk_beyond_the_border_is_refused() throws IOException {
        Pieces part = Pieces.of(file(8), 0, DType.F16, Shape.of(2, 2));
        assertThrows(
                IllegalArgumentException.class,
                () -> Pieces.assembled(Shape.of(2, 3), 2, List.of(new Placed(part, List.of(0L, 2L)))));
    }
}
