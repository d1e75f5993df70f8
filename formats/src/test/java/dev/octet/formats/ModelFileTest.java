package dev.octet.formats;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.model.Model;
import dev.octet.formats.safetensors.SafetensorsHeader;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ModelFileTest {
    private static final List<DType> TYPES = Arrays.stream(DType.values())
            .filter(d -> d.safetensorsName().isPresent() && d.bits() >= 8)
            .toList();

    @TempDir
    Path folder;

    static IntStream seeds() {
        return IntStream.range(0, 30);
    }

    /** Up to 20 tensors of random type, shape (zeros and scalars too), name and content. */
    private static Model randomModel(SplittableRandom random, Arena arena) {
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        for (int i = random.nextInt(20); i > 0; i--) {
            long[] dims = random.longs(random.nextInt(4), 0, 6).toArray();
            DType dtype = TYPES.get(random.nextInt(TYPES.size()));
            StringBuilder name = new StringBuilder("t" + i);
            random.ints(random.nextInt(5), 0, 0xD800).forEach(name::appendCodePoint);
            Tensor tensor = Tensor.allocate(arena, new TensorSpec(name.toString(), dtype, Shape.of(dims)));
            byte[] bytes = new byte[(int) tensor.bytes().byteSize()];
            random.nextBytes(bytes);
            tensor.bytes().copyFrom(MemorySegment.ofArray(bytes));
            tensors.put(tensor.name(), tensor);
        }
        return Model.of(tensors, random.nextBoolean() ? Map.of() : Map.of("format", "pt", "b", "\"", "a", "\u4e2d"));
    }

    @ParameterizedTest(name = "seed {0}")
    @MethodSource("seeds")
    void a_random_model_comes_back_as_it_was_saved(int seed) throws IOException {
        Path path = folder.resolve("m.safetensors");
        try (Arena arena = Arena.ofConfined()) {
            Model model = randomModel(new SplittableRandom(seed), arena);
            ModelFile.save(model, path);
            try (ModelFile file = ModelFile.open(path)) {
                assertEquals("safetensors", file.format().name());
                assertEquals(path, file.path());
                assertEquals(model.metadata(), file.model().metadata());
                assertEquals(model.tensors().keySet(), file.model().tensors().keySet());
                model.tensors().forEach((name, tensor) -> {
                    Tensor read = file.model().tensor(name);
                    assertEquals(tensor.spec(), read.spec());
                    assertArrayEquals(
                            tensor.bytes().toArray(ValueLayout.JAVA_BYTE),
                            read.bytes().toArray(ValueLayout.JAVA_BYTE));
                });
            }
            byte[] first = Files.readAllBytes(path);
            try (ModelFile file = ModelFile.open(path)) {
                ModelFile.save(file.model(), path); // over the file it is mapped from
            }
            assertArrayEquals(first, Files.readAllBytes(path));
        }
    }

    @Test
    void a_folder_is_saved_and_opened() throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            Tensor tensor = Tensor.ofFloats(arena, "a", Shape.of(1), 2f);
            ModelFile.save(Model.of(Map.of("a", tensor), Map.of()), folder);
        }
        assertTrue(Files.exists(folder.resolve("model.safetensors")));
        try (ModelFile file = ModelFile.open(folder)) {
            assertArrayEquals(new float[] {2f}, file.model().tensor("a").toFloats());
        }
    }

    @Test
    void tensors_die_when_the_file_is_closed() throws IOException {
        ModelFile file = ModelFile.open(TestData.path("golden/safetensors/scalar.safetensors"));
        Tensor tensor = file.model().tensor("s");
        file.close();
        assertThrows(IllegalStateException.class, tensor::toFloats);
    }

    @Test
    void a_file_over_two_gigabytes_is_read_to_its_last_byte() throws IOException {
        Path path = folder.resolve("large.safetensors");
        long elements = 3L << 30;
        byte[] header = SafetensorsHeader.layout(
                        List.of(
                                new TensorSpec("large", DType.U8, Shape.of(elements)),
                                new TensorSpec("z", DType.U8, Shape.of(1))),
                        Map.of())
                .toBytes();
        try (FileChannel channel = FileChannel.open(
                path, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE, StandardOpenOption.SPARSE)) {
            channel.write(ByteBuffer.wrap(header));
            channel.write(ByteBuffer.wrap(new byte[] {1, 2}), header.length + elements - 1);
        }
        try (ModelFile file = ModelFile.open(path)) {
            assertEquals(1, file.model().tensor("large").bytes().get(ValueLayout.JAVA_BYTE, elements - 1));
            assertEquals(2, file.model().tensor("z").bytes().get(ValueLayout.JAVA_BYTE, 0));
        }
    }

    @Test
    void a_missing_file_is_an_input_output_error() {
        assertThrows(NoSuchFileException.class, () -> ModelFile.open(folder.resolve("no.safetensors")));
    }

    @ParameterizedTest
    @CsvSource({
        "'', the file is empty",
        "'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n', Git LFS pointer",
        "'PK\u0003\u0004 and so on', zip archive",
        "'\u0080\u0002}q\u0000.', Python pickle",
        "'GGUF\u0003\u0000\u0000\u0000', the file is GGUF",
        "'{\u0000\u0000\u0000\"', the file has none of Octet",
        "'{\"\u00ff\": \u00ff', the file has none of Octet",
        "'{\"weights\": 1}', the file has none of Octet",
        "'just some text', the file has none of Octet",
        "'x', the file has none of Octet",
    })
    void a_file_that_is_no_model_is_called_what_it_is(String content, String what) throws IOException {
        Path path = folder.resolve("model.bin");
        Files.write(path, content.getBytes(StandardCharsets.ISO_8859_1));
        UnsupportedModelException e = assertThrows(UnsupportedModelException.class, () -> ModelFile.open(path));
        assertTrue(e.what().contains(what), e.getMessage());
        assertEquals(path.toString(), e.where());
    }

    @Test
    void a_damaged_file_is_judged_by_the_format_of_its_name() throws IOException {
        Path path = folder.resolve("model.safetensors");
        Files.write(path, new byte[] {1, 2, 3});
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> ModelFile.open(path));
        assertEquals("HeaderTooSmall", e.rule().orElseThrow());
    }

    @Test
    void a_folder_without_a_model_is_refused() throws IOException {
        Files.writeString(folder.resolve("config.json"), "{}");
        UnsupportedModelException e = assertThrows(UnsupportedModelException.class, () -> ModelFile.open(folder));
        assertTrue(e.what().contains("no model in this folder"), e.getMessage());
    }

    @Test
    void a_name_that_fits_no_format_is_not_saved() {
        Model model = Model.of(Map.of(), Map.of());
        UnsupportedModelException e =
                assertThrows(UnsupportedModelException.class, () -> ModelFile.save(model, folder.resolve("m.bin")));
        assertTrue(e.fix().contains("safetensors"), e.getMessage());
    }
}
