package dev.octet.converter.verify;

import dev.octet.converter.checkpoint.TensorRole;

/** Tied embeddings that are quantised, or stored twice. */
final class TiedEmbeddings extends CheckpointRule {
    TiedEmbeddings() {
        super(
                "tied-embeddings",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "With tie_word_embeddings, embedding and head are one tensor, and not quantised.",
                "store the embedding once in 16 bits and no lm_head, or set tie_word_embeddings to false",
                "huggingface/transformers#37905");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        if (subject.config() == null
                || !subject.config().path("tie_word_embeddings").asBoolean(false)) {
            return;
        }
        for (LayerTensors layer : subject.layers().values()) {
            boolean head = layer.last().equals("lm_head") && layer.weight() != null;
            boolean tied = head || (layer.last().equals("embed_tokens") && layer.role() == TensorRole.EMBEDDING);
            if (tied && subject.isQuantized(layer)) {
                findings.add(this, "a tied embedding or head is quantised", layer.module(), "");
            } else if (head) {
                findings.add(
                        this,
                        Severity.WARNING,
                        consumers(),
                        "embeddings are tied, and there is a head: which one wins depends on the loader",
                        layer.module(),
                        "");
            }
        }
    }
}
