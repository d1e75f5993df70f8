package dev.octet.formats.npy;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.TestData;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Arrays of NumPy read, written, and refused. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class NpyTest {
    @TempDir
    Path folder;

    private final Arena arena = Arena.ofConfined();

    @AfterEach
    void close() {
        arena.close();
    }

    private static Path golden(String file) {
        return TestData.path("golden/npy/" + file);
    }

    private Tensor read(String file) throws IOException {
        try (NpyReader reader = NpyFile.open(golden(file))) {
            return reader.readAll(arena);
        }
    }

    private static byte[] bytes(Tensor tensor) {
        return tensor.bytes().toArray(ValueLayout.JAVA_BYTE);
    }

    @ParameterizedTest
    @CsvSource({
        "bool, BOOL",
        "int8, I8",
        "uint8, U8",
        "int16, I16",
        "uint16, U16",
        "int32, I32",
        "uint32, U32",
        "int64, I64",
        "uint64, U64",
        "float16, F16",
        "float32, F32",
        "float64, F64",
        "complex64, C64",
        "complex128, C128",
    })
    void every_element_type_is_read_and_written_as_numpy_does(String numpyName, DType dtype) throws IOException {
        Tensor tensor = read("le_" + numpyName + ".npy");
        assertEquals(new TensorSpec("le_" + numpyName, dtype, Shape.of(3, 2)), tensor.spec());
        Path written = folder.resolve("a.npy");
        NpyFile.write(written, tensor);
        assertArrayEquals(Files.readAllBytes(golden("le_" + numpyName + ".npy")), Files.readAllBytes(written));
        if (dtype.bits() > 8) {
            assertArrayEquals(bytes(tensor), bytes(read("be_" + numpyName + ".npy")), "big-endian");
        }
    }

    @Test
    void values_are_those_that_numpy_wrote() throws IOException {
        assertArrayEquals(new float[] {0, 1, 2, 3, 4, 5}, read("be_float32.npy").toFloats());
        assertArrayEquals(new float[] {0, 1, 2, 3, 4, 5}, read("version2.npy").toFloats());
        assertArrayEquals(new float[] {0, 1, 2, 3, 4, 5}, read("version3.npy").toFloats());
        assertArrayEquals(new float[] {7}, read("scalar.npy").toFloats());
        assertArrayEquals(new byte[] {0, 1, 1, 1, 1, 1}, bytes(read("le_bool.npy")));
        assertArrayEquals(new byte[] {0, 0, 1, 0}, bytes(read("python2.npy")));
        assertArrayEquals(new byte[] {0, 0, 1, 0, 2, 0}, bytes(read("fortran_vector.npy")));
        assertArrayEquals(
                LongStream.range(0, 1234).toArray(), read("vector.npy").toLongs());
    }

    @ParameterizedTest
    @ValueSource(strings = {"scalar", "empty", "vector"})
    void other_shapes_are_written_as_numpy_does(String name) throws IOException {
        Path written = folder.resolve("a.npy");
        NpyFile.write(written, read(name + ".npy"));
        assertArrayEquals(Files.readAllBytes(golden(name + ".npy")), Files.readAllBytes(written));
    }

    @Test
    void an_array_in_fortran_order_is_turned_to_c_order_as_a_whole_only() throws IOException {
        Tensor tensor = read("fortran.npy");
        assertEquals(Shape.of(2, 3, 4), tensor.shape());
        for (int i = 0; i < 24; i++) {
            assertEquals(i, tensor.bytes().get(Tensor.I32_LE, 4L * i));
        }
        try (NpyReader reader = NpyFile.open(golden("fortran.npy"))) {
            InvalidDataException e = assertThrows(InvalidDataException.class, () -> reader.read(1, arena));
            assertTrue(e.fix().contains("ascontiguousarray"), e.getMessage());
        }
    }

    @Test
    void rows_are_read_one_after_the_other() throws IOException {
        try (NpyReader reader = NpyFile.open(golden("vector.npy"))) {
            assertEquals(1234, reader.rows());
            assertArrayEquals(new long[] {0, 1}, reader.read(2, arena).toLongs());
            assertEquals(Shape.of(0), reader.read(0, arena).shape());
            reader.skip(1230);
            assertEquals(1232, reader.rowsRead());
            assertThrows(IllegalStateException.class, () -> reader.readAll(arena));
            assertThrows(IndexOutOfBoundsException.class, () -> reader.read(3, arena));
            assertThrows(IndexOutOfBoundsException.class, () -> reader.read(-1, arena));
            assertArrayEquals(new long[] {1232, 1233}, reader.read(2, arena).toLongs());
            assertThrows(IndexOutOfBoundsException.class, () -> reader.skip(1));
        }
        try (NpyReader reader = NpyFile.open(golden("scalar.npy"))) {
            assertEquals(1, reader.rows());
            assertArrayEquals(new float[] {7}, reader.read(1, arena).toFloats());
        }
    }

    @Test
    void more_bytes_at_once_than_the_limit_are_refused() throws IOException {
        for (long limit : new long[] {8 * 10 - 1, 8 * 10, 8 * 10 + 1}) {
            NpyLimits limits = new NpyLimits(1000, 4, 4, limit);
            try (NpyReader reader = NpyFile.open(golden("vector.npy"), limits)) {
                assertThrows(InvalidDataException.class, () -> reader.readAll(arena));
                if (limit < 80) {
                    assertThrows(InvalidDataException.class, () -> reader.read(10, arena));
                } else {
                    assertEquals(10, reader.read(10, arena).shape().elementCount());
                }
            }
        }
    }

    @Test
    void header_bytes_and_rank_over_the_limit_are_refused() throws IOException {
        // The header of version 1.0 in this file: 128 bytes less 10 in front of the dictionary.
        Path path = golden("le_float32.npy");
        NpyFile.open(path, new NpyLimits(119, 3, 0, 0)).close();
        NpyFile.open(path, new NpyLimits(118, 2, 0, 0)).close();
        assertThrows(InvalidDataException.class, () -> NpyFile.open(path, new NpyLimits(117, 2, 0, 0)));
        assertThrows(InvalidDataException.class, () -> NpyFile.open(path, new NpyLimits(118, 1, 0, 0)));
    }

    static Stream<String> hostile(String suffix) throws IOException {
        try (Stream<Path> files = Files.list(TestData.path("hostile/npy"))) {
            return files
                    .map(f -> f.getFileName().toString())
                    .filter(f -> f.endsWith(suffix))
                    .sorted()
                    .toList()
                    .stream();
        }
    }

    static Stream<String> hostileNpy() throws IOException {
        return hostile(".npy");
    }

    static Stream<String> hostileNpz() throws IOException {
        return hostile(".npz");
    }

    @ParameterizedTest
    @MethodSource("hostileNpy")
    void a_malformed_npy_is_refused(String file) {
        InvalidDataException e = assertThrows(InvalidDataException.class, () -> {
            try (NpyReader reader = NpyFile.open(TestData.path("hostile/npy/" + file))) {
                reader.readAll(arena);
            }
        });
        assertTrue(e.where().endsWith(file), e.where());
    }

    @ParameterizedTest
    @MethodSource("hostileNpz")
    void a_malformed_npz_is_refused(String file) {
        assertThrows(InvalidDataException.class, () -> {
            try (NpzFile npz = NpzFile.open(TestData.path("hostile/npy/" + file))) {
                for (String name : npz.names()) {
                    npz.read(name, arena);
                }
            }
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"stored.npz", "deflated.npz"})
    void arrays_of_an_npz_are_read_by_name(String file) throws IOException {
        try (NpzFile npz = NpzFile.open(golden(file))) {
            assertEquals(List.of("input_ids", "mask", "x/y"), List.copyOf(npz.names()));
            assertEquals(new TensorSpec("input_ids", DType.I64, Shape.of(5, 4)), npz.spec("input_ids"));
            assertArrayEquals(
                    LongStream.range(0, 20).toArray(),
                    npz.read("input_ids", arena).toLongs());
            Tensor rows = npz.read("input_ids", 2, 2, arena);
            assertEquals(Shape.of(2, 4), rows.shape());
            assertArrayEquals(LongStream.range(8, 16).toArray(), rows.toLongs());
            assertArrayEquals(new float[] {0, 1}, npz.read("x/y", arena).toFloats());
            InvalidDataException e = assertThrows(InvalidDataException.class, () -> npz.spec("ids"));
            assertTrue(e.what().contains("input_ids"), e.what());
        }
    }

    @Test
    void a_written_npz_is_read_back_and_the_same_every_time() throws IOException {
        Tensor a = Tensor.ofFloats(arena, "a", Shape.of(2, 1), 1f, -2f);
        Tensor b = Tensor.ofLongs(arena, "b", Shape.SCALAR, 7);
        Tensor large = Tensor.allocate(arena, new TensorSpec("c", DType.U8, Shape.of(200_000)));
        large.bytes().fill((byte) 5);
        for (boolean deflated : new boolean[] {false, true}) {
            byte[][] files = new byte[2][];
            for (int i = 0; i < 2; i++) {
                Path path = folder.resolve("d.npz");
                try (NpzWriter writer = deflated ? NpzWriter.deflated(path) : NpzWriter.stored(path)) {
                    writer.add(a);
                    writer.add(b);
                    writer.add(large);
                    assertThrows(IllegalArgumentException.class, () -> writer.add(a));
                    writer.commit();
                }
                files[i] = Files.readAllBytes(path);
                try (NpzFile npz = NpzFile.open(path)) {
                    assertEquals(List.of("a", "b", "c"), List.copyOf(npz.names()));
                    assertArrayEquals(a.toFloats(), npz.read("a", arena).toFloats());
                    assertArrayEquals(b.toLongs(), npz.read("b", arena).toLongs());
                    assertEquals(
                            -1,
                            MemorySegment.mismatch(
                                    large.bytes(),
                                    0,
                                    200_000,
                                    npz.read("c", arena).bytes(),
                                    0,
                                    200_000));
                }
            }
            assertArrayEquals(files[0], files[1]);
            assertEquals(deflated, files[0].length < 200_000);
        }
    }

    @Test
    void what_is_not_committed_is_not_there() throws IOException {
        Path path = folder.resolve("d.npz");
        try (NpzWriter writer = NpzWriter.stored(path)) {
            writer.add(Tensor.ofLongs(arena, "b", Shape.SCALAR, 7));
        }
        try (Stream<Path> files = Files.list(folder)) {
            assertEquals(0, files.count());
        }
        assertFalse(Files.exists(path));
        assertThrows(NoSuchFileException.class, () -> NpzFile.open(path));
    }

    @Test
    void element_types_that_numpy_lacks_are_refused() {
        for (DType dtype : List.of(DType.BF16, DType.F8_E4M3FN, DType.I4)) {
            Tensor tensor = Tensor.allocate(arena, new TensorSpec("t", dtype, Shape.of(2)));
            assertThrows(UnsupportedModelException.class, () -> NpyFile.write(folder.resolve("t.npy"), tensor));
        }
    }
}
