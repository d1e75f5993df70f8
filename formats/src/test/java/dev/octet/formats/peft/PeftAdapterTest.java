package dev.octet.formats.peft;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.TestData;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Adapters in their folders; those of {@code testdata/adapters} are written by PEFT 0.21. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PeftAdapterTest {
    @TempDir
    Path folder;

    private static Path path(String adapter) {
        return TestData.path("adapters/" + adapter);
    }

    @ParameterizedTest
    @MethodSource("dev.octet.formats.peft.PeftConfigTest#adapters")
    void an_adapter_of_PEFT_is_read_and_written_back_byte_for_byte(String adapter) throws IOException {
        try (PeftAdapter read = PeftAdapter.open(path(adapter))) {
            for (String key : read.tensors().keySet()) {
                assertEquals(key, PeftKeys.parse(key).key());
            }
            assertTrue(
                    read.modules().values().stream()
                            .flatMap(m -> m.tensors().keySet().stream())
                            .allMatch(role -> role.belongsTo(read.config().type())),
                    read.modules().toString());
            PeftAdapter.write(folder.resolve("copy"), read.config(), read.tensors());
        }
        for (String name : List.of("adapter_config.json", "adapter_model.safetensors")) {
            assertArrayEquals(
                    Files.readAllBytes(path(adapter).resolve(name)),
                    Files.readAllBytes(folder.resolve("copy").resolve(name)),
                    name);
        }
    }

    @ParameterizedTest
    @CsvSource({
        "llama-lora, model.layers.0.self_attn.q_proj, 'LORA_A LORA_B'",
        "llama-dora, model.layers.1.self_attn.v_proj, 'LORA_A LORA_B LORA_MAGNITUDE'",
        "llama-bias, model.layers.1.self_attn.v_proj, 'LORA_A LORA_B LORA_B_BIAS'",
        "llama-embedding, model.embed_tokens, 'LORA_EMBEDDING_A LORA_EMBEDDING_B BASE_WEIGHT'",
        "llama-tokens, model.embed_tokens, TOKENS",
        "llama-ia3, model.layers.0.mlp.down_proj, IA3",
        "gpt2-ln, transformer.ln_f, 'NORM_WEIGHT NORM_BIAS'",
        "gpt2-own-biases, transformer.h.0.attn.c_attn, 'LORA_A LORA_B BASE_BIAS'",
    })
    void tensors_are_found_by_module_and_role(String adapter, String module, String roles) throws IOException {
        try (PeftAdapter read = PeftAdapter.open(path(adapter))) {
            Set<PeftRole> expected = Set.copyOf(
                    Stream.of(roles.split(" ")).map(PeftRole::valueOf).toList());
            assertEquals(
                    expected,
                    requireNonNull(read.modules().get(module)).tensors().keySet());
        }
    }

    @Test
    void parameters_saved_whole_have_their_own_paths() throws IOException {
        try (PeftAdapter saved = PeftAdapter.open(path("llama-saved"));
                PeftAdapter biases = PeftAdapter.open(path("gpt2-biases"))) {
            assertEquals(
                    Shape.of(101, 32),
                    requireNonNull(saved.saved().get("lm_head.weight")).shape());
            assertTrue(biases.saved().containsKey("transformer.h.1.ln_2.bias"));
        }
    }

    @Test
    void virtual_tokens_have_the_shape_that_their_configuration_tells() throws IOException {
        for (String adapter : List.of("llama-prompt", "llama-ptuning", "llama-prefix", "llama-projection")) {
            try (PeftAdapter read = PeftAdapter.open(path(adapter))) {
                PromptConfig prompt = read.config().prompt();
                assertEquals(
                        Shape.of(prompt.rows(), prompt.columns().orElseThrow()),
                        read.prompt().orElseThrow().shape());
            }
        }
    }

    @Test
    void the_shapes_of_an_adapter_of_PEFT_follow_its_ranks() throws IOException {
        try (PeftAdapter read = PeftAdapter.open(path("llama-patterns"))) {
            LoraConfig lora = read.config().lora();
            assertEquals(6, read.modules().size());
            read.modules()
                    .forEach((module, tensors) -> assertEquals(
                            lora.rank(module),
                            tensors.tensor(PeftRole.LORA_A)
                                    .orElseThrow()
                                    .shape()
                                    .dim(0)));
        }
    }

    @Test
    void an_adapter_is_recognised_by_its_files_but_not_next_to_a_model() throws IOException {
        assertTrue(PeftAdapter.isAdapter(path("llama-lora")));
        assertTrue(PeftAdapter.isAdapter(path("llama-lora").resolve("adapter_config.json")));
        assertTrue(PeftAdapter.isAdapter(path("llama-lora").resolve("adapter_model.safetensors")));
        assertFalse(PeftAdapter.isAdapter(TestData.path("models/tiny-hf/llama")));
        assertFalse(PeftAdapter.isAdapter(folder.resolve("nothing")));
        Files.writeString(folder.resolve("adapter_config.json"), "{}");
        assertTrue(PeftAdapter.isAdapter(folder));
        Files.writeString(folder.resolve("model.safetensors"), "");
        assertFalse(PeftAdapter.isAdapter(folder));
    }

    @Test
    void an_adapter_opens_by_any_of_its_files() throws IOException {
        for (String name : List.of("adapter_config.json", "adapter_model.safetensors")) {
            try (PeftAdapter read = PeftAdapter.open(path("llama-lora").resolve(name))) {
                assertEquals(8, read.tensors().size());
            }
        }
    }

    @Test
    void a_missing_file_is_named() throws IOException {
        assertThrows(NoSuchFileException.class, () -> PeftAdapter.open(folder.resolve("nothing")));
        Files.copy(
                path("llama-lora").resolve("adapter_model.safetensors"), folder.resolve("adapter_model.safetensors"));
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> PeftAdapter.open(folder));
        assertTrue(e.what().contains("adapter_config.json"), e.what());
        Files.copy(path("llama-lora").resolve("adapter_config.json"), folder.resolve("adapter_config.json"));
        Files.delete(folder.resolve("adapter_model.safetensors"));
        e = assertThrows(MalformedModelException.class, () -> PeftAdapter.open(folder));
        assertTrue(e.what().contains("adapter_model.safetensors"), e.what());
    }

    @Test
    void a_pickle_is_refused_with_a_way_out_under_either_name() throws IOException {
        Files.copy(path("llama-lora").resolve("adapter_config.json"), folder.resolve("adapter_config.json"));
        Files.writeString(folder.resolve("adapter_model.bin"), "PK\u0003\u0004 and so on");
        UnsupportedModelException e = assertThrows(UnsupportedModelException.class, () -> PeftAdapter.open(folder));
        assertTrue(e.fix().contains("save_pretrained"), e.fix());
        Files.move(folder.resolve("adapter_model.bin"), folder.resolve("adapter_model.safetensors"));
        assertThrows(UnsupportedModelException.class, () -> PeftAdapter.open(folder));
    }

    @Test
    void a_failed_write_leaves_nothing_and_an_earlier_adapter_whole() throws IOException {
        Path target = folder.resolve("adapter");
        try (Arena arena = Arena.ofConfined();
                PeftAdapter read = PeftAdapter.open(path("llama-lora"))) {
            PeftAdapter.write(target, read.config(), read.tensors());
            Map<String, Tensor> unheld = new LinkedHashMap<>(read.tensors());
            // safetensors has no complex numbers of 128 bits
            unheld.put(
                    "x", Tensor.allocate(arena, new dev.octet.formats.tensor.TensorSpec("x", DType.C128, Shape.of(2))));
            assertThrows(UnsupportedModelException.class, () -> PeftAdapter.write(target, read.config(), unheld));
            assertThrows(
                    UnsupportedModelException.class,
                    () -> PeftAdapter.write(folder.resolve("new"), read.config(), unheld));
        }
        assertFalse(Files.exists(folder.resolve("new")));
        try (PeftAdapter read = PeftAdapter.open(target);
                Stream<Path> files = Files.list(target)) {
            assertEquals(8, read.tensors().size());
            assertEquals(2, files.count());
        }
    }

    @Test
    void writing_over_an_adapter_replaces_both_files_and_keeps_others() throws IOException {
        Files.writeString(folder.resolve("README.md"), "mine");
        for (String adapter : List.of("llama-lora", "gpt2-ia3")) {
            try (PeftAdapter read = PeftAdapter.open(path(adapter))) {
                PeftAdapter.write(folder, read.config(), read.tensors());
            }
        }
        try (PeftAdapter read = PeftAdapter.open(folder)) {
            assertEquals(PeftType.IA3, read.config().type());
            assertEquals(4, read.tensors().size());
        }
        assertEquals("mine", Files.readString(folder.resolve("README.md")));
    }

    @Test
    void a_key_is_parsed_with_and_without_the_prefix_and_in_old_spellings() {
        assertEquals(new PeftKeys.Place("a.b", PeftRole.LORA_A), PeftKeys.parse("base_model.model.a.b.lora_A.weight"));
        assertEquals(new PeftKeys.Place("a.b", PeftRole.LORA_A), PeftKeys.parse("a.b.lora_A.weight"));
        assertEquals(
                new PeftKeys.Place("a", PeftRole.LORA_MAGNITUDE),
                PeftKeys.parse("base_model.model.a.lora_magnitude_vector.weight"));
        assertEquals(
                new PeftKeys.Place("a.lora_A.default.weight", PeftRole.SAVED),
                PeftKeys.parse("base_model.model.a.lora_A.default.weight"));
        assertEquals(new PeftKeys.Place("", PeftRole.PROMPT), PeftKeys.parse("prompt_embeddings"));
        assertEquals("prompt_embeddings", PeftKeys.key("", PeftRole.PROMPT));
    }
}
