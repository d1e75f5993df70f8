package dev.octet.pipeline.plan;

import dev.octet.converter.hf.TransformerSizes;
import dev.octet.pipeline.plan.Accelerator.ProductType;

/**
 * Bytes that a decoder keeps between forward and backward, by what each operator's backward reads (Korthikanti et al., arXiv:2205.05198, section 4.1), with attention
 * that keeps no scores (Dao et al., arXiv:2205.14135), in 16 bits; under FP8 the inputs of Linears in 8. With plain heads, an MLP of twice two products and dropout that
 * is their {@code 34 s b h} of a layer. All is divided by the tensor-parallel ranks, which share the sequence where they do not share the layer.
 */
@SuppressWarnings("exports") // sizes are read and used within Octet alone
public final class TransformerActivations {
    private static final double WIDE = 2;
    private static final double FP8 = 1;
    private static final double F32 = 4;

    private TransformerActivations() {}

    /** Of one layer, for a token. */
    public static double layer(TransformerSizes sizes, ProductType type) {
        double wide = type == ProductType.FP32 ? F32 : WIDE;
        double linear = type == ProductType.FP8 ? FP8 : wide;
        TransformerSizes.Heads heads = sizes.heads();
        TransformerSizes.Mlp mlp = sizes.mlp();
        double h = sizes.hidden();
        double norms = sizes.norms().ofLayer() * h * wide;
        double attention = h * linear // what q, k and v are computed from
                + (heads.queryElements() + 2 * heads.keyElements()) * wide
                + heads.queryElements() * wide; // its result, which the product behind it reads, too
        double inside = mlp.matrices() == 3 ? 2 : 1; // both factors of a gate, or what the activation function reads
        double expert = h * linear + mlp.inner() * (inside * wide + linear);
        double masks = sizes.dropout() ? 2 * h : 0;
        return norms + attention + mlp.active() * expert + masks;
    }

    /** Of one layer that is computed again, for a token: what it reads. */
    public static double input(TransformerSizes sizes, ProductType type) {
        return sizes.hidden() * (type == ProductType.FP32 ? F32 : WIDE);
    }

    /** Of what comes before the first layer, for a token: its number, and a mask of dropout. */
    public static double embedding(TransformerSizes sizes) {
        return Long.BYTES + (sizes.dropout() ? sizes.hidden() : 0);
    }

    /** Of what comes behind the last layer, for a token: what the last norm and the head read, and the logits in F32. */
    public static double head(TransformerSizes sizes) {
        return F32 * (sizes.hidden() + sizes.embedding().vocabulary());
    }
}
