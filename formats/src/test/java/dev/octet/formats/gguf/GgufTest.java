package dev.octet.formats.gguf;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.TestData;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Objects;
import java.util.SequencedMap;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GgufTest {
    private static final Path FILE = TestData.path("golden/gguf/decode.gguf");

    @TempDir
    Path folder;

    @Test
    void every_kind_of_value_is_read_as_the_gguf_package_reads_it() throws IOException {
        JsonNode expected = new ObjectMapper()
                .readTree(TestData.path("golden/gguf/keys.json").toFile());
        try (Arena arena = Arena.ofConfined()) {
            SequencedMap<String, GgufValue> read =
                    GgufFile.open(FILE, arena).header().metadata();
            assertEquals(expected.size(), read.size());
            expected.properties().forEach(e -> {
                assertEquals(e.getValue().path("value").asText(), text(read, e.getKey()), e.getKey());
            });
        }
    }

    private static String text(SequencedMap<String, GgufValue> read, String key) {
        return switch (Objects.requireNonNull(read.get(key))) {
            case GgufValue.Whole w when w.kind() == GgufKind.U64 -> Long.toUnsignedString(w.number());
            case GgufValue.Whole w -> Long.toString(w.number());
            case GgufValue.Real r -> Double.toString(r.number());
            case GgufValue.Truth t -> Boolean.toString(t.value());
            case GgufValue.Text t -> t.text();
            case GgufValue.Sequence s -> {
                assertFalse(s.values().isEmpty(), key);
                yield ""; // as Jackson has an array
            }
        };
    }

    @Test
    void arrays_keep_their_order() throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            GgufHeader header = GgufFile.open(FILE, arena).header();
            assertEquals(
                    GgufValue.ofTexts(List.of("a", "", "ß")),
                    header.value("test.texts").orElseThrow());
            assertEquals(
                    List.of(1L, -2L, 3L),
                    ((GgufValue.Sequence) header.value("test.numbers").orElseThrow())
                            .values().stream()
                                    .map(v -> ((GgufValue.Whole) v).number())
                                    .toList());
        }
    }

    @Test
    void a_file_of_the_gguf_package_written_again_has_the_same_bytes() throws IOException {
        Path copy = folder.resolve("copy.gguf");
        try (Arena arena = Arena.ofConfined()) {
            GgufFile file = GgufFile.open(FILE, arena);
            List<GgufTensor> tensors = file.header().entries().stream()
                    .map(GgufHeader.Entry::tensor)
                    .toList();
            GgufWriter.write(copy, file.header().metadata(), tensors, (tensor, sink) -> {
                for (GgufHeader.Entry e : file.header().entries()) {
                    if (e.tensor().equals(tensor)) {
                        sink.write(file.bytes(e));
                    }
                }
            });
        }
        assertArrayEquals(Files.readAllBytes(FILE), Files.readAllBytes(copy));
    }

    @Test
    void shapes_have_the_outermost_dimension_first() throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            for (GgufHeader.Entry e : GgufFile.open(FILE, arena).header().entries()) {
                assertEquals(Shape.of(2, 512), e.tensor().shape());
                assertEquals(GgufType.valueOf(e.tensor().name()), e.tensor().type());
            }
        }
    }

    @Test
    void a_file_cut_off_anywhere_is_refused() throws IOException {
        byte[] whole = Files.readAllBytes(FILE);
        for (int length = 0; length < whole.length; length += length < 3000 ? 1 : 37) {
            MemorySegment cut = MemorySegment.ofArray(whole).asSlice(0, length);
            int at = length;
            OctetException e = assertThrows(MalformedModelException.class, () -> parse(cut), () -> "cut at " + at);
            assertTrue(e.where().contains("byte"), e.where());
        }
    }

    @Test
    void a_damaged_byte_of_the_header_never_ends_in_another_exception() throws IOException {
        byte[] whole = Files.readAllBytes(FILE);
        int header;
        try (Arena arena = Arena.ofConfined()) {
            header = (int) GgufFile.open(FILE, arena).header().dataStart();
        }
        int refused = 0;
        for (int at = 0; at < header; at++) {
            for (int bit = 0; bit < 8; bit++) {
                byte[] damaged = whole.clone();
                damaged[at] ^= (byte) (1 << bit);
                try {
                    parse(MemorySegment.ofArray(damaged));
                } catch (MalformedModelException | UnsupportedModelException e) {
                    refused++;
                }
            }
        }
        assertTrue(refused > header, refused + " of " + header * 8 + " damages were noticed");
    }

    @Test
    void counts_that_the_file_has_no_room_for_are_refused_before_anything_is_allocated() {
        MemorySegment file = begun();
        file.set(Tensor.I64_LE, 8, Long.MAX_VALUE);
        assertTrue(assertThrows(MalformedModelException.class, () -> parse(file))
                .what()
                .contains("claims 9223372036854775807 tensors"));
        file.set(Tensor.I64_LE, 8, 0);
        file.set(Tensor.I64_LE, 16, 1 << 15);
        assertTrue(assertThrows(MalformedModelException.class, () -> parse(file))
                .what()
                .contains("claims 32768 keys, 40 bytes are left"));
    }

    @Test
    void arrays_nested_without_end_are_refused() {
        byte[] bytes = new byte[4096];
        MemorySegment file = MemorySegment.ofArray(bytes);
        MemorySegment.copy(begun(), 0, file, 0, 24);
        file.set(Tensor.I64_LE, 16, 1);
        file.set(Tensor.I64_LE, 24, 1);
        file.set(ValueLayout.JAVA_BYTE, 32, (byte) 'k');
        file.set(Tensor.I32_LE, 33, GgufKind.ARRAY.id());
        for (int at = 37; at + 12 < bytes.length; at += 12) {
            file.set(Tensor.I32_LE, at, GgufKind.ARRAY.id());
            file.set(Tensor.I64_LE, at + 4, 1);
        }
        assertTrue(assertThrows(MalformedModelException.class, () -> parse(file))
                .what()
                .contains("nests arrays deeper than 4"));
    }

    @Test
    void other_versions_and_byte_orders_are_named() {
        MemorySegment file = begun();
        file.set(Tensor.I32_LE, 4, 1);
        assertEquals(
                "GGUF version 1",
                assertThrows(UnsupportedModelException.class, () -> parse(file)).what());
        file.set(Tensor.I32_LE, 4, Integer.reverseBytes(3));
        assertEquals(
                "the file is big-endian",
                assertThrows(UnsupportedModelException.class, () -> parse(file)).what());
    }

    @Test
    void tensors_that_overlap_are_refused() throws IOException {
        SequencedMap<String, GgufValue> none = new LinkedHashMap<>();
        Path path = folder.resolve("two.gguf");
        List<GgufTensor> two = List.of(
                new GgufTensor("a", Shape.of(16), GgufType.F32), new GgufTensor("b", Shape.of(16), GgufType.F32));
        GgufWriter.write(path, none, two, (t, sink) -> sink.write(MemorySegment.ofArray(new byte[64])));
        byte[] bytes = Files.readAllBytes(path);
        assertEquals(2, parse(MemorySegment.ofArray(bytes)).entries().size());
        MemorySegment file = MemorySegment.ofArray(bytes);
        // header 24, then name 9, rank 4, dimension 8, type 4, offset 8 of each
        file.set(Tensor.I64_LE, 24 + 33 + 25, 32);
        assertTrue(assertThrows(MalformedModelException.class, () -> parse(file))
                .what()
                .contains("overlaps"));
        file.set(Tensor.I64_LE, 24 + 33 + 25, 33);
        assertTrue(assertThrows(MalformedModelException.class, () -> parse(file))
                .what()
                .contains("not at a multiple of 32"));
    }

    @Test
    void names_that_ggml_cannot_read_are_not_written() {
        GgufTensor tensor = new GgufTensor("n".repeat(64), Shape.of(1), GgufType.F32);
        Path path = folder.resolve("long.gguf");
        assertThrows(
                UnsupportedModelException.class,
                () -> GgufWriter.write(path, new LinkedHashMap<>(), List.of(tensor), (t, sink) -> {}));
        assertFalse(Files.exists(path));
    }

    @Test
    void arrays_and_texts_have_a_limit_for_the_whole_file() throws IOException {
        SequencedMap<String, GgufValue> keys = new LinkedHashMap<>();
        GgufValue inner = GgufValue.ofTexts(List.of("ab", "c"));
        keys.put("nested", new GgufValue.Sequence(GgufKind.ARRAY, List.of(inner, inner)));
        keys.put("more", inner);
        Path path = folder.resolve("arrays.gguf");
        GgufWriter.write(path, keys, List.of(), (t, sink) -> {});
        MemorySegment file = MemorySegment.ofArray(Files.readAllBytes(path));
        // 2 arrays, then 2 elements in each of the three
        assertEquals(
                2,
                GgufHeader.parse(file, "file", new GgufLimits(1, 2, 4, 9, 8, 9))
                        .metadata()
                        .size());
        assertEquals(
                "the arrays have more than 7 elements",
                assertThrows(
                                MalformedModelException.class,
                                () -> GgufHeader.parse(file, "file", new GgufLimits(1, 2, 4, 9, 7, 9)))
                        .what());
        assertEquals(
                "the texts have more than 8 bytes",
                assertThrows(
                                MalformedModelException.class,
                                () -> GgufHeader.parse(file, "file", new GgufLimits(1, 2, 4, 9, 8, 8)))
                        .what());
    }

    @Test
    void the_alignment_is_not_the_callers_to_choose() {
        SequencedMap<String, GgufValue> keys = new LinkedHashMap<>();
        keys.put("general.alignment", GgufValue.of(64));
        Path path = folder.resolve("aligned.gguf");
        assertThrows(IllegalArgumentException.class, () -> GgufWriter.write(path, keys, List.of(), (t, sink) -> {}));
        assertFalse(Files.exists(path));
    }

    @Test
    void tensors_of_five_dimensions_or_torn_blocks_cannot_be_made() {
        assertThrows(IllegalArgumentException.class, () -> new GgufTensor("t", Shape.of(1, 1, 1, 1, 32), GgufType.F32));
        assertThrows(IllegalArgumentException.class, () -> new GgufTensor("t", Shape.of(32, 16), GgufType.Q8_0));
        assertThrows(IllegalArgumentException.class, () -> new GgufTensor("t", Shape.SCALAR, GgufType.Q8_0));
        assertEquals(34, new GgufTensor("t", Shape.of(1, 32), GgufType.Q8_0).byteSize());
    }

    @Test
    void a_tensor_of_torn_blocks_in_a_file_is_named() throws IOException {
        Path path = folder.resolve("torn.gguf");
        GgufTensor tensor = new GgufTensor("a", Shape.of(64), GgufType.Q8_0);
        GgufWriter.write(
                path,
                new LinkedHashMap<>(),
                List.of(tensor),
                (t, sink) -> sink.write(MemorySegment.ofArray(new byte[68])));
        MemorySegment file = MemorySegment.ofArray(Files.readAllBytes(path));
        file.set(Tensor.I64_LE, 24 + 13, 48);
        assertEquals(
                "tensor 'a' has rows of 48 elements, Q8_0 has blocks of 32",
                assertThrows(MalformedModelException.class, () -> parse(file)).what());
    }

    @Test
    void blocks_of_q8_1_have_two_halves_and_32_bytes() {
        assertEquals(36, GgufType.Q8_1.bytes(32)); // ggml-common.h, block_q8_1
    }

    private static MemorySegment begun() {
        MemorySegment file = MemorySegment.ofArray(new byte[64]);
        MemorySegment.copy(GgufHeader.MAGIC, 0, file, ValueLayout.JAVA_BYTE, 0, 4);
        file.set(Tensor.I32_LE, 4, 3);
        return file;
    }

    private static GgufHeader parse(MemorySegment file) {
        return GgufHeader.parse(file, "file.gguf", GgufLimits.DEFAULT);
    }
}
