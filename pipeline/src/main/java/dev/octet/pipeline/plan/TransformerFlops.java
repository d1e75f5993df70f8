package dev.octet.pipeline.plan;

import dev.octet.converter.hf.TransformerSizes;

/**
 * Multiplications and additions of matrix products that a decoder takes for a token; other operations are few beside them.
 *
 * <p>Forward of a Linear takes 2 for each of its parameters, backward twice that, hence 6 N D for N parameters and D tokens (Kaplan et al., arXiv:2001.08361). Attention
 * takes 4 s a d more in forward (scores and what they weigh; s positions, a heads of d), counted in full although causal attention needs half, as in the definition of
 * model FLOPs utilisation (Chowdhery et al., arXiv:2204.02311).
 */
@SuppressWarnings("exports") // sizes are read and used within Octet alone
public final class TransformerFlops {
    private TransformerFlops() {}

    /** Forward of the Linears of all layers, for a token. */
    public static double linears(TransformerSizes sizes) {
        return sizes.layers() * layerLinears(sizes);
    }

    /** Forward of the Linears of one layer, for a token. */
    static double layerLinears(TransformerSizes sizes) {
        TransformerSizes.Heads heads = sizes.heads();
        double attention = (double) sizes.hidden() * (2 * heads.queryElements() + 2 * heads.keyElements());
        double expert =
                (double) sizes.mlp().matrices() * sizes.hidden() * sizes.mlp().inner();
        double router = sizes.mlp().experts() > 1
                ? (double) sizes.hidden() * sizes.mlp().experts()
                : 0;
        return 2 * (attention + sizes.mlp().active() * expert + router);
    }

    /** Forward of attention in all layers, for a token of a sequence of {@code length}. */
    public static double attention(TransformerSizes sizes, int length) {
        return sizes.layers() * layerAttention(sizes, length);
    }

    static double layerAttention(TransformerSizes sizes, int length) {
        return 4.0 * length * sizes.heads().queryElements();
    }

    /** Forward of the head, for a token. */
    public static double head(TransformerSizes sizes) {
        return 2.0 * sizes.hidden() * sizes.embedding().vocabulary();
    }

    /** Forward, for a token of a sequence of {@code length}. */
    public static double forward(TransformerSizes sizes, int length) {
        return linears(sizes) + attention(sizes, length) + head(sizes);
    }

    /** Forward and backward, for a token of a sequence of {@code length}: nothing computed twice. */
    public static double training(TransformerSizes sizes, int length) {
        return 3 * forward(sizes, length);
    }

    /** {@code 6 N}, for a token: N are the parameters that compute for it. */
    public static double sixN(TransformerSizes sizes) {
        return 6.0 * sizes.activeParameters();
    }
}
