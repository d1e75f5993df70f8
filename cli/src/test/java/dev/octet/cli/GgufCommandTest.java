package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ai.djl.huggingface.tokenizers.HuggingFaceTokenizer;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.ModelFile;
import dev.octet.formats.gguf.GgufFile;
import dev.octet.formats.gguf.GgufHeader;
import dev.octet.formats.gguf.GgufTensor;
import dev.octet.formats.gguf.GgufType;
import dev.octet.formats.gguf.GgufValue;
import dev.octet.formats.gguf.GgufWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.SequencedMap;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code convert --target gguf} and back. What llama.cpp makes of the files: {@link LlamaCppTest}. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GgufCommandTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path MODELS = TESTDATA.resolve("golden/gguf/models");

    @TempDir
    Path folder;

    private CommandLine toGguf(Path model, Path file, String... options) {
        List<String> words =
                new ArrayList<>(List.of("convert", model.toString(), "-o", file.toString(), "--target", "gguf"));
        words.addAll(List.of(options));
        return CommandLine.run(words.toArray(String[]::new));
    }

    private CommandLine toFolder(Path file, Path model, String... options) {
        List<String> words =
                new ArrayList<>(List.of("convert", file.toString(), "-o", model.toString(), "--target", "huggingface"));
        words.addAll(List.of(options));
        return CommandLine.run(words.toArray(String[]::new));
    }

    @ParameterizedTest
    @ValueSource(strings = {"llama", "llama3", "qwen2", "qwen3"})
    void a_folder_there_and_back_has_every_bit_of_every_tensor(String model) throws IOException {
        Path back = thereAndBack(model);
        try (ModelFile expected = ModelFile.open(MODELS.resolve(model));
                ModelFile read = ModelFile.open(back)) {
            assertEquals(
                    expected.model().tensors().keySet(), read.model().tensors().keySet());
            for (Tensor t : expected.model().tensors().values()) {
                Tensor other = read.model().tensor(t.name());
                assertEquals(t.spec(), other.spec());
                assertEquals(-1, t.bytes().mismatch(other.bytes()), t.name());
            }
        }
    }

    private Path thereAndBack(String model) {
        Path file = folder.resolve("model.gguf");
        CommandLine there = toGguf(MODELS.resolve(model), file);
        assertEquals(ExitCode.OK, there.code(), there.err());
        Path back = folder.resolve("back");
        CommandLine run = toFolder(file, back);
        assertEquals(ExitCode.OK, run.code(), run.err());
        return back;
    }

    @Test
    void norms_of_gemma_gain_one_and_lose_it_again() throws IOException {
        Path back = thereAndBack("gemma");
        try (ModelFile expected = ModelFile.open(MODELS.resolve("gemma"));
                ModelFile read = ModelFile.open(back)) {
            for (Tensor t : expected.model().tensors().values()) {
                Tensor other = read.model().tensor(t.name());
                // BF16 plus one keeps 24 bits: all of them but those far below one
                assertArrayEquals(floats(t), floats(other), t.name().contains("norm") ? 1e-7f : 0, t.name());
            }
        }
    }

    private static float[] floats(Tensor t) {
        float[] values = new float[(int) t.shape().elementCount()];
        for (int i = 0; i < values.length; i++) {
            values[i] = dev.octet.quant.cast.Floats.get(t.dtype(), t.bytes(), i);
        }
        return values;
    }

    @ParameterizedTest
    @ValueSource(strings = {"llama", "llama3", "qwen2", "gemma"})
    void a_tokenizer_there_and_back_gives_the_same_tokens(String model) throws IOException {
        Path back = thereAndBack(model);
        JsonNode greedy = new ObjectMapper()
                .readTree(MODELS.resolve(model).resolve("greedy.json").toFile());
        try (HuggingFaceTokenizer tokenizer = HuggingFaceTokenizer.newInstance(back.resolve("tokenizer.json"))) {
            for (JsonNode sample : greedy) {
                assertArrayEquals(
                        sample.path("tokens")
                                .valueStream()
                                .mapToLong(JsonNode::asLong)
                                .toArray(),
                        tokenizer.encode(sample.path("prompt").asText()).getIds());
            }
        }
        assertTrue(Files.readString(back.resolve("tokenizer_config.json")).contains("chat_template"));
    }

    @ParameterizedTest
    @CsvSource({"rope_theta, 500000.0", "factor, 8.0", "high_freq_factor, 4.0", "original_max_position_embeddings, 8192"
    })
    void the_rotary_factors_of_llama_3_become_its_parameters_again(String key, String value) throws IOException {
        JsonNode config = new ObjectMapper()
                .readTree(thereAndBack("llama3").resolve("config.json").toFile());
        assertEquals(value, config.path("rope_parameters").path(key).asText());
    }

    @ParameterizedTest
    @CsvSource({"q8_0, 0.02", "q4_0, 0.2", "mxfp4, 0.3", "nvfp4, 0.25", "f16, 1e-3", "f32, 0"})
    void matrices_are_within_the_rounding_of_their_type(String type, float error) throws IOException {
        Path file = folder.resolve("model.gguf");
        CommandLine there = toGguf(MODELS.resolve("llama"), file, "--type", type);
        assertEquals(ExitCode.OK, there.code(), there.err());
        Path back = folder.resolve("back");
        assertEquals(ExitCode.OK, toFolder(file, back, "--dtype", "fp32").code());
        String name = "model.layers.1.self_attn.q_proj.weight";
        try (ModelFile expected = ModelFile.open(MODELS.resolve("llama"));
                ModelFile read = ModelFile.open(back)) {
            Tensor t = read.model().tensor(name);
            assertEquals(DType.F32, t.dtype());
            float[] a = floats(expected.model().tensor(name));
            float[] b = floats(t);
            double off = 0;
            double all = 0;
            for (int i = 0; i < a.length; i++) {
                off += (a[i] - b[i]) * (double) (a[i] - b[i]);
                all += a[i] * (double) a[i];
            }
            assertTrue(Math.sqrt(off / all) <= error, type + ": " + Math.sqrt(off / all));
        }
    }

    @Test
    void a_quantised_checkpoint_is_dequantised_on_the_way() throws IOException {
        Path quantised = folder.resolve("fp8");
        assertEquals(
                ExitCode.OK,
                CommandLine.run("quantize", MODELS.resolve("llama").toString(), "-o", quantised.toString())
                        .code());
        Path file = folder.resolve("model.gguf");
        CommandLine run = toGguf(quantised, file);
        assertEquals(ExitCode.OK, run.code(), run.err());
        try (Arena arena = Arena.ofConfined()) {
            for (GgufHeader.Entry e : GgufFile.open(file, arena).header().entries()) {
                GgufTensor t = e.tensor();
                assertEquals(t.shape().rank() == 1 ? GgufType.F32 : GgufType.BF16, t.type(), t.name());
            }
        }
    }

    @Test
    void a_folder_in_nvfp4_keeps_its_codes_there_and_back() throws IOException {
        Path model = TESTDATA.resolve("checkpoints/foreign/ct-nvfp4");
        Path file = folder.resolve("model.gguf");
        CommandLine there = toGguf(model, file, "--no-tokenizer");
        assertEquals(ExitCode.OK, there.code(), there.err());
        assertTrue(there.out().contains("7 matrices in NVFP4 keep their codes and scales"), there.out());
        Path back = folder.resolve("back");
        CommandLine run =
                CommandLine.run("convert", file.toString(), "-o", back.toString(), "--target", "compressed-tensors");
        assertEquals(ExitCode.OK, run.code(), run.err());
        try (ModelFile expected = ModelFile.open(model);
                ModelFile read = ModelFile.open(back)) {
            assertEquals(
                    expected.model().tensors().keySet(), read.model().tensors().keySet());
            for (Tensor t : expected.model().tensors().values()) {
                if (!t.name().endsWith("global_scale")) { // inverted twice
                    assertEquals(
                            -1, t.bytes().mismatch(read.model().tensor(t.name()).bytes()), t.name());
                }
            }
        }
        CommandLine verified = CommandLine.run("verify", back.toString(), "--for", "vllm");
        assertEquals(ExitCode.OK, verified.code(), verified.out() + verified.err());
    }

    @Test
    void a_model_that_llama_cpp_has_not_is_refused_by_name() {
        CommandLine run = toGguf(TESTDATA.resolve("models/tiny-hf/gpt2"), folder.resolve("m.gguf"));
        assertEquals(ExitCode.INPUT, run.code());
        assertTrue(run.err().contains("model_type 'gpt2'"), run.err());
        assertFalse(Files.exists(folder.resolve("m.gguf")));
    }

    @Test
    void what_llama_cpp_would_compute_otherwise_is_refused() {
        CommandLine run = toGguf(TESTDATA.resolve("models/tiny-hf/gemma2"), folder.resolve("m.gguf"));
        assertEquals(ExitCode.INPUT, run.code());
        assertTrue(run.err().contains("query_pre_attn_scalar"), run.err());
    }

    @Test
    void a_tokenizer_that_llama_cpp_splits_otherwise_is_refused_or_left_out() throws IOException {
        Path model = folder.resolve("model");
        copied("qwen2", model);
        Path tokenizer = model.resolve("tokenizer.json");
        Files.writeString(tokenizer, Files.readString(tokenizer).replace("\\\\p{N}|", "\\\\p{N}{1,2}|"));
        Path file = folder.resolve("m.gguf");
        CommandLine run = toGguf(model, file);
        assertEquals(ExitCode.INPUT, run.code());
        assertTrue(run.err().contains("--no-tokenizer"), run.err());
        CommandLine without = toGguf(model, file, "--no-tokenizer");
        assertEquals(ExitCode.OK, without.code(), without.err());
        assertTrue(without.out().contains("without a tokenizer"), without.out());
    }

    private static void copied(String model, Path to) throws IOException {
        Files.createDirectories(to);
        try (var files = Files.list(MODELS.resolve(model))) {
            for (Path file : files.toList()) {
                Files.copy(file, to.resolve(file.getFileName().toString()));
            }
        }
    }

    private Path changed(UnaryOperator<SequencedMap<String, GgufValue>> change) throws IOException {
        Path file = folder.resolve("model.gguf");
        assertEquals(ExitCode.OK, toGguf(MODELS.resolve("qwen2"), file).code());
        Path other = folder.resolve("changed.gguf");
        try (Arena arena = Arena.ofConfined()) {
            GgufFile whole = GgufFile.open(file, arena);
            GgufWriter.write(
                    other,
                    change.apply(new LinkedHashMap<>(whole.header().metadata())),
                    whole.header().entries().stream()
                            .map(GgufHeader.Entry::tensor)
                            .toList(),
                    (tensor, sink) -> sink.write(whole.bytes(whole.header().entries().stream()
                            .filter(e -> e.tensor().equals(tensor))
                            .findFirst()
                            .orElseThrow())));
        }
        return other;
    }

    @ParameterizedTest
    @CsvSource({
        "general.architecture, rwkv7, general.architecture is 'rwkv7'",
        "tokenizer.ggml.pre, tekken, tokenizer.ggml.pre is 'tekken'",
        "tokenizer.ggml.model, t5, tokenizer.ggml.model is 't5'",
        "qwen2.rope.scaling.type, yarn, rope.scaling.type 'yarn'"
    })
    void what_is_not_known_is_named(String key, String value, String message) throws IOException {
        Path file = changed(keys -> {
            keys.put(key, GgufValue.of(value));
            return keys;
        });
        CommandLine run = toFolder(file, folder.resolve("out"));
        assertEquals(ExitCode.INPUT, run.code());
        assertTrue(run.err().contains(message), run.err());
        assertFalse(Files.exists(folder.resolve("out")));
    }

    @Test
    void a_key_that_is_missing_is_named() throws IOException {
        Path file = changed(keys -> {
            keys.remove("qwen2.block_count");
            return keys;
        });
        CommandLine run = toFolder(file, folder.resolve("out"));
        assertEquals(ExitCode.INPUT, run.code());
        assertTrue(run.err().contains("the key qwen2.block_count is missing"), run.err());
    }

    @Test
    void a_truncated_file_leaves_nothing() throws IOException {
        Path file = folder.resolve("model.gguf");
        assertEquals(ExitCode.OK, toGguf(MODELS.resolve("llama"), file).code());
        byte[] bytes = Files.readAllBytes(file);
        Files.write(file, java.util.Arrays.copyOf(bytes, bytes.length - 1000));
        CommandLine run = toFolder(file, folder.resolve("out"));
        assertEquals(ExitCode.INPUT, run.code());
        assertTrue(run.err().contains("truncated"), run.err());
        assertFalse(Files.exists(folder.resolve("out")));
    }

    @Test
    void options_of_other_targets_are_refused() {
        CommandLine run = toGguf(MODELS.resolve("llama"), folder.resolve("m.gguf"), "--recipe", "fp8");
        assertEquals(ExitCode.USAGE, run.code());
        CommandLine type =
                CommandLine.run("convert", "m", "-o", "x", "--target", "compressed-tensors", "--type", "q8_0");
        assertEquals(ExitCode.USAGE, type.code());
        CommandLine unknown = toGguf(MODELS.resolve("llama"), folder.resolve("m.gguf"), "--type", "q8");
        assertEquals(ExitCode.USAGE, unknown.code());
        assertTrue(unknown.err().contains("q8_0"), unknown.err());
    }

    @Test
    void a_dry_run_writes_nothing() {
        Path file = folder.resolve("m.gguf");
        CommandLine run = toGguf(MODELS.resolve("llama"), file, "--dry-run");
        assertEquals(ExitCode.OK, run.code(), run.err());
        assertTrue(run.out().contains("would write"), run.out());
        assertFalse(Files.exists(file));
    }
}
