package dev.octet.bench.gpu;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.safetensors.SafetensorsHeader;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;

/**
 * A model as a folder of Hugging Face with random weights: matrices normal with deviation 0.02, as transformers' {@code initializer_range}
 * has it, multipliers of normalisations 1, biases 0. Names and keys are those of transformers' {@code ViTForImageClassification},
 * {@code GPT2LMHeadModel}, {@code BertForSequenceClassification} and {@code LlamaForCausalLM}.
 *
 * @param tensors F32, in the order of the file
 */
record MadeModel(ObjectNode config, List<TensorSpec> tensors) {
    private static final double DEVIATION = 0.02;

    /** Values that are drawn before they are written. */
    private static final int CHUNK = 1 << 16;

    /** Sizes of a Vision Transformer; images have three channels. */
    record Vit(int hidden, int layers, int heads, int inner, int image, int patch, int labels) {
        /** ViT-Huge with patches of 14 pixels: 632 million parameters (Dosovitskiy et al. 2021, table 1). */
        static final Vit HUGE = new Vit(1280, 32, 16, 5120, 224, 14, 1000);

        int tokens() {
            return (image / patch) * (image / patch) + 1;
        }
    }

    /** Sizes of a GPT-2; the inner width is four times the hidden one. */
    record Gpt2(int hidden, int layers, int heads, int positions, int vocabulary) {
        /** The smallest published one: 124 million parameters. */
        static final Gpt2 SMALL = new Gpt2(768, 12, 12, 1024, 50257);
    }

    /** Sizes of a BERT that classifies texts. */
    record Bert(int hidden, int layers, int heads, int inner, int positions, int vocabulary, int labels) {
        /** BERT-base: 110 million parameters (Devlin et al. 2019). */
        static final Bert BASE = new Bert(768, 12, 12, 3072, 512, 30522, 2);
    }

    /** Sizes of a Llama whose embedding is its head, too. */
    record Llama(int hidden, int layers, int heads, int keyHeads, int inner, int positions, int vocabulary) {
        /** Llama 3.2 with 1.24 billion parameters, for texts of 2048 tokens. */
        static final Llama BILLION = new Llama(2048, 16, 32, 8, 8192, 2048, 128_256);
    }

    static MadeModel of(Vit s) {
        ObjectNode config = config("vit", "ViTForImageClassification")
                .put("hidden_size", s.hidden())
                .put("num_hidden_layers", s.layers())
                .put("num_attention_heads", s.heads())
                .put("intermediate_size", s.inner())
                .put("hidden_act", "gelu")
                .put("hidden_dropout_prob", 0.0)
                .put("attention_probs_dropout_prob", 0.0)
                .put("layer_norm_eps", 1e-12)
                .put("image_size", s.image())
                .put("patch_size", s.patch())
                .put("num_channels", 3)
                .put("qkv_bias", true);
        labels(config, s.labels());
        Draft draft = new Draft();
        draft.add("vit.embeddings.cls_token", 1, 1, s.hidden());
        draft.add("vit.embeddings.position_embeddings", 1, s.tokens(), s.hidden());
        draft.add("vit.embeddings.patch_embeddings.projection.weight", s.hidden(), 3, s.patch(), s.patch());
        draft.add("vit.embeddings.patch_embeddings.projection.bias", s.hidden());
        for (int i = 0; i < s.layers(); i++) {
            String layer = "vit.encoder.layer." + i + ".";
            draft.encoder(layer, "attention", s.hidden(), s.inner());
            draft.layer(layer + "layernorm_before", s.hidden());
            draft.layer(layer + "layernorm_after", s.hidden());
        }
        draft.layer("vit.layernorm", s.hidden());
        draft.layer("classifier", s.labels(), s.hidden());
        return new MadeModel(config, draft.tensors);
    }

