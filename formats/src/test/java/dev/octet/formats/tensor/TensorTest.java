package dev.octet.formats.tensor;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TensorTest {
    @Test
    void a_shape_counts_its_elements() {
        assertEquals(1, Shape.SCALAR.elementCount());
        assertEquals(0, Shape.SCALAR.rank());
        assertEquals(Shape.SCALAR, Shape.of());
        assertEquals(24, Shape.of(2, 3, 4).elementCount());
        assertEquals(0, Shape.of(2, 0, 4).elementCount());
        assertEquals("[2, 3]", Shape.of(2, 3).toString());
        assertEquals(Shape.of(2, 3), Shape.of(2, 3));
        assertEquals(Shape.of(2, 3).hashCode(), Shape.of(2, 3).hashCode());
    }

    @Test
    void negative_axes_count_from_the_end() {
        Shape shape = Shape.of(2, 3, 4);
        assertEquals(4, shape.dim(-1));
        assertEquals(2, shape.dim(-3));
        assertEquals(3, shape.dim(1));
        assertThrows(IndexOutOfBoundsException.class, () -> shape.dim(3));
        assertThrows(IndexOutOfBoundsException.class, () -> shape.dim(-4));
    }

    @Test
    void a_shape_that_cannot_be_counted_is_refused() {
        assertThrows(IllegalArgumentException.class, () -> Shape.of(2, -1));
        assertThrows(ArithmeticException.class, () -> Shape.of(1L << 32, 1L << 31));
        assertEquals(1L << 62, Shape.of(1L << 31, 1L << 31).elementCount());
        assertEquals(Long.MAX_VALUE, Shape.of(Long.MAX_VALUE).elementCount());
        // Multiplied in order, as other readers do: a zero saves what comes after it, not what comes before.
        assertEquals(0, Shape.of(0, Long.MAX_VALUE, Long.MAX_VALUE).elementCount());
        assertThrows(ArithmeticException.class, () -> Shape.of(Long.MAX_VALUE, 2, 0));
    }

    @Test
    void a_shape_keeps_its_own_dimensions() {
        long[] dims = {2, 3};
        Shape shape = Shape.of(dims);
        dims[0] = 9;
        shape.toArray()[1] = 9;
        assertEquals(Shape.of(2, 3), shape);
    }

    @ParameterizedTest
    @CsvSource({
        "F32, 3, 12", "BF16, 3, 6", "C64, 3, 24", "C128, 3, 48", "BOOL, 3, 3", "F8_E4M3FN, 3, 3", "F32, 0, 0",
        // An incomplete last byte counts whole, as ONNX packs: 4-bit types two to a byte, 2-bit types four to a byte.
        "F4_E2M1, 0, 0", "F4_E2M1, 1, 1", "F4_E2M1, 2, 1", "F4_E2M1, 3, 2", "U4, 7, 4", "I4, 8, 4", "U2, 1, 1",
        "I2, 4, 1", "U2, 5, 2", "F6_E2M3, 4, 3", "F6_E3M2, 8, 6",
    })
    void a_tensor_takes_whole_bytes(DType dtype, long elements, long bytes) {
        assertEquals(bytes, new TensorSpec("t", dtype, Shape.of(elements)).byteSize());
    }

    @Test
    void six_bit_elements_that_do_not_fill_bytes_have_no_layout() {
        for (long n = 1; n < 4; n++) {
            Shape shape = Shape.of(n);
            assertThrows(IllegalArgumentException.class, () -> new TensorSpec("t", DType.F6_E2M3, shape));
        }
    }

    @Test
    void the_bits_of_a_tensor_fit_in_a_long() {
        assertEquals((1L << 60) - 1, new TensorSpec("t", DType.U8, Shape.of((1L << 60) - 1)).byteSize());
        assertThrows(ArithmeticException.class, () -> new TensorSpec("t", DType.U8, Shape.of(1L << 60)));
        assertEquals(1L << 60, new TensorSpec("t", DType.F4_E2M1, Shape.of((1L << 61) - 1)).byteSize());
        assertThrows(IllegalArgumentException.class, () -> new TensorSpec("t", DType.STRING, Shape.SCALAR));
    }

    @Test
    void a_tensor_has_exactly_the_bytes_of_its_spec() {
        TensorSpec spec = new TensorSpec("t", DType.F32, Shape.of(2));
        assertThrows(IllegalArgumentException.class, () -> new Tensor(spec, MemorySegment.ofArray(new byte[7])));
        assertThrows(IllegalArgumentException.class, () -> new Tensor(spec, MemorySegment.ofArray(new byte[9])));
        Tensor tensor = new Tensor(spec, MemorySegment.ofArray(new byte[8]));
        assertEquals("u", tensor.withName("u").name());
        assertEquals("t F32 [2]", tensor.spec().toString());
        assertThrows(IllegalArgumentException.class, tensor::toLongs);
    }

    @Test
    void values_are_little_endian_and_need_no_alignment() {
        try (Arena arena = Arena.ofConfined()) {
            Tensor floats = Tensor.ofFloats(arena, "f", Shape.of(2), 1f, -2.5f);
            assertArrayEquals(
                    new byte[] {0, 0, (byte) 0x80, 0x3F, 0, 0, 0x20, (byte) 0xC0},
                    floats.bytes().toArray(ValueLayout.JAVA_BYTE));
            MemorySegment shifted = arena.allocate(9).asSlice(1);
            shifted.copyFrom(floats.bytes());
            assertArrayEquals(new float[] {1f, -2.5f}, new Tensor(floats.spec(), shifted).toFloats());
            assertArrayEquals(
                    new long[] {-1, 7},
                    Tensor.ofLongs(arena, "l", Shape.of(2), -1, 7).toLongs());
            assertThrows(IllegalArgumentException.class, () -> Tensor.ofFloats(arena, "f", Shape.of(2), 1f));
            assertEquals(0, Tensor.allocate(arena, floats.spec()).bytes().address() % 64);
        }
    }

    @Test
    void a_view_dies_with_its_arena() {
        Tensor tensor;
        try (Arena arena = Arena.ofConfined()) {
            tensor = Tensor.ofFloats(arena, "f", Shape.SCALAR, 1f);
        }
        assertThrows(IllegalStateException.class, tensor::toFloats);
    }

    @ParameterizedTest
    @EnumSource
    void every_type_is_found_by_its_names(DType dtype) {
        assertEquals(Optional.of(dtype), DType.ofOnnxId(dtype.onnxId()));
        dtype.safetensorsName().ifPresent(name -> assertEquals(Optional.of(dtype), DType.ofSafetensorsName(name)));
    }

    @Test
    void names_and_ids_are_those_of_the_formats() {
        // safetensors tensor.rs, enum Dtype, in its order
        assertEquals(
                List.of(
                        "BOOL",
                        "F4",
                        "F6_E2M3",
                        "F6_E3M2",
                        "U8",
                        "I8",
                        "F8_E5M2",
                        "F8_E4M3",
                        "F8_E8M0",
                        "F8_E4M3FNUZ",
                        "F8_E5M2FNUZ",
                        "I16",
                        "U16",
                        "F16",
                        "BF16",
                        "I32",
                        "U32",
                        "F32",
                        "C64",
                        "F64",
                        "I64",
                        "U64"),
                Arrays.stream(DType.values())
                        .flatMap(d -> d.safetensorsName().stream())
                        .toList());
        Set<Integer> ids = new HashSet<>();
        Arrays.stream(DType.values()).forEach(d -> assertTrue(ids.add(d.onnxId()), d + " has an id of its own"));
        assertEquals(DType.values().length, ids.size());
        assertEquals(Optional.empty(), DType.ofOnnxId(0));
        assertEquals(Optional.empty(), DType.ofSafetensorsName("F8_E4M3FN"));
    }

    @Test
    void five_types_are_eight_bit_floats() {
        assertEquals(5, Arrays.stream(DType.values()).filter(DType::isFloat8).count());
        assertFalse(DType.U8.isFloat8());
        assertFalse(DType.C64.isFloat());
        assertTrue(DType.BF16.isFloat());
    }

    @Test
    void a_matrix_turned_over_is_the_transpose_of_itself_and_of_nothing_else() {
        try (Arena arena = Arena.ofConfined()) {
            for (DType type : List.of(DType.F32, DType.BF16, DType.U8, DType.I64)) {
                Tensor m = Tensor.allocate(arena, new TensorSpec("m", type, Shape.of(3, 5)));
                long width = type.bits() / 8;
                for (int i = 0; i < m.bytes().byteSize(); i++) {
                    m.bytes().set(ValueLayout.JAVA_BYTE, i, (byte) (7 * i + 1));
                }
                Tensor turned = m.transposed(arena);
                assertEquals(Shape.of(5, 3), turned.shape());
                assertEquals(
                        m.bytes().get(ValueLayout.JAVA_BYTE, (1 * 5 + 4) * width),
                        turned.bytes().get(ValueLayout.JAVA_BYTE, (4 * 3 + 1) * width));
                assertTrue(m.isTransposeOf(turned) && turned.isTransposeOf(m));
                assertFalse(m.isTransposeOf(m));
                assertFalse(m.isUniform());
                long last = turned.bytes().byteSize() - 1;
                byte b = turned.bytes().get(ValueLayout.JAVA_BYTE, last);
                turned.bytes().set(ValueLayout.JAVA_BYTE, last, (byte) (b ^ 1));
                assertFalse(m.isTransposeOf(turned));
                m.bytes().fill((byte) 3);
                assertTrue(m.isUniform());
            }
        }
    }

    @Test
    void what_is_no_matrix_of_whole_bytes_cannot_be_turned_over() {
        try (Arena arena = Arena.ofConfined()) {
            Tensor row = Tensor.ofFloats(arena, "r", Shape.of(2), 1, 2);
            assertFalse(row.isTransposeOf(row));
            assertThrows(IllegalArgumentException.class, () -> row.transposed(arena));
        }
    }
}
