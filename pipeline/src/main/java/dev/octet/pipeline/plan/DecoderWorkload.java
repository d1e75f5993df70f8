package dev.octet.pipeline.plan;

import dev.octet.converter.hf.TransformerSizes;
import dev.octet.trainer.collective.Mesh;
import java.util.Optional;

/**
 * A decoder of tokens, of which layers can be dealt out to stages and shared by ranks as Megatron does (Shoeybi et al., arXiv:1909.08053): q, k, v, gate and up by
 * columns, the products behind them by rows, tables by tokens.
 */
@SuppressWarnings("exports") // sizes are read and used within Octet alone
public record DecoderWorkload(TransformerSizes sizes) implements Workload {
    /** Tensor-parallel ranks gather the sequence before attention and MLP, and scatter sums behind each. */
    private static final int EXCHANGES = 4;

    /** Each value that is kept is written once and read once in forward. */
    private static final double PASSES = 2;

    @Override
    public long parameters() {
        return sizes.parameters();
    }

    @Override
    public double flops(PlannedStep work) {
        return TransformerFlops.training(sizes, work.length()) * work.tokens();
    }

    @Override
    public Optional<String> against(Mesh mesh) {
        int t = mesh.tensor();
        int queries = sizes.heads().queries();
        int keys = sizes.heads().keys();
        if (queries % t != 0) {
            return Optional.of(queries + " heads of attention are not divisible by tensor " + t);
        }
        if (keys % t != 0 && t % keys != 0) {
            return Optional.of(keys + " heads of keys are neither divisible by tensor " + t + " nor a divisor of it");
        }
        if (sizes.mlp().inner() % t != 0) {
            return Optional.of("the MLP's " + sizes.mlp().inner() + " elements are not divisible by tensor " + t);
        }
        int parts = mesh.pipeline() * mesh.chunks();
        if (sizes.layers() % parts != 0 && (parts == 1 || (sizes.layers() + 2) % parts != 0)) {
            return Optional.of(sizes.layers() + " layers are not divisible by pipeline " + mesh.pipeline()
                    + (mesh.chunks() > 1 ? " x " + mesh.chunks() + " chunks" : "")
                    + ", nor with the embedding and the head as layers");
        }
        return Optional.empty();
    }

    /** Layers of a stage; where they do not go evenly, the first and the last have one less, with the embedding and the head in its place. */
    int layers(Mesh mesh, int stage) {
        int p = mesh.pipeline();
        if (sizes.layers() % (p * mesh.chunks()) == 0) {
            return sizes.layers() / p;
        }
        int each = (sizes.layers() + 2) / p;
        return each - (stage == 0 ? 1 : 0) - (stage == p - 1 ? 1 : 0);
    }

    @Override
    public StageLoad stage(Mesh mesh, int stage, int microBatch, PlannedStep work) {
        double t = mesh.tensor();
        double tokens = (double) microBatch * work.length();
        int layers = layers(mesh, stage);
        boolean first = stage == 0;
        boolean last = stage == mesh.pipeline() - 1;
        double parameters = (double) layers * sizes.layerParameters()
                + (first ? sizes.embeddingParameters() : 0)
                + (last ? sizes.lastNormParameters() + head(mesh) : 0);
        double kept = TransformerActivations.layer(sizes, work.type()) * tokens / t;
        double embedding = first ? TransformerActivations.embedding(sizes) * tokens / t : 0;
        double passed = 2.0 * sizes.hidden() * tokens;
        return new StageLoad(
                parameters / t,
                sizes.layerParameters() / t,
                layers * TransformerFlops.layerLinears(sizes) * tokens / t,
                layers * TransformerFlops.layerAttention(sizes, work.length()) * tokens / t,
                last ? TransformerFlops.head(sizes) * tokens / t : 0,
                PASSES * layers * kept + (last ? PASSES * TransformerActivations.head(sizes) * tokens / t : 0),
                layers * kept + embedding,
                layers * TransformerActivations.input(sizes, work.type()) * tokens / t + embedding,
                kept,
                last ? TransformerActivations.head(sizes) * tokens / t : 0,
                EXCHANGES * layers * Traffic.ring(mesh.tensor(), passed),
                passed / t);
    }

    /** Parameters of the head on the last stage: those of a tied head are on both ends. */
    private long head(Mesh mesh) {
        return sizes.embedding().tied() && mesh.pipeline() > 1
                ? (long) sizes.embedding().vocabulary() * sizes.hidden()
                : sizes.headParameters();
    }
}
