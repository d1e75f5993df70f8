package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.hf.DecoderArchitecture.Feature;
import dev.octet.formats.error.UnsupportedModelException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;

/**
 * The sizes of a decoder of tokens, from which its parameters and its work follow; read from {@code config.json} without any weight.
 *
 * @param modelType {@code model_type}
 * @param layers number of layers
 * @param hidden elements of a token between layers
 * @param heads of attention
 * @param mlp of each layer
 * @param embedding tables and head
 * @param norms of each layer and behind the last
 * @param dropout whether training draws masks of dropout
 */
public record TransformerSizes(
        String modelType,
        int layers,
        int hidden,
        Heads heads,
        Mlp mlp,
        Embedding embedding,
        Norms norms,
        boolean dropout) {
    private static final String GPT2 = "gpt2";

    /** Decoders like Llama; each is described by its constant. */
    private static final List<DecoderArchitecture> DECODERS = Decoders.ALL;

    /**
     * Attention.
     *
     * @param queries heads that ask
     * @param keys heads that are asked, of keys and as many of values
     * @param size elements of a head
     * @param inputBias whether the products of queries, keys and values have biases
     * @param outputBias whether the product behind attention has one
     * @param normWeights weights of the norms of queries and keys
     */
    public record Heads(int queries, int keys, int size, boolean inputBias, boolean outputBias, int normWeights) {
        /** Elements of a token's queries. */
        public long queryElements() {
            return (long) queries * size;
        }

        /** Elements of a token's keys; as many are its values. */
        public long keyElements() {
            return (long) keys * size;
        }
    }

    /**
     * The MLP.
     *
     * @param inner elements of a token inside
     * @param gated whether one product is multiplied by another
     * @param bias whether its products have biases
     * @param experts how many there are of it in a layer; 1 without a router
     * @param active how many of them compute for a token
     */
    public record Mlp(int inner, boolean gated, boolean bias, int experts, int active) {
        /** Its matrices. */
        public int matrices() {
            return gated ? 3 : 2;
        }
    }

    /**
     * Tables and head.
     *
     * @param vocabulary tokens
     * @param positions learned ones; 0 where positions are rotations
     * @param tied whether the head is the table of tokens
     * @param context the longest sequence the model is made for
     */
    public record Embedding(int vocabulary, int positions, boolean tied, int context) {}

    /**
     * Norms.
     *
     * @param ofLayer how many a layer has
     * @param vectors weights of one, and its biases: 2 for LayerNorm, 1 for RMSNorm
     */
    public record Norms(int ofLayer, int vectors) {}

    /**
     * Reads the sizes.
     *
     * @param config {@code config.json}
     * @param where the file, for messages
     * @throws UnsupportedModelException for a {@code model_type} that is no decoder known here
     * @throws dev.octet.formats.error.MalformedModelException when a key is missing or absurd
     */
    public static TransformerSizes of(ObjectNode config, String where) {
        HfConfig hf = new HfConfig(config, where);
        String type = hf.text("", "model_type");
        if (type.equals(GPT2)) {
            return gpt2(hf);
        }
        DecoderArchitecture family = DECODERS.stream()
                .filter(d -> d.modelType().equals(type))
                .findFirst()
                .orElseThrow(() -> new UnsupportedModelException(
                        type.isEmpty()
                                ? "config.json has no model_type"
                                : "the sizes of model_type '" + type + "' are not known",
                        where,
                        "known are " + String.join(", ", modelTypes()) + "; of other models give an .onnx export"));
        return decoder(family, hf, type);
    }

    /** Values of {@code model_type} whose sizes are known. */
    public static List<String> modelTypes() {
        List<String> types = new ArrayList<>(List.of(GPT2));
        DECODERS.forEach(d -> types.add(d.modelType()));
        return types.stream().sorted().toList();
    }

    private static TransformerSizes gpt2(HfConfig hf) {
        int hidden = hf.size("n_embd", "hidden_size");
        int heads = hf.size("n_head", "num_attention_heads");
        int positions = hf.size("n_positions", "max_position_embeddings", "n_ctx");
        int inner = hf.sizeOr(4 * hidden, "n_inner", "intermediate_size");
        return new TransformerSizes(
                GPT2,
                hf.layers("n_layer", "num_hidden_layers"),
                hidden,
                new Heads(heads, heads, hf.divided(hidden, "n_embd", heads, "n_head"), true, true, 0),
                new Mlp(inner, false, true, 1, 1),
                new Embedding(hf.size("vocab_size"), positions, hf.flag(true, "tie_word_embeddings"), positions),
                new Norms(2, 2),
                hf.json().path("resid_pdrop").asDouble(0.1) > 0);
    }

    private static TransformerSizes decoder(DecoderArchitecture family, HfConfig hf, String type) {
        int hidden = hf.size("hidden_size");
        int queries = hf.size("num_attention_heads");
        int keys = hf.sizeOr(queries, "num_key_value_heads");
        hf.divided(queries, "num_attention_heads", keys, "num_key_value_heads");
        int layers = hf.layers("num_hidden_layers");
        int size = family.headSize(hf);
        Optional<Mixture> mixture = family.mixture();
        boolean uniform = !family.has(Feature.LATENT_ATTENTION)
                && !family.has(Feature.SINKS)
                && mixture.stream()
                        .allMatch(m -> m.sharedInner(hf).isEmpty()
                                && IntStream.range(0, layers).allMatch(i -> m.isIn(hf, i)));
        if (!uniform) {
            throw new UnsupportedModelException(
                    "the layers of this " + type
                            + " are not alike, or have an expert that all tokens share, or attention of another kind",
                    hf.where(),
                    "give an .onnx export");
        }
        return new TransformerSizes(
                type,
                layers,
                hidden,
                new Heads(
                        queries,
                        keys,
                        size,
                        family.hasInputBias(hf),
                        family.hasOutputBias(hf),
                        family.normWeightsOfHeads(hf, queries, keys, size)),
                new Mlp(
                        hf.size(mixture.map(Mixture::inner).orElse("intermediate_size")),
                        true,
                        family.has(Feature.MLP_BIAS) && hf.flag(false, "mlp_bias"),
                        mixture.map(m -> m.experts(hf)).orElse(1),
                        mixture.map(m -> m.active(hf)).orElse(1)),
                new Embedding(
                        hf.size("vocab_size"),
                        0,
                        hf.flag(family.has(Feature.TIED), "tie_word_embeddings"),
                        hf.sizeOr(2048, "max_position_embeddings")),
                new Norms(family.normsOfLayer(), 1),
                false);
    }

    /** Parameters of the products of attention in a layer, biases included. */
    public long attentionParameters() {
        long in = heads.queryElements() + 2 * heads.keyElements();
        return hidden * in
                + (heads.inputBias() ? in : 0)
                + heads.queryElements() * hidden
                + (heads.outputBias() ? hidden : 0)
                + heads.normWeights();
    }

    /** Parameters of one expert of a layer, or of its only MLP. */
    public long expertParameters() {
        long biases = mlp.bias() ? (mlp.matrices() - 1L) * mlp.inner() + hidden : 0;
        return (long) mlp.matrices() * hidden * mlp.inner() + biases;
    }

    /** Parameters of a layer. */
    public long layerParameters() {
        return outsideExperts() + mlp.experts() * expertParameters();
    }

    /** Parameters of a layer that compute for a token. */
    public long activeLayerParameters() {
        return outsideExperts() + mlp.active() * expertParameters();
    }

    private long outsideExperts() {
        long router = mlp.experts() > 1 ? (long) mlp.experts() * hidden : 0;
        return attentionParameters() + router + (long) norms.ofLayer() * norms.vectors() * hidden;
    }

    /** Parameters of the tables of tokens and positions. */
    public long embeddingParameters() {
        return ((long) embedding.vocabulary() + embedding.positions()) * hidden;
    }

    /** Parameters of the last norm. */
    public long lastNormParameters() {
        return (long) norms.vectors() * hidden;
    }

    /** Parameters of the head; 0 where it is the table of tokens. */
    public long headParameters() {
        return embedding.tied() ? 0 : (long) embedding.vocabulary() * hidden;
    }

    /** All parameters. */
    public long parameters() {
        return layers * layerParameters() + embeddingParameters() + lastNormParameters() + headParameters();
    }

    /** Parameters that compute for a token. */
    public long activeParameters() {
        return parameters() - layers * (layerParameters() - activeLayerParameters());
    }
}
