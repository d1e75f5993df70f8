package dev.octet.converter.hf;

import dev.octet.converter.hf.DecoderArchitecture.AttentionBias;
import dev.octet.converter.hf.DecoderArchitecture.Feature;
import java.util.List;
import java.util.Set;

/** The families of decoders, each by what it computes otherwise than Llama's layers without biases. Sources: transformers/models. */
final class Decoders {
    /** Llama 1 to 3 and other models of this type. */
    private static final DecoderArchitecture LLAMA = DecoderArchitecture.of("llama", "Llama")
            .withAttentionBias(AttentionBias.CONFIGURED)
            .with(Feature.MLP_BIAS);

    /** Mistral: all layers may see only a window of positions. */
    private static final DecoderArchitecture MISTRAL =
            DecoderArchitecture.of("mistral", "Mistral").withWindow(SlidingWindow.ALL_LAYERS);

    /** Qwen2 and Qwen2.5: biases on q, k and v, windows in some layers. */
    private static final DecoderArchitecture QWEN2 = DecoderArchitecture.of("qwen2", "Qwen2")
            .withAttentionBias(AttentionBias.QKV)
            .withWindow(SlidingWindow.UPPER_LAYERS);

    /** Qwen3: heads of q and k are normalised and have a size of their own. */
    private static final DecoderArchitecture QWEN3 = DecoderArchitecture.of("qwen3", "Qwen3")
            .withAttentionBias(AttentionBias.CONFIGURED)
            .withWindow(SlidingWindow.UPPER_LAYERS)
            .withHeadSize(128)
            .with(Feature.HEAD_NORMS);

    /** Gemma: norms around one, scaled and tied embeddings, Gelu. */
    private static final DecoderArchitecture GEMMA = DecoderArchitecture.of("gemma", "Gemma")
            .withAttentionBias(AttentionBias.CONFIGURED)
            .withHeadSize(256)
            .withActivation(MlpActivation.GEMMA)
            .withPadding(0)
            .with(Feature.NORM_OFFSET, Feature.SCALED_EMBEDDINGS, Feature.TIED);

    /** Gemma 2: capped scores and logits, norms behind attention and MLP, windows in every other layer. */
    private static final DecoderArchitecture GEMMA2 = DecoderArchitecture.of("gemma2", "Gemma2")
            .withAttentionBias(AttentionBias.CONFIGURED)
            .withWindow(SlidingWindow.EVERY_OTHER_LAYER)
            .withHeadSize(256)
            .withActivation(MlpActivation.GEMMA)
            .withScores(ScoreScaling.GEMMA2)
            .withPadding(0)
            .with(Feature.NORM_OFFSET, Feature.SCALED_EMBEDDINGS, Feature.OUTPUT_NORMS, Feature.TIED);

    /** The text model of Gemma 3: as Gemma 2, heads of q and k normalised, another rotary base where there is a window. */
    private static final DecoderArchitecture GEMMA3 = DecoderArchitecture.of("gemma3_text", "Gemma3")
            .withBareClass("Gemma3TextModel")
            .withAttentionBias(AttentionBias.CONFIGURED)
            .withWindow(SlidingWindow.FIVE_OF_SIX)
            .withRotated(RotatedLayers.TWO_BASES)
            .withRotary(RotaryAngles.Family.LLAMA.withTheta(1_000_000))
            .withHeadSize(256)
            .withActivation(MlpActivation.GEMMA)
            .withScores(ScoreScaling.GEMMA3)
            .withPadding(0)
            .with(
                    Feature.NORM_OFFSET,
                    Feature.SCALED_EMBEDDINGS,
                    Feature.OUTPUT_NORMS,
                    Feature.HEAD_NORMS,
                    Feature.TIED);

    /** Phi-3, Phi-3.5 and Phi-4: q, k and v in one Linear, gate and up in one, a part of each head rotated in some. */
    private static final DecoderArchitecture PHI3 = DecoderArchitecture.of("phi3", "Phi3")
            .withWindow(SlidingWindow.ALL_LAYERS_IF_GIVEN)
            .withRotary(new RotaryAngles.Family(RotaryAngles.DEFAULT_THETA, 1, Set.of("su", "yarn")))
            .withEpsilon(1e-5)
            .withPadding(32_000)
            .with(Feature.FUSED_QKV, Feature.FUSED_GATE_UP);

    /** OLMo 2: norms behind attention and MLP instead of before them, and over all heads of q and k. */
    private static final DecoderArchitecture OLMO2 = DecoderArchitecture.of("olmo2", "Olmo2")
            .withAttentionBias(AttentionBias.CONFIGURED)
            .withEpsilon(1e-5)
            .withPadding(1)
            .with(Feature.OUTPUT_NORMS_ONLY, Feature.PROJECTION_NORMS);

    /** SmolLM3: each fourth layer has no positions. */
    private static final DecoderArchitecture SMOLLM3 = DecoderArchitecture.of("smollm3", "SmolLM3")
            .withAttentionBias(AttentionBias.CONFIGURED)
            .withWindow(SlidingWindow.WITHOUT_POSITIONS)
            .withRotated(RotatedLayers.LISTED)
            .withRotary(RotaryAngles.Family.LLAMA.withTheta(2_000_000))
            .withPadding(128_004)
            .with(Feature.MLP_BIAS, Feature.TIED);

    /** Granite 3 without experts: embeddings, residuals, scores and logits have factors. */
    private static final DecoderArchitecture GRANITE = DecoderArchitecture.of("granite", "Granite")
            .withAttentionBias(AttentionBias.CONFIGURED)
            .withScores(ScoreScaling.GRANITE)
            .with(Feature.MLP_BIAS, Feature.MULTIPLIERS);

