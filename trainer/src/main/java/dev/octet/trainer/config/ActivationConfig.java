package dev.octet.trainer.config;

import dev.octet.trainer.activation.ActivationSettings;
import dev.octet.trainer.activation.Kept;
import dev.octet.trainer.activation.Recompute;
import dev.octet.trainer.yaml.Section;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;

/** The keys {@code gradient_checkpointing} and {@code activations}. */
final class ActivationConfig {
    private static final String RECOMPUTE = "gradient_checkpointing";
    private static final Map<String, Kept> KEPT = Map.of("keep", Kept.AS_THEY_ARE, "bf16", Kept.BF16, "fp8", Kept.FP8);

    private ActivationConfig() {}

    /** Reads both from the top of a configuration. */
    static ActivationSettings read(Section s) {
        Recompute recompute =
                s.has(RECOMPUTE) ? s.section(RECOMPUTE).read(ActivationConfig::recompute) : Recompute.NONE;
        return new ActivationSettings(recompute, s.choice("activations", KEPT, Kept.AS_THEY_ARE));
    }

    private static Recompute recompute(Section s) {
        List<String> given = List.of("layers", "every", "match", "budget").stream()
                .filter(s::has)
                .toList();
        if (given.size() != 1) {
            throw s.error(
                    given.isEmpty() ? "layers" : given.get(1),
                    given.isEmpty()
                            ? "nothing says what is computed again"
                            : given.get(0) + " and " + given.get(1) + " are both given",
                    "give one of layers: all, every: N, match: PATTERN, budget: 4GB");
        }
        return switch (given.getFirst()) {
            case "layers" -> s.requiredChoice("layers", Map.of("all", new Recompute.Layers(1)));
            case "every" -> new Recompute.Layers((int) s.requiredWhole("every", 1, Integer.MAX_VALUE));
            case "match" -> matching(s);
            default -> new Recompute.Budget(ByteSize.read(s, "budget"));
        };
    }

    private static Recompute matching(Section s) {
        List<Pattern> patterns = s.patterns("match");
        Optional<Pattern> only = patterns.size() == 1 ? Optional.of(patterns.getFirst()) : Optional.empty();
        return new Recompute.Matching(only.filter(p -> !p.pattern().isEmpty())
                .orElseThrow(() ->
                        s.error("match", "it is not one pattern", "give one regular expression, such as mlp|attn")));
    }
}
