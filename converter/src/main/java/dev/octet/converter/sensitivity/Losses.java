package dev.octet.converter.sensitivity;

import java.util.List;
import java.util.Optional;

/**
 * The losses of a model's Linears, each measured in every format over the same samples.
 *
 * @param samples how many
 * @param logits the output whose Kullback-Leibler divergence is the loss; empty where it is one minus the cosine of the outputs
 * @param perplexity of the model itself; NaN where there is no head over tokens
 * @param formats in the order asked for
 */
public record Losses(int samples, Optional<String> logits, double perplexity, List<FormatLoss> formats) {
    public Losses {
        formats = List.copyOf(formats);
    }

    /** The loss that layers are ranked by. */
    public double value(OutputLoss loss) {
        return loss.value(logits.isPresent());
    }

    /** The losses in one format. */
    public FormatLoss format(String name) {
        return formats.stream()
                .filter(f -> f.format().name().equals(name))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("not measured: " + name));
    }
}
