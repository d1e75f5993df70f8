package dev.octet.converter.checkpoint;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.quant.layout.LayoutContents;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The Linear modules of a transformers class whose names differ from the checkpoint's tensors or that have no tensor: a tied head shares
 * the embedding's, some classes name modules differently from their files, and a base model's file lacks the prefix that its modules have
 * in a model with a head.
 *
 * <p>Consumers quantise by the class of a module ({@code targets: ["Linear"]}), so a configuration has to list every unquantised Linear by
 * the consumer's name. If one is missing, the consumer expects a scale that does not exist, and every output is NaN.
 *
 * <p>Source: {@code linear-modules.tsv} next to this class, made from transformers 5.18 by {@code testdata/make/linear_modules.py}.
 */
public final class LinearModules {
    private static final String RESOURCE = "linear-modules.tsv";
    private static final String TIED = "= ";

    /** For classes unknown to transformers 5.18: most decoders name their head this way. */
    private static final LinearModules UNKNOWN =
            new LinearModules("", List.of(new Tie("lm_head", "model.embed_tokens")), List.of(), Set.of());

    private final String prefix;
    private final List<Tie> ties;
    private final List<Renaming> renamings;
    private final Set<String> others;

    /** A module that shares the weight of {@code source}; both may have {@code *} for numbers. */
    private record Tie(String module, String source) {}

    /** A module and its name in files; {@code *} stands for the same number in both. */
    private record Renaming(String module, String stored, List<String> storedParts) {
        Renaming(String module, String stored) {
            this(module, stored, List.of(stored.split("\\.", -1)));
        }
    }

    private LinearModules(String prefix, List<Tie> ties, List<Renaming> renamings, Set<String> others) {
        this.prefix = prefix;
        this.ties = List.copyOf(ties);
        this.renamings = List.copyOf(renamings);
        this.others = Set.copyOf(others);
    }

    /**
     * The modules of the class that a configuration names in {@code architectures}.
     *
     * @param config {@code config.json}; null without one
     */
    public static LinearModules of(@Nullable ObjectNode config) {
        JsonNode architectures = config == null ? null : config.get("architectures");
        String name = architectures == null ? "" : architectures.path(0).asText("");
        return Table.BY_CLASS.getOrDefault(name, UNKNOWN);
    }

    /**
     * Linear modules that share another module's weight and have no tensor in the checkpoint, in the order of the class. {@code *} stands
     * for the number of a layer or expert, as in {@link LayoutContents#keptLinears}.
     *
     * @param stored paths of the modules that have a tensor in the checkpoint
     */
    public List<String> unstored(Collection<String> stored) {
        Set<String> all = stored instanceof Set<String> set ? set : Set.copyOf(stored);
        return ties.stream()
                .map(Tie::module)
                .filter(m -> !all.contains(m) && !isStoredElsewhere(m, all))
                .toList();
    }

    private boolean isStoredElsewhere(String module, Set<String> stored) {
        return renamings.stream().anyMatch(r -> r.module().equals(module) && stored.contains(r.stored()));
    }

    /**
     * Whether other Linear modules of the class share this module's weight. Files hold the weight once; its scale would be missing for the
     * others.
     *
     * @param module path of a module
     */
    boolean isShared(String module) {
        String starred = star(module);
        return ties.stream().anyMatch(t -> t.source().equals(starred));
    }

    /**
     * Whether transformers is known not to use a Linear for a matrix, but a Conv1D, a router's own parameter or a class with its own
     * quantisation.
     *
     * @param module path of its module as the checkpoint has it
     */
    boolean isNoLinear(String module) {
        return others.contains(star(module));
    }

    /**
     * Names that consumers may give a module of a checkpoint other than its own path: the name after transformers' renaming during loading,
     * with the base model's prefix where the checkpoint has none, and without it as in a model without its head.
     *
     * @param module path of a module as the checkpoint has it
     * @param stored paths of all modules of the checkpoint
     */
    public List<String> otherNames(String module, Collection<String> stored) {
        return otherNames(module, hasPrefix(stored));
    }

    /**
     * The {@link #otherNames(String, Collection)} of several modules, in order.
     *
     * @param modules paths as the checkpoint has them
     * @param stored paths of all modules of the checkpoint
     */
    public List<String> otherNames(Collection<String> modules, Collection<String> stored) {
        boolean prefixed = hasPrefix(stored);
        List<String> names = new ArrayList<>();
        modules.forEach(m -> names.addAll(otherNames(m, prefixed)));
        return names;
    }

