package dev.octet.cli;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.gguf.GgufFile;
import dev.octet.formats.gguf.GgufHeader;
import dev.octet.formats.gguf.GgufKind;
import dev.octet.formats.gguf.GgufTensor;
import dev.octet.formats.gguf.GgufType;
import dev.octet.formats.gguf.GgufValue;
import dev.octet.formats.gguf.GgufWriter;
import dev.octet.formats.tensor.Shape;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.SequencedMap;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What GGUF or llama.cpp would make another model of, and files whose parts contradict each other. What works: {@link GgufCommandTest}. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GgufRefusalsTest {
    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "golden/gguf/models");
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String QUERY = "model.layers.1.self_attn.q_proj.weight";

    @TempDir
    Path folder;

    private Path copied(String model) throws IOException {
        Path to = Files.createDirectories(folder.resolve(model));
        try (var files = Files.list(MODELS.resolve(model))) {
            for (Path file : files.toList()) {
                Files.copy(file, to.resolve(file.getFileName().toString()));
            }
        }
        return to;
    }

    private static void edit(Path file, Consumer<ObjectNode> change) throws IOException {
        ObjectNode json = (ObjectNode) JSON.readTree(file.toFile());
        change.accept(json);
        JSON.writeValue(file.toFile(), json);
    }

    /** Sets the first elements of a BF16 tensor. */
    private static void set(Path model, String tensor, int count, float value) throws IOException {
        Path file = model.resolve("model.safetensors");
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(file)).order(ByteOrder.LITTLE_ENDIAN);
        int header = (int) bytes.getLong(0);
        JsonNode entry = JSON.readTree(bytes.array(), 8, header).path(tensor);
        int at = 8 + header + entry.path("data_offsets").path(0).asInt();
        for (int i = 0; i < count; i++) {
            bytes.putShort(at + 2 * i, (short) (Float.floatToRawIntBits(value) >> 16));
        }
        Files.write(file, bytes.array());
    }

    private CommandLine toGguf(Path model, String... options) {
        List<String> words = new ArrayList<>(
                List.of("convert", model.toString(), "-o", file().toString(), "--target", "gguf", "--force"));
        words.addAll(List.of(options));
        return CommandLine.run(words.toArray(String[]::new));
    }

    private CommandLine toFolder(Path file, String... options) {
        List<String> words = new ArrayList<>(
                List.of("convert", file.toString(), "-o", folder.resolve("out").toString(), "--target", "huggingface"));
        words.addAll(List.of(options));
        return CommandLine.run(words.toArray(String[]::new));
    }

    private Path file() {
        return folder.resolve("model.gguf");
    }

    private void assertRefused(CommandLine run, String... parts) {
        assertEquals(ExitCode.INPUT, run.code(), run.out() + run.err());
        for (String part : parts) {
            assertTrue(run.err().contains(part), run.err());
        }
        assertFalse(Files.exists(file()));
        assertFalse(Files.exists(folder.resolve("out")));
    }

    @ParameterizedTest
    @CsvSource({
        "f16, self_attn.q_proj, 65536, an element is 65536.0",
        "q8_0, self_attn.q_proj, 16777216, a scale is",
        "q4_0, self_attn.q_proj, 1048576, a scale is -131072.0",
        "nvfp4, self_attn.q_proj, 4096, NVFP4 ends at 2688",
        "nvfp4, mlp.down_proj, 65536, an element is 65536.0"
    })
    void weights_that_a_type_cannot_hold_are_refused(String type, String module, float value, String message)
            throws IOException {
        Path model = copied("llama");
        set(model, "model.layers.1." + module + ".weight", 1, value);
        assertRefused(toGguf(model, "--type", type), message, "give --type bf16", module);
        CommandLine run = toGguf(model, "--type", "bf16");
        assertEquals(ExitCode.OK, run.code(), run.err());
    }

    @ParameterizedTest
    @ValueSource(strings = {"verify", "dequantize", "convert"})
    void verbs_that_do_not_read_gguf_say_which_one_does(String verb) throws IOException {
        assertEquals(ExitCode.OK, toGguf(MODELS.resolve("llama")).code());
        Path file = Files.move(file(), folder.resolve("whole.gguf"));
        List<String> words = new ArrayList<>(List.of(verb, file.toString()));
        if (verb.equals("dequantize") || verb.equals("convert")) {
            words.addAll(List.of("-o", folder.resolve("out").toString()));
        }
        if (verb.equals("convert")) {
            words.addAll(List.of("--target", "compressed-tensors"));
        }
        assertRefused(
                CommandLine.run(words.toArray(String[]::new)),
                "the file is GGUF",
                "where: " + file,
                "octet convert FILE -o DIR --target huggingface");
    }

    @Test
    void weights_that_f16_cannot_hold_are_not_read_into_it() throws IOException {
        Path model = copied("llama");
        set(model, QUERY, 1, 65536);
        assertEquals(ExitCode.OK, toGguf(model, "--type", "f32").code());
        Path file = Files.move(file(), folder.resolve("wide.gguf"));
        assertRefused(toFolder(file, "--dtype", "fp16"), "F16 ends at 65504", "give --dtype bf16", QUERY);
    }

    @Test
    void blocks_of_nvfp4_that_become_zero_are_counted() throws IOException {
        Path model = copied("llama");
        set(model, QUERY, 64, 1e-4f);
        CommandLine run = toGguf(model, "--type", "nvfp4");
        assertEquals(ExitCode.OK, run.code(), run.err());
        assertTrue(run.out().contains("4 blocks of '" + QUERY + "' became zero"), run.out());
        assertFalse(toGguf(model, "--type", "mxfp4").out().contains("became zero"));
    }

    @ParameterizedTest
    @CsvSource({
        "llama, hidden_act, '\"gelu\"', the activation is gelu",
        "gemma, hidden_activation, '\"relu\"', the activation is relu",
        "llama, vocab_size, 2147483647, 'vocab_size is 2147483647, the embedding has 420 rows'",
        "llama, vocab_size, 419, the embedding has 420 rows",
        "llama, head_dim, 24, not those of 2 heads of 24",
        "llama, head_dim, 1073741824, heads of 1073741824",
        "llama, num_key_value_heads, 3, 'k_proj.weight'' has 32 rows, not those of 3 heads of 16'",
        "llama, partial_rotary_factor, 0.01, only a part of each head is rotated"
    })
    void configurations_that_the_file_would_not_follow_are_refused(
            String model, String key, String value, String message) throws IOException {
        Path changed = copied(model);
        JsonNode json = JSON.readTree(value);
        edit(changed.resolve("config.json"), config -> config.set(key, json));
        assertRefused(toGguf(changed), message);
    }

    @Test
    void llama_3_without_a_theta_has_the_one_of_transformers() throws IOException {
        Path model = copied("llama3");
        edit(model.resolve("config.json"), c -> ((ObjectNode) c.path("rope_parameters")).remove("rope_theta"));
        assertEquals(ExitCode.OK, toGguf(model).code());
        CommandLine run = toFolder(file());
        assertEquals(ExitCode.OK, run.code(), run.err());
        JsonNode config = JSON.readTree(folder.resolve("out/config.json").toFile());
        assertEquals(10_000, config.path("rope_parameters").path("rope_theta").asDouble());
        assertEquals(8, config.path("rope_parameters").path("factor").asDouble());
    }

    @ParameterizedTest
    @ValueSource(strings = {"ab", ""})
    void a_merge_that_is_not_two_tokens_is_refused(String merge) throws IOException {
        Path model = copied("qwen2");
        edit(
                model.resolve("tokenizer.json"),
                t -> ((ObjectNode) t.path("model")).putArray("merges").add(merge));
        assertRefused(toGguf(model), "the merge '" + merge + "' is not two tokens");
    }

    private static final String REPLACE = "{'type':'Replace','pattern':{'String':' '},'content':'▁'}";
    private static final String PREPEND = "{'type':'Prepend','prepend':'▁'}";

    private CommandLine withSpaces(String normalizer, String splits) throws IOException {
        Path model = copied("llama");
        JsonNode first = JSON.readTree(normalizer.replace('\'', '"'));
        JsonNode second = JSON.readTree(splits.replace('\'', '"'));
        edit(model.resolve("tokenizer.json"), t -> {
            t.set("normalizer", first);
            t.set("pre_tokenizer", second);
        });
        return toGguf(model);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = ';',
            quoteCharacter = '`',
            value = {
                REPLACE + "; null; false",
                REPLACE + "; {'type':'Split','pattern':{'String':' '},'behavior':'MergedWithPrevious'}; false",
                "{'type':'Sequence','normalizers':[" + PREPEND + "," + REPLACE + "]}; null; true",
                "null; {'type':'Metaspace','replacement':'▁','prepend_scheme':'first','split':false}; true",
                "null; {'type':'Metaspace','replacement':'▁','prepend_scheme':'always','split':false}; true",
                "null; {'type':'Metaspace','replacement':'▁','prepend_scheme':'never','split':false}; false"
            })
    void the_space_before_a_text_follows_from_normalizer_or_metaspace(String normalizer, String splits, boolean added)
            throws IOException {
        CommandLine run = withSpaces(normalizer, splits);
        assertEquals(ExitCode.OK, run.code(), run.err());
        try (Arena arena = Arena.ofConfined()) {
            assertEquals(
                    GgufValue.of(added),
                    GgufFile.open(file(), arena)
                            .header()
                            .value("tokenizer.ggml.add_space_prefix")
                            .orElseThrow());
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = ';',
            quoteCharacter = '`',
            value = {
                "null; null",
                "{'type':'NFKC'}; null",
                PREPEND + "; null",
                "{'type':'Sequence','normalizers':[{'type':'Lowercase'}," + REPLACE + "]}; null",
                REPLACE + "; {'type':'Digits','individual_digits':true}",
                "null; {'type':'ByteLevel','add_prefix_space':false}",
                "null; {'type':'Metaspace','replacement':'_','prepend_scheme':'first','split':false}"
            })
    void another_treatment_of_spaces_is_refused(String normalizer, String splits) throws IOException {
        assertRefused(withSpaces(normalizer, splits), "how the tokenizer treats spaces", "--no-tokenizer");
    }

    /** A file as Octet writes it with other keys and tensors, whose bytes are zero. */
    private Path changed(String model, Consumer<SequencedMap<String, GgufValue>> keys, GgufTensor... others)
            throws IOException {
        Path whole = folder.resolve("whole.gguf");
        assertEquals(ExitCode.OK, toGguf(MODELS.resolve(model), "--type", "f32").code());
        Files.move(file(), whole);
        Path made = folder.resolve("changed.gguf");
        try (Arena arena = Arena.ofConfined()) {
            GgufHeader header = GgufFile.open(whole, arena).header();
            SequencedMap<String, GgufValue> metadata = new LinkedHashMap<>(header.metadata());
            keys.accept(metadata);
            SequencedMap<String, GgufTensor> tensors = header.entries().stream()
                    .map(GgufHeader.Entry::tensor)
                    .collect(Collectors.toMap(GgufTensor::name, t -> t, (a, b) -> b, LinkedHashMap::new));
            List.of(others).forEach(t -> tensors.put(t.name(), t));
            GgufWriter.write(
                    made,
                    metadata,
                    List.copyOf(tensors.values()),
                    (t, sink) -> sink.write(MemorySegment.ofArray(new byte[(int) t.byteSize()])));
        }
        return made;
    }

    static List<GgufTensor> impossible() {
        return List.of(
                new GgufTensor("token_embd.weight", Shape.SCALAR, GgufType.F32),
                new GgufTensor("token_embd.weight", Shape.of(420, 0), GgufType.F32),
                new GgufTensor("token_embd.weight", Shape.of(420), GgufType.F32),
                new GgufTensor("blk.0.attn_q.weight", Shape.SCALAR, GgufType.F32),
                new GgufTensor("blk.0.attn_q.weight", Shape.of(0, 64), GgufType.F32),
                new GgufTensor("output_norm.weight", Shape.of(0), GgufType.F32),
                new GgufTensor("rope_freqs.weight", Shape.of(2, 4), GgufType.F32),
                new GgufTensor("rope_freqs.weight", Shape.of(256), GgufType.IQ1_S));
    }

    @ParameterizedTest
    @MethodSource("impossible")
    void a_tensor_of_an_impossible_shape_or_type_is_refused(GgufTensor tensor) throws IOException {
        Path file = changed("llama", keys -> {}, tensor);
        assertRefused(toFolder(file));
        assumeTrue(Files.isReadable(Path.of("/proc/self/maps")));
        assertFalse(Files.readString(Path.of("/proc/self/maps")).contains(file.toString()), "still mapped");
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "default"})
    void a_file_that_does_not_say_how_texts_are_split_is_refused(String pre) throws IOException {
        Path file = changed("qwen2", keys -> {
            keys.remove("tokenizer.ggml.pre");
            if (!pre.isEmpty()) {
                keys.put("tokenizer.ggml.pre", GgufValue.of(pre));
            }
        });
        assertRefused(toFolder(file), "tokenizer.ggml.pre is ", "splits such texts at punctuation first");
    }

    @ParameterizedTest
    @CsvSource({"llama, true", "llama3, true", "qwen2, false"})
    void without_a_key_for_it_the_first_token_is_added_as_llama_cpp_does(String model, boolean added)
            throws IOException {
        Path file = changed(model, keys -> keys.remove("tokenizer.ggml.add_bos_token"));
        CommandLine run = toFolder(file);
        assertEquals(ExitCode.OK, run.code(), run.err());
        JsonNode config =
                JSON.readTree(folder.resolve("out/tokenizer_config.json").toFile());
        assertEquals(added, config.path("add_bos_token").asBoolean());
    }

    @Test
    void an_empty_token_merges_with_nothing() throws IOException {
        Path file = changed("llama", keys -> {
            GgufValue.Sequence tokens = (GgufValue.Sequence) keys.get("tokenizer.ggml.tokens");
            List<GgufValue> texts = new ArrayList<>(requireNonNull(tokens).values());
            texts.set(texts.size() - 1, GgufValue.of(""));
            keys.put("tokenizer.ggml.tokens", new GgufValue.Sequence(GgufKind.STRING, texts));
        });
        CommandLine run = toFolder(file);
        assertEquals(ExitCode.OK, run.code(), run.err());
    }

    @Test
    void types_of_tokens_that_do_not_exist_are_refused() throws IOException {
        Path file = changed("llama", keys -> {
            GgufValue.Sequence types = (GgufValue.Sequence) keys.get("tokenizer.ggml.token_type");
            List<GgufValue> wide = new ArrayList<>();
            requireNonNull(types).values().forEach(t -> wide.add(new GgufValue.Whole(GgufKind.I64, 1L << 40)));
            keys.put("tokenizer.ggml.token_type", new GgufValue.Sequence(GgufKind.I64, wide));
        });
        assertRefused(toFolder(file), "the type of token 0 is 1099511627776");
    }
}