    static MadeModel of(Gpt2 s) {
        ObjectNode config = config("gpt2", "GPT2LMHeadModel")
                .put("n_embd", s.hidden())
                .put("n_layer", s.layers())
                .put("n_head", s.heads())
                .put("n_positions", s.positions())
                .put("vocab_size", s.vocabulary())
                .put("activation_function", "gelu_new")
                .put("attn_pdrop", 0.0)
                .put("embd_pdrop", 0.0)
                .put("resid_pdrop", 0.0)
                .put("layer_norm_epsilon", 1e-5)
                .put("tie_word_embeddings", true);
        int inner = 4 * s.hidden();
        Draft draft = new Draft();
        draft.add("transformer.wte.weight", s.vocabulary(), s.hidden());
        draft.add("transformer.wpe.weight", s.positions(), s.hidden());
        for (int i = 0; i < s.layers(); i++) {
            String layer = "transformer.h." + i + ".";
            draft.layer(layer + "ln_1", s.hidden());
            draft.turned(layer + "attn.c_attn", s.hidden(), 3L * s.hidden());
            draft.turned(layer + "attn.c_proj", s.hidden(), s.hidden());
            draft.layer(layer + "ln_2", s.hidden());
            draft.turned(layer + "mlp.c_fc", s.hidden(), inner);
            draft.turned(layer + "mlp.c_proj", inner, s.hidden());
        }
        draft.layer("transformer.ln_f", s.hidden());
        return new MadeModel(config, draft.tensors);
    }

    static MadeModel of(Bert s) {
        ObjectNode config = config("bert", "BertForSequenceClassification")
                .put("hidden_size", s.hidden())
                .put("num_hidden_layers", s.layers())
                .put("num_attention_heads", s.heads())
                .put("intermediate_size", s.inner())
                .put("hidden_act", "gelu")
                .put("hidden_dropout_prob", 0.0)
                .put("attention_probs_dropout_prob", 0.0)
                .put("layer_norm_eps", 1e-12)
                .put("max_position_embeddings", s.positions())
                .put("type_vocab_size", 2)
                .put("vocab_size", s.vocabulary());
        labels(config, s.labels());
        Draft draft = new Draft();
        String embeddings = "bert.embeddings.";
        draft.add(embeddings + "word_embeddings.weight", s.vocabulary(), s.hidden());
        draft.add(embeddings + "position_embeddings.weight", s.positions(), s.hidden());
        draft.add(embeddings + "token_type_embeddings.weight", 2, s.hidden());
        draft.layer(embeddings + "LayerNorm", s.hidden());
        for (int i = 0; i < s.layers(); i++) {
            String layer = "bert.encoder.layer." + i + ".";
            draft.encoder(layer, "self", s.hidden(), s.inner());
            draft.layer(layer + "attention.output.LayerNorm", s.hidden());
            draft.layer(layer + "output.LayerNorm", s.hidden());
        }
        draft.layer("bert.pooler.dense", s.hidden(), s.hidden());
        draft.layer("classifier", s.labels(), s.hidden());
        return new MadeModel(config, draft.tensors);
    }

    static MadeModel of(Llama s) {
        ObjectNode config = config("llama", "LlamaForCausalLM")
                .put("hidden_size", s.hidden())
                .put("num_hidden_layers", s.layers())
                .put("num_attention_heads", s.heads())
                .put("num_key_value_heads", s.keyHeads())
                .put("intermediate_size", s.inner())
                .put("hidden_act", "silu")
                .put("attention_bias", false)
                .put("mlp_bias", false)
                .put("max_position_embeddings", s.positions())
                .put("rms_norm_eps", 1e-5)
                .put("rope_theta", 500_000.0)
                .put("tie_word_embeddings", true)
                .put("vocab_size", s.vocabulary());
        int size = s.hidden() / s.heads();
        Draft draft = new Draft();
        draft.add("model.embed_tokens.weight", s.vocabulary(), s.hidden());
        for (int i = 0; i < s.layers(); i++) {
            String layer = "model.layers." + i + ".";
            draft.add(layer + "input_layernorm.weight", s.hidden());
            draft.add(layer + "self_attn.q_proj.weight", s.hidden(), s.hidden());
            draft.add(layer + "self_attn.k_proj.weight", (long) s.keyHeads() * size, s.hidden());
            draft.add(layer + "self_attn.v_proj.weight", (long) s.keyHeads() * size, s.hidden());
            draft.add(layer + "self_attn.o_proj.weight", s.hidden(), s.hidden());
            draft.add(layer + "post_attention_layernorm.weight", s.hidden());
            draft.add(layer + "mlp.gate_proj.weight", s.inner(), s.hidden());
            draft.add(layer + "mlp.up_proj.weight", s.inner(), s.hidden());
            draft.add(layer + "mlp.down_proj.weight", s.hidden(), s.inner());
        }
        draft.add("model.norm.weight", s.hidden());
        return new MadeModel(config, draft.tensors);
    }

