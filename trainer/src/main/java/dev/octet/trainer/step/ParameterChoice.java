package dev.octet.trainer.step;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.Nearest;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;

/** Which parameters of a model are trained. */
public final class ParameterChoice {
    private ParameterChoice() {}

    /**
     * Those that match one of {@code only} (all when it is empty) and none of {@code freeze}, anywhere in the name.
     *
     * @throws InvalidOptionException when a pattern matches nothing, or nothing is left
     */
    public static Set<String> trained(Collection<String> parameters, List<Pattern> freeze, List<Pattern> only) {
        freeze.forEach(p -> requireMatch(p, "freeze", parameters));
        only.forEach(p -> requireMatch(p, "train_only", parameters));
        Set<String> trained = new TreeSet<>();
        for (String name : parameters) {
            if ((only.isEmpty() || matches(only, name)) && !matches(freeze, name)) {
                trained.add(name);
            }
        }
        if (trained.isEmpty()) {
            throw new InvalidOptionException(
                    "none of the " + parameters.size() + " parameters is trained",
                    "freeze: and train_only: of the configuration",
                    "freeze fewer; `octet inspect` lists the parameters");
        }
        return trained;
    }

    /** Refuses patterns that match no parameter: most likely they are mistyped. */
    public static void requireMatch(Pattern pattern, String key, Collection<String> parameters) {
        if (parameters.stream().noneMatch(n -> pattern.matcher(n).find())) {
            throw new InvalidOptionException(
                    "'" + pattern.pattern() + "' matches none of the " + parameters.size() + " parameters",
                    key + ": of the configuration",
                    Nearest.names(pattern.pattern(), parameters).isEmpty()
                            ? "`octet inspect` lists the parameters"
                            : "did you mean " + String.join(", ", Nearest.names(pattern.pattern(), parameters)) + "?");
        }
    }

    private static boolean matches(List<Pattern> patterns, String name) {
        return patterns.stream().anyMatch(p -> p.matcher(name).find());
    }
}