    /** Cohere's Command R: attention beside the MLP, LayerNorm without bias, neighbours rotated, scaled logits. */
    private static final DecoderArchitecture COHERE = DecoderArchitecture.of("cohere", "Cohere")
            .withAttentionBias(AttentionBias.CONFIGURED)
            .withRotary(RotaryAngles.Family.LLAMA.withTheta(500_000))
            .withScores(ScoreScaling.COHERE)
            .withEpsilon(1e-5)
            .withPadding(0)
            .with(
                    Feature.PARALLEL,
                    Feature.LAYER_NORMS,
                    Feature.CONFIGURED_HEAD_NORMS,
                    Feature.INTERLEAVED,
                    Feature.TIED);

    /** Command R7B and A: as Cohere, windows in three of four layers, positions in these only. */
    private static final DecoderArchitecture COHERE2 = DecoderArchitecture.of("cohere2", "Cohere2")
            .withAttentionBias(AttentionBias.CONFIGURED)
            .withWindow(SlidingWindow.THREE_OF_FOUR)
            .withRotated(RotatedLayers.WINDOWED)
            .withScores(ScoreScaling.COHERE)
            .withEpsilon(1e-5)
            .withPadding(0)
            .with(Feature.PARALLEL, Feature.LAYER_NORMS, Feature.INTERLEAVED, Feature.TIED);

    /** Mixtral: Mistral's layers with experts. */
    private static final DecoderArchitecture MIXTRAL = DecoderArchitecture.of("mixtral", "Mixtral")
            .withWindow(SlidingWindow.ALL_LAYERS)
            .withRotary(RotaryAngles.Family.LLAMA.withTheta(1_000_000))
            .withEpsilon(1e-5)
            .withMixture(Mixture.MIXTRAL);

    /** Qwen2-MoE, such as Qwen1.5-MoE-A2.7B: Qwen2's layers with experts. */
    private static final DecoderArchitecture QWEN2_MOE = DecoderArchitecture.of("qwen2_moe", "Qwen2Moe")
            .withAttentionBias(AttentionBias.QKV_CONFIGURED)
            .withWindow(SlidingWindow.LOWER_EVEN_LAYERS)
            .withMixture(Mixture.QWEN2);

    /** Qwen3-MoE: Qwen3's layers with experts. */
    private static final DecoderArchitecture QWEN3_MOE = DecoderArchitecture.of("qwen3_moe", "Qwen3Moe")
            .withAttentionBias(AttentionBias.CONFIGURED)
            .withWindow(SlidingWindow.SWITCHED)
            .with(Feature.HEAD_NORMS)
            .withMixture(Mixture.QWEN3);

    /** DeepSeek-V2: latent attention, groups of experts. */
    private static final DecoderArchitecture DEEPSEEK_V2 = DecoderArchitecture.of("deepseek_v2", "DeepseekV2")
            .withAttentionBias(AttentionBias.CONFIGURED)
            .withScores(ScoreScaling.YARN)
            .with(Feature.LATENT_ATTENTION)
            .withMixture(Mixture.DEEPSEEK_V2);

    /** DeepSeek-V3 and R1: that with another router. */
    private static final DecoderArchitecture DEEPSEEK_V3 = DecoderArchitecture.of("deepseek_v3", "DeepseekV3")
            .withAttentionBias(AttentionBias.CONFIGURED)
            .withScores(ScoreScaling.YARN)
            .with(Feature.LATENT_ATTENTION)
            .withMixture(Mixture.DEEPSEEK_V3);

    /** gpt-oss: sinks, windows in every other layer, clamped experts with biases. */
    private static final DecoderArchitecture GPT_OSS = DecoderArchitecture.of("gpt_oss", "GptOss")
            .withAttentionBias(AttentionBias.CONFIGURED)
            .withWindow(SlidingWindow.EVERY_OTHER_LAYER)
            .withRotary(RotaryAngles.Family.LLAMA.withTheta(150_000))
            .withHeadSize(64)
            .withEpsilon(1e-5)
            .with(Feature.SINKS)
            .withMixture(Mixture.GPT_OSS);

    /** The text model of Llama 4: layers without positions or with chunks, queries that grow with the text, one expert for each token. */
    private static final DecoderArchitecture LLAMA4 = DecoderArchitecture.of("llama4_text", "Llama4")
            .withBareClass("Llama4TextModel")
            .withAttentionBias(AttentionBias.CONFIGURED)
            .withWindow(SlidingWindow.CHUNKS)
            .withRotated(RotatedLayers.LISTED)
            .withRotary(RotaryAngles.Family.LLAMA.withTheta(500_000))
            .withHeadSize(128)
            .withEpsilon(1e-5)
            .with(Feature.INTERLEAVED, Feature.TEMPERATURE)
            .withMixture(Mixture.LLAMA4);

    /** One more family is one more constant and its place here. */
    static final List<DecoderArchitecture> ALL = List.of(
            LLAMA,
            MISTRAL,
            QWEN2,
            QWEN3,
            GEMMA,
            GEMMA2,
            GEMMA3,
            PHI3,
            OLMO2,
            SMOLLM3,
            GRANITE,
            COHERE,
            COHERE2,
            MIXTRAL,
            QWEN2_MOE,
            QWEN3_MOE,
            DEEPSEEK_V2,
            DEEPSEEK_V3,
            GPT_OSS,
            LLAMA4);

    private Decoders() {}
}