    private static void labels(ObjectNode config, int count) {
        ObjectNode names = config.putObject("id2label");
        ObjectNode numbers = config.putObject("label2id");
        for (int i = 0; i < count; i++) {
            names.put(String.valueOf(i), "LABEL_" + i);
            numbers.put("LABEL_" + i, i);
        }
    }

    private static ObjectNode config(String type, String architecture) {
        ObjectNode config = new ObjectMapper().createObjectNode();
        config.putArray("architectures").add(architecture);
        return config.put("model_type", type).put("dtype", "float32").put("initializer_range", DEVIATION);
    }

    /** Collects tensors. */
    private static final class Draft {
        private final List<TensorSpec> tensors = new ArrayList<>();

        void add(String name, long... dims) {
            tensors.add(new TensorSpec(name, DType.F32, Shape.of(dims)));
        }

        /** Weight and bias, of a Linear [out, in] or of a normalisation [width]. */
        void layer(String name, long... dims) {
            add(name + ".weight", dims);
            add(name + ".bias", dims[0]);
        }

        /** The Linears of an encoder's layer as BERT and ViT name them; {@code attention} has queries, keys and values. */
        void encoder(String layer, String attention, long hidden, long inner) {
            for (String of : List.of("query", "key", "value")) {
                layer(layer + "attention." + attention + "." + of, hidden, hidden);
            }
            layer(layer + "attention.output.dense", hidden, hidden);
            layer(layer + "intermediate.dense", inner, hidden);
            layer(layer + "output.dense", hidden, inner);
        }

        /** A Linear whose weight lies as [in, out], as GPT-2 has them. */
        void turned(String name, long in, long out) {
            add(name + ".weight", in, out);
            add(name + ".bias", out);
        }
    }

    /** Number of parameters. */
    long parameters() {
        return tensors.stream().mapToLong(t -> t.shape().elementCount()).sum();
    }

    /**
     * Writes the same files for where only shapes count: zeros that take no room on the disk, but for a number of its own at the start of each tensor, so
     * that no two are alike.
     */
    void writeEmpty(Path folder) throws IOException {
        Files.createDirectories(folder);
        Files.writeString(folder.resolve("config.json"), config.toPrettyString() + "\n");
        SafetensorsHeader header = SafetensorsHeader.layout(tensors, Map.of("format", "pt"));
        try (FileChannel file = FileChannel.open(
                folder.resolve("model.safetensors"), StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
            write(file, header.toBytes(), 0);
            write(file, new byte[1], header.fileBytes() - 1);
            float number = 0;
            for (SafetensorsHeader.Entry entry : header.entries()) {
                number++;
                byte[] first = ByteBuffer.allocate(Float.BYTES)
                        .order(ByteOrder.LITTLE_ENDIAN)
                        .putFloat(number)
                        .array();
                write(file, first, header.dataStart() + entry.begin());
            }
        }
    }

    private static void write(FileChannel file, byte[] bytes, long at) throws IOException {
        ByteBuffer left = ByteBuffer.wrap(bytes);
        while (left.hasRemaining()) {
            file.write(left, at + left.position());
        }
    }

    /**
     * Writes {@code config.json} and {@code model.safetensors}; equal seeds give equal bytes.
     *
     * @param folder made if it is not there
     */
    void write(Path folder, long seed) throws IOException {
        Files.createDirectories(folder);
        Files.writeString(folder.resolve("config.json"), config.toPrettyString() + "\n");
        SplittableRandom random = new SplittableRandom(seed);
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment chunk = arena.allocate(4L * CHUNK, 4);
            SafetensorsWriter.write(
                    folder.resolve("model.safetensors"), tensors, Map.of("format", "pt"), (spec, sink) -> {
                        long left = spec.shape().elementCount();
                        while (left > 0) {
                            int n = (int) Math.min(CHUNK, left);
                            for (int i = 0; i < n; i++) {
                                chunk.set(Tensor.F32_LE, 4L * i, value(spec, random));
                            }
                            sink.write(chunk.asSlice(0, 4L * n));
                            left -= n;
                        }
                    });
        }
    }

    private static float value(TensorSpec spec, SplittableRandom random) {
        if (spec.name().endsWith(".bias")) {
            return 0;
        }
        return spec.shape().rank() == 1 ? 1 : (float) (DEVIATION * random.nextGaussian());
    }
}
