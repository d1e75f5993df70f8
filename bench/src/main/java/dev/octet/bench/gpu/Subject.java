package dev.octet.bench.gpu;

import dev.octet.formats.error.InvalidOptionException;

/**
 * What is trained.
 *
 * @param loss for the configuration
 * @param unit what is counted a second
 * @param units of one sample
 * @param batch samples of a step where it is measured
 */
record Subject(String name, MadeModel model, MadeSamples samples, String loss, String unit, int units, int batch) {
    /** Samples of a step of a small model. */
    private static final int FEW = 2;

    /** A model by its name; the small ones show that everything works, and are not measure. */
    static Subject of(String name) {
        return switch (name) {
            case "vit-huge" -> vit(name, MadeModel.Vit.HUGE);
            case "vit-small" -> vit(name, new MadeModel.Vit(64, 2, 4, 128, 32, 8, 10));
            case "gpt2" -> gpt2(name, MadeModel.Gpt2.SMALL);
            case "gpt2-small" -> gpt2(name, new MadeModel.Gpt2(64, 2, 4, 32, 128));
            case "bert" -> bert(name, MadeModel.Bert.BASE);
            case "bert-small" -> bert(name, new MadeModel.Bert(64, 2, 4, 128, 32, 128, 2));
            case "llama" -> llama(name, MadeModel.Llama.BILLION);
            case "llama-small" -> llama(name, new MadeModel.Llama(64, 2, 4, 2, 128, 32, 128));
            default ->
                throw new InvalidOptionException(
                        "unknown model '" + name + "'",
                        "step",
                        "valid: vit-huge, vit-small, gpt2, gpt2-small, bert, bert-small, llama, llama-small");
        };
    }

    private static Subject vit(String name, MadeModel.Vit sizes) {
        return new Subject(
                name,
                MadeModel.of(sizes),
                MadeSamples.images(sizes.image(), sizes.labels()),
                "{type: cross-entropy, output: logits}",
                "images",
                1,
                sizes.equals(MadeModel.Vit.HUGE) ? 64 : FEW);
    }

    private static Subject gpt2(String name, MadeModel.Gpt2 sizes) {
        int batch = sizes.equals(MadeModel.Gpt2.SMALL) ? 32 : FEW;
        return language(name, MadeModel.of(sizes), sizes.positions(), sizes.vocabulary(), batch);
    }

    private static Subject bert(String name, MadeModel.Bert sizes) {
        return new Subject(
                name,
                MadeModel.of(sizes),
                MadeSamples.labelledTexts(sizes.positions(), sizes.vocabulary(), sizes.labels()),
                "{type: cross-entropy, output: logits}",
                "tokens",
                sizes.positions(),
                sizes.equals(MadeModel.Bert.BASE) ? 32 : FEW);
    }

    private static Subject llama(String name, MadeModel.Llama sizes) {
        int batch = sizes.equals(MadeModel.Llama.BILLION) ? 8 : FEW;
        return language(name, MadeModel.of(sizes), sizes.positions(), sizes.vocabulary(), batch);
    }

    private static Subject language(String name, MadeModel model, int positions, int vocabulary, int batch) {
        return new Subject(
                name,
                model,
                MadeSamples.texts(positions, vocabulary),
                "{type: causal-lm, output: logits}",
                "tokens",
                positions,
                batch);
    }

    /** The run's configuration: AdamW and clipping, as the peers have them. */
    String config(String precision, int batch, int steps) {
        return """
            data: {train: made, shuffle: false}
            loss: %s
            batch_size: %d
            steps: %d
            optimizer: {type: adamw, lr: 1.0e-4, weight_decay: 0.01}
            clip_grad_norm: 1.0
            precision: %s
            """.formatted(loss, batch, steps, precision);
    }
}
