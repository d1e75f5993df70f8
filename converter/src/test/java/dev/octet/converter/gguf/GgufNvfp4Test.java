package dev.octet.converter.gguf;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.checkpoint.StreamOptions;
import dev.octet.converter.checkpoint.WeightReader;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.gguf.GgufFile;
import dev.octet.formats.gguf.GgufHeader;
import dev.octet.formats.gguf.GgufTensor;
import dev.octet.formats.gguf.GgufType;
import dev.octet.formats.gguf.GgufWriter;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.ggml.Nvfp4Blocks;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.Layouts;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Checkpoints that are in NVFP4 already: their codes and scales in GGUF files, see testdata/make/gguf_nvfp4.py. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GgufNvfp4Test {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path COMPRESSED_TENSORS = TESTDATA.resolve("checkpoints/foreign/ct-nvfp4");
    private static final String DOWN = "model.layers.0.mlp.down_proj.weight";

    @TempDir
    Path folder;

    private Path file() {
        return folder.resolve("model.gguf");
    }

    private GgufExport.Result write(Path model) throws IOException {
        return write(model, GgufType.BF16, GgufExport.Nvfp4.KEPT);
    }

    private GgufExport.Result write(Path model, GgufType type, GgufExport.Nvfp4 nvfp4) throws IOException {
        try (CheckpointConverter opened = CheckpointConverter.open(model)) {
            return GgufExport.of(opened.checkpoint(), opened.stored(), type, nvfp4)
                    .write(file(), GgufExport.Tokenizer.LEFT_OUT, StreamOptions.defaults());
        }
    }

    private Map<String, byte[]> contents(GgufType type) throws IOException {
        Map<String, byte[]> contents = new LinkedHashMap<>();
        try (Arena arena = Arena.ofConfined()) {
            GgufFile file = GgufFile.open(file(), arena);
            for (GgufHeader.Entry e : file.header().entries()) {
                if (e.tensor().type() == type) {
                    contents.put(e.tensor().name(), file.bytes(e).toArray(ValueLayout.JAVA_BYTE));
                }
            }
        }
        return contents;
    }

    private static float f32(byte[] bytes) {
        return MemorySegment.ofArray(bytes).get(Tensor.F32_LE, 0);
    }

    /** The same model in ModelOpt's layout with upper scales of their own, then changed. */
    private Path modelOpt(Consumer<Map<String, Tensor>> change, Consumer<ObjectNode> changeConfig) throws IOException {
        Path made = Files.createDirectories(folder.resolve("modelopt"));
        try (ModelFile model = ModelFile.open(COMPRESSED_TENSORS);
                Arena arena = Arena.ofConfined()) {
            Map<String, Tensor> tensors = new LinkedHashMap<>();
            int uppers = 0;
            for (Tensor t : model.model().tensors().values()) {
                String name = t.name();
                if (name.endsWith("_packed")) {
                    tensors.put(name.replace("_packed", ""), t.withName(name.replace("_packed", "")));
                } else if (name.endsWith("weight_global_scale") || name.endsWith("input_global_scale")) {
                    String other = name.replace("weight_global_scale", "weight_scale_2")
                            .replace("input_global_scale", "input_scale");
                    // any F32, of which most have no exact inverse
                    tensors.put(other, Tensor.ofFloats(arena, other, Shape.SCALAR, 0.0037f / ++uppers));
                } else {
                    tensors.put(name, t);
                }
            }
            change.accept(tensors);
            SafetensorsWriter.write(made.resolve("model.safetensors"), tensors, Map.of("format", "pt"));
        }
        ObjectNode config = ModelConfig.read(COMPRESSED_TENSORS).orElseThrow();
        config.putObject("quantization_config").put("quant_method", "modelopt").put("quant_algo", "NVFP4");
        changeConfig.accept(config);
        ModelConfig.write(made.resolve(ModelConfig.FILE_NAME), config);
        return made;
    }

    private Path modelOpt() throws IOException {
        return modelOpt(t -> {}, c -> {});
    }

    private static void change(Map<String, Tensor> tensors, String name, Consumer<MemorySegment> change) {
        Tensor t = Objects.requireNonNull(tensors.get(name), name);
        MemorySegment copy = Arena.ofAuto().allocate(t.bytes().byteSize(), 64).copyFrom(t.bytes());
        change.accept(copy);
        tensors.put(name, new Tensor(t.spec(), copy));
    }

    @Test
    void blocks_and_scales_of_compressed_tensors_are_those_of_the_oracle()
            throws IOException, NoSuchAlgorithmException {
        write(COMPRESSED_TENSORS);
        JsonNode expected = new ObjectMapper()
                .readTree(TESTDATA.resolve("golden/gguf/nvfp4.json").toFile());
        Map<String, byte[]> blocks = contents(GgufType.NVFP4);
        Map<String, byte[]> floats = contents(GgufType.F32);
        assertEquals(expected.size(), blocks.size());
        for (Map.Entry<String, JsonNode> e : expected.properties()) {
            byte[] made = Objects.requireNonNull(blocks.get(e.getKey() + ".weight"));
            String sum = HexFormat.of()
                    .formatHex(MessageDigest.getInstance("SHA-256").digest(made));
            assertEquals(e.getValue().path("sha256").asText(), sum, e.getKey());
            for (String scale : List.of("scale", "input_scale")) {
                byte[] one = Objects.requireNonNull(floats.get(e.getKey() + "." + scale));
                assertEquals((float) e.getValue().path(scale).asDouble(), f32(one), e.getKey());
            }
        }
    }

    /** Row by row: those of q and k are in another order. */
    @Test
    void codes_are_equal_nibble_by_nibble_and_scales_byte_by_byte() throws IOException {
        Path model = modelOpt();
        write(model);
        byte[] blocks = Objects.requireNonNull(contents(GgufType.NVFP4).get("blk.0.ffn_down.weight"));
        try (ModelFile source = ModelFile.open(model)) {
            byte[] codes = source.model().tensor(DOWN).bytes().toArray(ValueLayout.JAVA_BYTE);
            byte[] scales = source.model().tensor(DOWN + "_scale").bytes().toArray(ValueLayout.JAVA_BYTE);
            byte[] codesBack = new byte[codes.length];
            byte[] scalesBack = new byte[scales.length];
            Nvfp4Blocks.unpack(
                    MemorySegment.ofArray(blocks),
                    blocks.length / 36,
                    MemorySegment.ofArray(codesBack),
                    MemorySegment.ofArray(scalesBack));
            assertArrayEquals(codes, codesBack);
            assertArrayEquals(scales, scalesBack);
        }
    }

    private static Map<String, float[]> values(Path model) throws IOException {
        Map<String, float[]> values = new LinkedHashMap<>();
        try (CheckpointConverter opened = CheckpointConverter.open(model);
                Arena arena = Arena.ofConfined()) {
            WeightReader reader = WeightReader.of(opened.checkpoint(), opened.stored());
            List<String> names = Stream.concat(
                            opened.stored().plain().keySet().stream(), opened.stored().weights().keySet().stream())
                    .toList();
            for (String name : names) {
                Shape shape = reader.shape(name);
                MemorySegment floats = arena.allocate(shape.elementCount() * Float.BYTES, 64);
                reader.read(name, 0, shape.rank() == 1 ? 1 : shape.dim(0), floats);
                float[] all = floats.toArray(Tensor.F32_LE);
                for (int i = 0; i < all.length; i++) {
                    all[i] += 0f; // -0 becomes 0: a code has a sign, ggml's zero has none
                }
                values.put(name, all);
            }
        }
        return values;
    }

    private void assertSameValues(Path model) throws IOException {
        Path back = folder.resolve("back");
        try (GgufImport file = GgufImport.open(file())) {
            file.write(back, DType.F32);
        }
        Map<String, float[]> expected = values(model);
        Map<String, float[]> read = values(back);
        assertEquals(expected.keySet(), read.keySet());
        expected.forEach((name, floats) -> assertArrayEquals(floats, read.get(name), name));
    }

    @Test
    void every_value_of_modelopt_comes_back_bit_by_bit() throws IOException {
        Path model = modelOpt();
        List<String> notes = write(model).notes();
        assertTrue(notes.contains("7 matrices in NVFP4 keep their codes and scales"), notes.toString());
        assertFalse(notes.toString().contains("divisors"), notes.toString());
        assertSameValues(model);
    }

    private static Layout layout(String name) {
        return Layouts.named(name).orElseThrow();
    }

    /** Bytes of all tensors but {@code except}. */
    private static void assertSameBytes(Path expected, Path made, String except) throws IOException {
        try (ModelFile one = ModelFile.open(expected);
                ModelFile other = ModelFile.open(made)) {
            assertEquals(one.model().tensors().keySet(), other.model().tensors().keySet());
            for (Tensor t : one.model().tensors().values()) {
                Tensor back = other.model().tensor(t.name());
                assertEquals(t.spec(), back.spec());
                if (!t.name().endsWith(except)) {
                    assertEquals(-1, t.bytes().mismatch(back.bytes()), t.name());
                }
            }
        }
    }

    @Test
    void back_in_the_layout_of_modelopt_every_tensor_has_its_bytes() throws IOException {
        Path model = modelOpt();
        write(model);
        Path back = folder.resolve("back");
        try (GgufImport file = GgufImport.open(file())) {
            assertEquals(
                    List.of("7 matrices in NVFP4 keep their codes and scales", "the file has no tokenizer"),
                    file.write(back, DType.BF16, layout("modelopt")).notes());
        }
        assertSameBytes(model, back, "nothing");
        try (CheckpointConverter opened = CheckpointConverter.open(back)) {
            assertEquals("modelopt", opened.stored().layout());
            assertEquals("nvfp4", opened.stored().recipe());
        }
    }

    @Test
    void back_in_compressed_tensors_every_weight_has_its_bytes_where_divisors_are_powers_of_two() throws IOException {
        Path model = powersOfTwo();
        write(model);
        Path back = folder.resolve("back");
        try (GgufImport file = GgufImport.open(file())) {
            file.write(back, DType.BF16, layout("compressed-tensors"));
        }
        assertSameBytes(model, back, "input_global_scale"); // inverted twice
        try (CheckpointConverter opened = CheckpointConverter.open(back)) {
            assertEquals("compressed-tensors", opened.stored().layout());
        }
    }

    @Test
    void a_layout_without_nvfp4_and_a_file_without_it_are_refused() throws IOException {
        write(COMPRESSED_TENSORS);
        try (GgufImport file = GgufImport.open(file())) {
            UnsupportedModelException e = assertThrows(
                    UnsupportedModelException.class,
                    () -> file.write(folder.resolve("back"), DType.BF16, layout("fp8")));
            assertTrue(e.what().contains("layout fp8"), e.what());
        }
        write(COMPRESSED_TENSORS, GgufType.BF16, GgufExport.Nvfp4.ROUNDED);
        try (GgufImport file = GgufImport.open(file())) {
            UnsupportedModelException e = assertThrows(
                    UnsupportedModelException.class,
                    () -> file.write(folder.resolve("back"), DType.BF16, layout("modelopt")));
            assertTrue(e.what().contains("without a matrix in NVFP4"), e.what());
        }
        assertFalse(Files.exists(folder.resolve("back")));
    }

    @Test
    void divisors_that_are_powers_of_two_leave_every_value_as_it_is() throws IOException {
        Path model = powersOfTwo();
        assertFalse(write(model).notes().toString().contains("divisors"));
        assertSameValues(model);
    }

    private Path powersOfTwo() throws IOException {
        Path model = Files.createDirectories(folder.resolve("powers"));
        Files.copy(COMPRESSED_TENSORS.resolve("config.json"), model.resolve("config.json"));
        try (ModelFile source = ModelFile.open(COMPRESSED_TENSORS)) {
            Map<String, Tensor> tensors = new LinkedHashMap<>(source.model().tensors());
            tensors.keySet().stream()
                    .filter(n -> n.endsWith("weight_global_scale"))
                    .toList()
                    .forEach(n -> change(tensors, n, b -> b.set(Tensor.F32_LE, 0, 2048)));
            SafetensorsWriter.write(model.resolve("model.safetensors"), tensors, Map.of("format", "pt"));
        }
        return model;
    }

    @Test
    void divisors_without_an_exact_inverse_are_counted() throws IOException {
        List<String> notes = write(COMPRESSED_TENSORS).notes();
        assertTrue(notes.toString().contains("divisors without an exact inverse"), notes.toString());
        Path back = folder.resolve("back");
        try (GgufImport file = GgufImport.open(file())) {
            file.write(back, DType.F32);
        }
        Map<String, float[]> read = values(back);
        values(COMPRESSED_TENSORS).forEach((name, floats) -> {
            float[] other = Objects.requireNonNull(read.get(name));
            for (int i = 0; i < floats.length; i++) { // four roundings of half a unit in the last place: at most 2^-22
                assertEquals(floats[i], other[i], Math.abs(floats[i]) * 0x1p-22f, name);
            }
        });
    }

    @Test
    void other_matrices_keep_the_type_of_the_checkpoint() throws IOException {
        write(COMPRESSED_TENSORS);
        assertEquals(
                Set.of("token_embd.weight", "output.weight"),
                contents(GgufType.BF16).keySet());
    }

    @Test
    void another_type_dequantises_and_leaves_the_upper_scales_away() throws IOException {
        Path model = modelOpt();
        write(model, GgufType.BF16, GgufExport.Nvfp4.ROUNDED);
        assertTrue(contents(GgufType.NVFP4).isEmpty());
        assertTrue(
                contents(GgufType.F32).keySet().stream().noneMatch(n -> n.endsWith("scale")),
                contents(GgufType.F32).keySet().toString());
    }

    private void assertRefused(Class<? extends OctetException> kind, Path model, String... parts) {
        OctetException e = assertThrows(kind, () -> write(model));
        for (String part : parts) {
            assertTrue((e.what() + e.where() + e.fix()).contains(part), e.toString());
        }
        assertFalse(Files.exists(file()));
    }

    @ParameterizedTest
    @ValueSource(bytes = {(byte) 0x80, (byte) 0x81, 0x7f, (byte) 0xff})
    void scales_that_ggml_has_not_are_refused(byte scale) throws IOException {
        Path model = modelOpt(t -> change(t, DOWN + "_scale", b -> b.set(ValueLayout.JAVA_BYTE, 37, scale)), c -> {});
        assertRefused(InvalidDataException.class, model, "scale 37 is ", DOWN + "_scale");
    }

    @ParameterizedTest
    @ValueSource(floats = {0, -1, Float.NaN, Float.POSITIVE_INFINITY, 1e-40f})
    void upper_scales_that_are_no_positive_normal_number_are_refused(float scale) throws IOException {
        Path model = modelOpt(t -> change(t, DOWN + "_scale_2", b -> b.set(Tensor.F32_LE, 0, scale)), c -> {});
        assertRefused(InvalidDataException.class, model, "the upper scale is ", DOWN + "_scale_2");
    }

    /** Rows of 96 elements hold six scales, not whole blocks of four. */
    @Test
    void rows_that_are_no_whole_blocks_are_refused() throws IOException {
        Path model = modelOpt(
                t -> {
                    for (String p : List.of("gate_proj", "up_proj", "down_proj")) {
                        for (String ending : List.of("", "_scale")) {
                            String name = "model.layers.0.mlp." + p + ".weight" + ending;
                            DType type = ending.isEmpty() ? DType.U8 : DType.F8_E4M3FN;
                            int in = ending.isEmpty() ? 2 : 16;
                            Shape shape = p.equals("down_proj") ? Shape.of(128, 96 / in) : Shape.of(96, 128 / in);
                            t.put(name, Tensor.allocate(Arena.ofAuto(), new TensorSpec(name, type, shape)));
                        }
                    }
                },
                c -> c.put("intermediate_size", 96));
        assertRefused(
                UnsupportedModelException.class,
                model,
                "rows of 96 elements are no whole blocks of 64",
                DOWN,
                "--type bf16");
    }

    @Test
    void an_embedding_is_refused() throws IOException {
        Path model = modelOpt(
                t -> {
                    String name = "model.embed_tokens.weight";
                    for (TensorSpec spec : List.of(
                            new TensorSpec(name, DType.U8, Shape.of(128, 64)),
                            new TensorSpec(name + "_scale", DType.F8_E4M3FN, Shape.of(128, 8)))) {
                        t.put(spec.name(), Tensor.allocate(Arena.ofAuto(), spec));
                    }
                    t.put(name + "_scale_2", Tensor.ofFloats(Arena.ofAuto(), name + "_scale_2", Shape.SCALAR, 1));
                },
                c -> {});
        assertRefused(UnsupportedModelException.class, model, "embeddings", "model.embed_tokens.weight");
    }

    @Test
    void an_mlp_with_a_bias_and_an_upper_scale_is_refused() throws IOException {
        String bias = "model.layers.0.mlp.down_proj.bias";
        Path model = modelOpt(
                t -> t.put(bias, Tensor.ofFloats(Arena.ofAuto(), bias, Shape.of(128), new float[128])),
                c -> c.put("mlp_bias", true));
        assertRefused(UnsupportedModelException.class, model, "no MLP in NVFP4 with an upper scale and a bias", DOWN);
    }

    /** Which scale of a file is damaged, and how. */
    enum Damage {
        NEGATIVE(1, -1),
        NOT_A_NUMBER(1, Float.NaN),
        SEVERAL(2, 1);

        private final int elements;
        private final float value;

        Damage(int elements, float value) {
            this.elements = elements;
            this.value = value;
        }
    }

    @ParameterizedTest
    @EnumSource
    void a_file_with_an_impossible_upper_scale_is_refused(Damage damage) throws IOException {
        write(COMPRESSED_TENSORS);
        Path changed = folder.resolve("changed.gguf");
        try (Arena arena = Arena.ofConfined()) {
            GgufFile file = GgufFile.open(file(), arena);
            Map<GgufTensor, MemorySegment> tensors = new LinkedHashMap<>();
            for (GgufHeader.Entry e : file.header().entries()) {
                tensors.put(e.tensor(), file.bytes(e));
            }
            tensors.keySet().removeIf(t -> t.name().equals("blk.0.attn_k.scale"));
            float[] floats = new float[damage.elements];
            Arrays.fill(floats, damage.value);
            tensors.put(
                    new GgufTensor("blk.0.attn_k.scale", Shape.of(damage.elements), GgufType.F32),
                    Tensor.ofFloats(arena, "x", Shape.of(damage.elements), floats)
                            .bytes());
            GgufWriter.write(
                    changed,
                    file.header().metadata(),
                    List.copyOf(tensors.keySet()),
                    (t, sink) -> sink.write(Objects.requireNonNull(tensors.get(t))));
        }
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> GgufImport.open(changed));
        assertTrue(e.what().contains("'blk.0.attn_k.scale'"), e.what());
    }
}
