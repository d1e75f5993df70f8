package dev.octet.converter.checkpoint;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.Shape;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * The weights that a user wants quantised; all patterns search in the weight's own name.
 *
 * @param keep weights that match one of these stay as they are
 * @param only if not empty, weights that match none of these stay as they are
 * @param include heads, routers and embeddings that match one of these are quantised; otherwise they stay as they are
 * @param kept weights that stay as they are, by their own name, with the reason
 */
public record Selection(List<Pattern> keep, List<Pattern> only, List<Pattern> include, Map<String, String> kept) {
    /** All Linears, nothing else. */
    public static final Selection ALL_LINEARS = new Selection(List.of(), List.of(), List.of(), Map.of());

    public Selection {
        keep = List.copyOf(keep);
        only = List.copyOf(only);
        include = List.copyOf(include);
        kept = Map.copyOf(kept);
    }

    /**
     * Whether patterns, reasons and the role of a weight let it be quantised; its shape or type may still not fit a recipe.
     *
     * @param name its own name
     * @param shape its own shape, not that of its codes
     */
    public boolean takes(String name, Shape shape) {
        if (kept.containsKey(name) || matches(keep, name) || (!only.isEmpty() && !matches(only, name))) {
            return false;
        }
        return switch (LinearNames.role(name, shape)) {
            case LINEAR, FUSED_EXPERTS -> true;
            case HEAD, ROUTER, EMBEDDING -> matches(include, name);
            case NORM, OTHER -> false;
        };
    }

    /** Whether a pattern of {@code patterns} finds a match in {@code name}. */
    static boolean matches(List<Pattern> patterns, String name) {
        return patterns.stream().anyMatch(p -> p.matcher(name).find());
    }

    /**
     * Refuses patterns that match nothing, because they are misspelt.
     *
     * @param names own names of all matrices
     * @throws InvalidOptionException naming the pattern
     */
    void requireMatches(Collection<String> names) {
        require("keep", keep, names);
        require("only", only, names);
        require("include", include, names);
    }

    private static void require(String option, List<Pattern> patterns, Collection<String> names) {
        List<String> idle = new ArrayList<>();
        for (Pattern pattern : patterns) {
            if (names.stream().noneMatch(n -> pattern.matcher(n).find())) {
                idle.add(pattern.pattern());
            }
        }
        if (!idle.isEmpty()) {
            throw new InvalidOptionException(
                    "--" + option + " '" + String.join("', '", idle) + "' matches no weight",
                    names.size() + " matrices"
                            + names.stream().findFirst().map(n -> ", as " + n).orElse(""),
                    "see the names with `octet inspect --parameters`");
        }
    }
}
