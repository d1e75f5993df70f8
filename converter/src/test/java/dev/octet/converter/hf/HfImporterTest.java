package dev.octet.converter.hf;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertAll;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.GraphCheck;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.IntFunction;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class HfImporterTest {
    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "models/tiny-hf");
    private static final Arena ARENA = Arena.ofAuto();
    private static final ObjectMapper JSON = new ObjectMapper();

    static List<String> names() throws IOException {
        try (Stream<Path> folders = Files.list(MODELS)) {
            return folders.map(f -> String.valueOf(f.getFileName())).sorted().toList();
        }
    }

    /** A checkpoint that can be spoiled. */
    private record Spoiled(ObjectNode config, Map<String, Tensor> tensors) {
        static Spoiled of(String name) throws IOException {
            ObjectNode config = ModelConfig.read(MODELS.resolve(name)).orElseThrow();
            try (ModelFile file = ModelFile.open(MODELS.resolve(name))) {
                Map<String, Tensor> copies = new LinkedHashMap<>();
                for (Tensor t : file.model().tensors().values()) {
                    Tensor copy = Tensor.allocate(ARENA, t.spec());
                    copy.bytes().copyFrom(t.bytes());
                    copies.put(t.name(), copy);
                }
                return new Spoiled(config, copies);
            }
        }

        void add(String name, DType dtype, long... shape) {
            tensors.put(name, Tensor.allocate(ARENA, new TensorSpec(name, dtype, Shape.of(shape))));
        }

        HfImporter.Imported open() {
            return HfImporter.of(config, tensors, "config.json");
        }

        <E extends OctetException> String refusal(Class<E> type) {
            E e = assertThrows(type, this::open);
            assertTrue(e.where().contains("config.json"), e.where());
            return e.what() + " | " + e.fix();
        }
    }

    private static Spoiled spoiled(String name, Consumer<Spoiled> damage) throws IOException {
        Spoiled s = Spoiled.of(name);
        damage.accept(s);
        return s;
    }

    @ParameterizedTest
    @MethodSource("names")
    void a_checkpoint_becomes_a_legal_graph_whose_constants_are_its_own_tensors(String name) throws IOException {
        try (ModelFile file = ModelFile.open(MODELS.resolve(name))) {
            ObjectNode config = ModelConfig.read(MODELS.resolve(name)).orElseThrow();
            HfImporter.Imported imported = HfImporter.of(config, file.model().tensors(), name);
            assertEquals(List.of(), GraphCheck.check(imported.model()));
            Set<String> read = new HashSet<>();
            for (Initializer i : imported.model().graph().initializers().values()) {
                String of = i.metadata().getOrDefault(Initializer.PART_OF, i.name());
                Tensor own = file.model().tensors().get(of);
                if (own != null) {
                    Tensor used = i.tensor().orElseThrow();
                    long from = used.bytes().address() - own.bytes().address();
                    boolean inside = from >= 0
                            && from + used.bytes().byteSize() <= own.bytes().byteSize();
                    boolean same = from == 0 || !of.equals(i.name());
                    assertTrue(
                            inside && same && (read.add(of) || !of.equals(i.name())), "a view, no copy: " + i.name());
                }
            }
            imported.unread().forEach(read::add);
            assertEquals(file.model().tensors().keySet(), read);
        }
    }

    @Test
    void missing_extra_and_misshapen_tensors_are_told_at_once() throws IOException {
        Spoiled s = spoiled("llama", c -> {
            c.tensors().remove("model.layers.0.mlp.up_proj.weight");
            c.tensors().remove("model.layers.1.mlp.up_proj.weight");
            c.tensors().remove("model.norm.weight");
            c.add("model.layers.1.self_attn.q_proj.weight", DType.F32, 32, 31);
            c.add("model.layers.0.self_attn.q_proj.bias", DType.F32, 32);
        });
        String told = s.refusal(MalformedModelException.class);
        assertAll(
                () -> assertTrue(
                        told.contains("missing: model.layers.{0-1}.mlp.up_proj.weight, model.norm.weight"), told),
                () -> assertTrue(told.contains("not in this architecture: model.layers.0.self_attn.q_proj.bias"), told),
                () -> assertTrue(
                        told.contains("model.layers.1.self_attn.q_proj.weight has shape [32, 31], the configuration"
                                + " asks for [32, 32]"),
                        told));
    }

    @Test
    void a_misshapen_tensor_that_two_layers_share_is_told_once() throws IOException {
        String told = spoiled("llama3", c -> c.config().put("vocab_size", 40)).refusal(MalformedModelException.class);
        assertEquals(2, told.split("embed_tokens", -1).length, told);
    }

    @Test
    void a_tensor_that_is_no_float_is_named() throws IOException {
        String told =
                spoiled("llama", c -> c.add("model.norm.weight", DType.I8, 32)).refusal(MalformedModelException.class);
        assertTrue(told.contains("model.norm.weight has elements of type I8"), told);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "num_attention_heads|-4|num_attention_heads is -4, not between 1 and 16777216",
                "num_attention_heads|0|num_attention_heads is 0",
                "num_attention_heads|3|num_attention_heads 3 is not divisible by num_key_value_heads 2",
                "num_attention_heads|4.5|num_attention_heads is 4.5, not a whole number",
                "num_attention_heads|99999999999999999999|not a whole number",
                "num_key_value_heads|3|num_attention_heads 4 is not divisible by num_key_value_heads 3",
                "num_hidden_layers|1000000000|num_hidden_layers is 1000000000, not between 1 and 4096",
                "hidden_size|\"32\"|hidden_size is \"32\", not a whole number",
                "hidden_size|null|the key hidden_size is missing",
                "vocab_size|33554432|vocab_size is 33554432",
                "rms_norm_eps|0|rms_norm_eps is 0, not a positive number",
                "rms_norm_eps|1e999|rms_norm_eps is",
                "head_dim|7|rotary embeddings rotate 7 of 7 elements of a head, not an even number",
                "tie_word_embeddings|\"yes\"|tie_word_embeddings is \"yes\", neither true nor false",
                "rope_parameters|3|rope_parameters is 3, not an object",
                "architectures|7|architectures is 7, not a list",
                "architectures|[7]|architectures holds 7, which is not text",
                "pad_token_id|101|pad_token_id is 101, not between -101 and 100",
                "model_type|[]|model_type is [], not text"
            })
    void an_absurd_value_is_refused_with_its_key(String key, String value, String expected) throws IOException {
        String told = spoiled("llama", c -> {
                    try {
                        c.config().set(key, JSON.readTree(value));
                    } catch (IOException e) {
                        throw new AssertionError(e);
                    }
                })
                .refusal(MalformedModelException.class);
        assertTrue(told.contains(expected), told);
    }

    @Test
    void a_hidden_size_that_heads_do_not_divide_is_refused() throws IOException {
        String told = spoiled("gpt2", c -> c.config().put("n_head", 5)).refusal(MalformedModelException.class);
        assertTrue(told.contains("n_embd 32 is not divisible by n_head 5"), told);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "llama|model_type|mamba|there is no graph for model_type 'mamba'|llama, llama4_text, mistral",
                "llama|hidden_act|gelu_10|hidden_act 'gelu_10'|gelu_new",
                "gpt2|activation_function|laplace|activation_function 'laplace'|relu",
                "bert|position_embedding_type|relative_key|position_embedding_type 'relative_key'|absolute"
            })
    void what_is_not_known_is_refused_with_what_is(String model, String key, String value, String what, String fix)
            throws IOException {
        String told = spoiled(model, c -> c.config().put(key, value)).refusal(UnsupportedModelException.class);
        assertTrue(told.contains(what) && told.contains(fix), told);
    }

    @Test
    void an_unknown_model_type_is_refused_with_the_nearest_architecture_and_what_differs() throws IOException {
        String told =
                spoiled("qwen3", c -> c.config().put("model_type", "qwen9")).refusal(UnsupportedModelException.class);
        assertTrue(told.contains("its tensors are those of Qwen3ForCausalLM"), told);
        told = spoiled("llama", c -> {
                    c.config().put("model_type", "llama9");
                    c.tensors().remove("model.norm.weight");
                    c.add("model.layers.0.mlp.router.weight", DType.F32, 4, 32);
                    c.add("model.layers.1.mlp.router.weight", DType.F32, 4, 32);
                })
                .refusal(UnsupportedModelException.class);
        assertTrue(
                told.contains("the nearest is LlamaForCausalLM, from which its tensors differ: missing:"
                        + " model.norm.weight; not in this architecture: model.layers.{0-1}.mlp.router.weight"),
                told);
    }

    @Test
    void an_unknown_mixture_is_refused_with_the_nearest_and_what_it_has_besides() throws IOException {
        String told = spoiled("deepseek-v3", c -> {
                    c.config().put("model_type", "longcat");
                    c.add("model.layers.0.self_attn.indexer.wk.weight", DType.F32, 4, 32);
                })
                .refusal(UnsupportedModelException.class);
        assertTrue(
                told.contains("the nearest is DeepseekV3ForCausalLM, from which its tensors differ:"
                        + " not in this architecture: model.layers.0.self_attn.indexer.wk.weight"),
                told);
    }

    @Test
    void a_misspelt_model_type_without_tensors_is_refused_with_the_nearest_in_name() {
        ObjectNode config = JSON.createObjectNode().put("model_type", "qwen3_mo");
        UnsupportedModelException e =
                assertThrows(UnsupportedModelException.class, () -> HfImporter.blueprint(config, false, "config.json"));
        assertTrue(e.what().contains("the nearest in name is 'qwen3_moe'"), e.what());
    }

    @Test
    void experts_that_a_shard_lacks_are_named_on_a_line() throws IOException {
        String told = spoiled(
                        "mixtral",
                        c -> c.tensors().keySet().removeIf(n -> n.matches(".*experts\\.[34]\\.w[12]\\.weight")))
                .refusal(MalformedModelException.class);
        assertTrue(
                told.contains("missing: model.layers.{0-1}.block_sparse_moe.experts.{3-4}.w1.weight,"
                        + " model.layers.{0-1}.block_sparse_moe.experts.{3-4}.w2.weight"),
                told);
    }

    @Test
    void more_choices_than_experts_are_refused() throws IOException {
        String told = spoiled("mixtral", c -> c.config().put("num_experts_per_tok", 6))
                .refusal(MalformedModelException.class);
        assertTrue(told.contains("num_experts_per_tok 6 is more than the 5 experts"), told);
    }

    @Test
    void experts_in_one_tensor_give_the_graph_of_experts_in_their_own() throws IOException {
        Spoiled own = Spoiled.of("mixtral");
        Spoiled fused = spoiled("mixtral", c -> {
            for (int layer = 0; layer < 2; layer++) {
                String experts = "model.layers." + layer + ".block_sparse_moe.experts.";
                fuse(c, experts + "gate_up_proj", experts, 48, 16, "w1", "w3");
                fuse(c, experts + "down_proj", experts, 16, 24, "w2");
            }
        });
        assertEquals(
                own.open().model().graph().nodes(), fused.open().model().graph().nodes());
        own.tensors().forEach((name, t) -> {
            Tensor same = requireNonNull(
                            fused.open().model().graph().initializers().get(name))
                    .tensor()
                    .orElseThrow();
            assertEquals(-1, t.bytes().mismatch(same.bytes()), name);
        });
    }

    /** Puts the matrices of five experts into one tensor, in place of their own. */
    private static void fuse(Spoiled c, String name, String experts, long rows, long columns, String... matrices) {
        Tensor all = Tensor.allocate(ARENA, new TensorSpec(name, DType.F32, Shape.of(5, rows, columns)));
        long at = 0;
        for (int e = 0; e < 5; e++) {
            for (String matrix : matrices) {
                Tensor own = requireNonNull(c.tensors().remove(experts + e + "." + matrix + ".weight"));
                all.bytes().asSlice(at, own.bytes().byteSize()).copyFrom(own.bytes());
                at += own.bytes().byteSize();
            }
        }
        c.tensors().put(name, all);
    }

    @Test
    void yarn_stretches_as_transformers_does() {
        // inv_freq and the factor of ROPE_INIT_FUNCTIONS["yarn"] for theta 1000, 8 elements, factor 4, length 16,
        // beta_fast 8, beta_slow 1
        RotaryAngles angles = new YarnScaling(4, 16, 8, 1, true, YarnScaling.magnitude(4, 1)).angles(1000, 8);
        assertArrayEquals(YARN, angles.frequencies(), 1e-8f);
        assertEquals(1.1386294f, angles.magnitude(), 1e-7f);
    }

    private static final float[] YARN = {1.0f, 0.044456985f, 0.007905695f, 0.0014058533f};

    @Test
    void an_unknown_class_of_a_known_architecture_is_refused_with_the_known_ones() throws IOException {
        String told = spoiled("llama", c -> c.config().putArray("architectures").add("LlamaForTokenClassification"))
                .refusal(UnsupportedModelException.class);
        assertTrue(told.contains("LlamaForTokenClassification") && told.contains("LlamaForCausalLM"), told);
    }

    @Test
    void an_unknown_rope_type_is_refused_with_the_known_ones() throws IOException {
        String told = spoiled(
                        "llama",
                        c -> c.config()
                                .putObject("rope_parameters")
                                .put("rope_type", "spiral")
                                .put("factor", 4.0))
                .refusal(UnsupportedModelException.class);
        assertTrue(
                told.contains("rope_type 'spiral'") && told.contains("default, linear, proportional, dynamic, yarn"),
                told);
    }

    @Test
    void an_own_output_weight_that_differs_from_the_tied_embedding_is_refused() throws IOException {
        String told = spoiled("llama", c -> c.config().put("tie_word_embeddings", true))
                .refusal(MalformedModelException.class);
        assertTrue(told.contains("tie_word_embeddings is true, but lm_head.weight and"), told);
    }

    @Test
    void an_own_output_weight_that_equals_the_tied_embedding_is_left_alone() throws IOException {
        Spoiled s = spoiled("llama", c -> {
            c.config().put("tie_word_embeddings", true);
            Tensor embedding = requireNonNull(c.tensors().get("model.embed_tokens.weight"));
            c.tensors().put("lm_head.weight", embedding.withName("lm_head.weight"));
        });
        assertEquals(List.of("lm_head.weight"), s.open().unread());
    }

    @Test
    void rotary_frequencies_of_llama3_are_those_of_transformers_to_the_bit() {
        ObjectNode json = JSON.createObjectNode();
        json.put("max_position_embeddings", 131072);
        json.putObject("rope_parameters")
                .put("rope_type", "llama3")
                .put("rope_theta", 500000.0)
                .put("factor", 32.0)
                .put("low_freq_factor", 1.0)
                .put("high_freq_factor", 4.0)
                .put("original_max_position_embeddings", 8192);
        float[] frequencies =
                RotaryAngles.of(new HfConfig(json, "config.json"), 128).frequencies();
        int[] places = {0, 1, 28, 29, 30, 33, 35, 36, 63};
        // transformers 5.18.0: ROPE_INIT_FUNCTIONS["llama3"] for this configuration
        String[] expected = {
            "3f800000", "3f508ac1", "3b527720", "3b0ad4f8", "3aa9279b", "39699599", "37c86886", "37a3418d", "33a4c2ff"
        };
        for (int i = 0; i < places.length; i++) {
            assertEquals(
                    expected[i],
                    String.format("%08x", Float.floatToRawIntBits(frequencies[places[i]])),
                    "pair " + places[i]);
        }
    }

    /** Expected: {@code layer_types} and {@code sliding_window} of transformers' Qwen2Config and Qwen3Config (5.18.0); 0 for none. */
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "{}|0 0 0",
                "{'sliding_window': 8}|0 0 0",
                "{'use_sliding_window': true}|0 0 0",
                "{'use_sliding_window': true, 'max_window_layers': 2}|0 0 4096",
                "{'use_sliding_window': true, 'max_window_layers': 0}|4096 4096 4096",
                "{'use_sliding_window': true, 'max_window_layers': 0, 'sliding_window': 8}|8 8 8",
                "{'use_sliding_window': true, 'max_window_layers': 0, 'sliding_window': null}|0 0 0",
                "{'use_sliding_window': false, 'max_window_layers': 0, 'sliding_window': 8}|0 0 0",
                "{'use_sliding_window': true, 'layer_types': ['full_attention', 'sliding_attention',"
                        + " 'full_attention']}|0 4096 0"
            })
    void qwen_has_the_windows_that_transformers_gives_it(String keys, String expected) throws IOException {
        ObjectNode json = (ObjectNode) JSON.readTree(keys.replace('\'', '"'));
        json.put("num_hidden_layers", 3);
        IntFunction<Optional<Integer>> windows = SlidingWindow.UPPER_LAYERS.of(new HfConfig(json, "config.json"));
        String found = IntStream.range(0, 3)
                .mapToObj(i -> String.valueOf(windows.apply(i).orElse(0)))
                .collect(Collectors.joining(" "));
        assertEquals(expected, found);
    }

    /** Expected: {@code embed_scale.to(weight.dtype)} of GemmaTextScaledWordEmbedding (5.18.0) for a hidden size of 24. */
    @ParameterizedTest
    @CsvSource({"F32, 4.898979485566356", "BF16, 4.90625", "F16, 4.8984375"})
    void gemma_scales_its_embeddings_by_the_root_of_their_size_rounded_to_their_type(DType type, double expected)
            throws IOException {
        Spoiled s = Spoiled.of("gemma");
        s.add("model.embed_tokens.weight", type, 37, 24);
        Initializer scale =
                requireNonNull(s.open().model().graph().initializers().get("model.embed_tokens.embed_scale"));
        assertEquals((float) expected, scale.tensor().orElseThrow().toFloats()[0]);
    }

    /** GemmaConfig.__post_init__ and Gemma2Config (5.18.0). */
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "gemma |{'hidden_act': 'gelu'}|tanh",
                "gemma |{'hidden_act': 'gelu', 'hidden_activation': null}|tanh",
                "gemma |{'hidden_act': null}|tanh",
                "gemma2|{'hidden_activation': 'gelu'}|none",
                "gemma2|{'hidden_activation': 'gelu_pytorch_tanh', 'hidden_act': 'relu'}|tanh"
            })
    void gemma_has_the_gelu_that_transformers_gives_it(String model, String keys, String approximate)
            throws IOException {
        Spoiled s = spoiled(model, c -> {});
        s.config().setAll((ObjectNode) JSON.readTree(keys.replace('\'', '"')));
        Set<String> found = s.open().model().graph().nodes().stream()
                .filter(n -> n.isOctet("Gelu"))
                .map(n -> n.textAttribute("approximate", ""))
                .collect(Collectors.toSet());
        assertEquals(Set.of(approximate), found);
    }

    @ParameterizedTest
    @CsvSource({"attn_logit_softcapping, Attention", "final_logit_softcapping, Tanh"})
    void a_softcap_that_is_null_is_none(String key, String type) throws IOException {
        Spoiled s = spoiled("gemma2", c -> c.config().putNull(key));
        assertTrue(s.open().model().graph().nodes().stream()
                .filter(n -> n.is(type))
                .allMatch(n -> type.equals("Attention") && n.floatAttribute("softcap", 0) == 0));
    }

    @Test
    void attention_to_later_tokens_is_refused() throws IOException {
        Spoiled s = spoiled("gemma", c -> c.config().put("use_bidirectional_attention", true));
        assertTrue(s.refusal(UnsupportedModelException.class).contains("use_bidirectional_attention"));
    }

    @Test
    void qwen_with_no_full_layers_has_a_window_in_each() throws IOException {
        Spoiled s = spoiled("qwen2", c -> {
            c.config()
                    .put("use_sliding_window", true)
                    .put("max_window_layers", 0)
                    .put("sliding_window", 3);
            c.config().remove("layer_types");
        });
        assertEquals(List.of(), GraphCheck.check(s.open().model()));
        String told =
                spoiled("qwen2", c -> c.config().put("max_window_layers", -1)).refusal(MalformedModelException.class);
        assertTrue(told.contains("max_window_layers is -1, not between 0 and"), told);
    }

    @Test
    void each_layer_reads_its_own_weights() throws IOException {
        try (ModelFile file = ModelFile.open(MODELS.resolve("llama"))) {
            ObjectNode config = ModelConfig.read(MODELS.resolve("llama")).orElseThrow();
            HfImporter.Imported imported = HfImporter.of(config, file.model().tensors(), "llama");
            Set<String> seen = new HashSet<>();
            for (Node n : imported.model().graph().nodes()) {
                if (n.isOctet("Linear")) {
                    assertTrue(seen.add(n.input(1)), n.input(1));
                    assertEquals("/" + n.input(1).replaceAll("\\.(?!\\d)", "/").replaceAll("/weight$", ""), n.name());
                }
            }
            assertEquals(15, seen.size());
        }
    }
}