    private boolean hasPrefix(Collection<String> stored) {
        String start = prefix + ".";
        return stored.stream().anyMatch(s -> s.startsWith(start));
    }

    private List<String> otherNames(String module, boolean prefixed) {
        if (prefix.isEmpty() && renamings.isEmpty()) {
            return List.of();
        }
        Set<String> names = new LinkedHashSet<>(List.of(module));
        if (!prefix.isEmpty()) {
            String start = prefix + ".";
            if (module.startsWith(start)) {
                names.add(module.substring(start.length()));
            } else if (!prefixed) {
                names.add(start + module);
            }
        }
        if (!renamings.isEmpty()) {
            List.copyOf(names).forEach(n -> names.addAll(renamed(n)));
        }
        names.remove(module);
        return List.copyOf(names);
    }

    /**
     * The names that transformers gives a module of a checkpoint; empty if they equal the checkpoint's.
     *
     * @param module path of a module as the checkpoint has it
     */
    public List<String> renamed(String module) {
        if (renamings.isEmpty()) {
            return List.of();
        }
        String[] parts = module.split("\\.", -1);
        return renamings.stream()
                .flatMap(r -> rename(r, parts).stream())
                .distinct()
                .toList();
    }

    /** The module's name for the path of these parts, if the path is the stored name of {@code renaming}. */
    private static Optional<String> rename(Renaming renaming, String[] parts) {
        List<String> pattern = renaming.storedParts();
        if (pattern.size() != parts.length) {
            return Optional.empty();
        }
        List<String> numbers = new ArrayList<>();
        for (int i = 0; i < parts.length; i++) {
            if (pattern.get(i).equals("*") && isNumber(parts[i])) {
                numbers.add(parts[i]);
            } else if (!pattern.get(i).equals(parts[i])) {
                return Optional.empty();
            }
        }
        var number = numbers.iterator();
        return Optional.of(String.join(
                ".",
                Arrays.stream(renaming.module().split("\\.", -1))
                        .map(p -> p.equals("*") && number.hasNext() ? number.next() : p)
                        .toList()));
    }

    private static String star(String module) {
        return String.join(
                ".",
                Arrays.stream(module.split("\\.", -1))
                        .map(p -> isNumber(p) ? "*" : p)
                        .toList());
    }

    private static boolean isNumber(String part) {
        return !part.isEmpty() && part.chars().allMatch(c -> c >= '0' && c <= '9');
    }

    /** Read at first use. */
    private static final class Table {
        private static final Map<String, LinearModules> BY_CLASS = read();

        private Table() {}

        private static Map<String, LinearModules> read() {
            Map<String, LinearModules> classes = new HashMap<>();
            try (InputStream in = LinearModules.class.getResourceAsStream(RESOURCE)) {
                if (in == null) {
                    throw new IllegalStateException(RESOURCE + " is not in the jar");
                }
                List<String> names = List.of();
                String prefix = "";
                List<Tie> ties = new ArrayList<>();
                List<Renaming> renamings = new ArrayList<>();
                Set<String> others = new LinkedHashSet<>();
                List<String> lines = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8))
                        .lines()
                        .toList();
                for (String line :
                        Stream.concat(lines.stream(), Stream.of("@\t-")).toList()) {
                    List<String> cells = List.of(line.split("\t", -1));
                    if (line.startsWith("@")) {
                        LinearModules modules = new LinearModules(prefix, ties, renamings, others);
                        names.forEach(n -> classes.put(n, modules));
                        prefix = cells.get(1).equals("-") ? "" : cells.get(1);
                        names = cells.subList(2, cells.size());
                        ties.clear();
                        renamings.clear();
                        others.clear();
                    } else if (!line.startsWith("#") && cells.size() == 2) {
                        String other = cells.get(1);
                        if (cells.getFirst().equals("!")) {
                            others.add(other);
                        } else if (other.startsWith(TIED)) {
                            ties.add(new Tie(cells.getFirst(), other.substring(TIED.length())));
                        } else {
                            renamings.add(new Renaming(cells.getFirst(), other));
                        }
                    }
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
            return Map.copyOf(classes);
        }
    }
}
