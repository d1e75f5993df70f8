package dev.octet.formats.peft;

import com.fasterxml.jackson.databind.JsonNode;
import dev.octet.formats.error.MalformedModelException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.SequencedMap;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Which modules of a base model an adapter changes, chosen as PEFT 0.21 chooses ({@code check_target_module_exists} and {@code
 * _maybe_include_all_linear_layers} in {@code tuners/tuners_utils.py}):
 *
 * <ol>
 *   <li>{@code exclude_modules} and the modules that {@code modules_to_save} names, with all below them, are out.
 *   <li>A list matches the modules whose path equals an entry or ends in a dot and the entry; of these only the layers of {@code
 *       layers_to_transform}, if it is given.
 *   <li>A text is a regular expression for the whole path, except {@code all-linear} (in any case): every Linear but the output head.
 * </ol>
 */
public final class TargetModules {
    /** The text that stands for every Linear but the output head. */
    public static final String ALL_LINEAR = "all-linear";

    private final Names targets;
    private final Names excluded;
    private final List<PythonRegex> saved;
    private final Set<Integer> layers;
    private final List<PythonRegex> layerNumbers;

    /** Names of modules: none, a list, or one text. */
    private record Names(
            List<String> entries, Set<String> set, @Nullable PythonRegex regex) {
        static Names of(ConfigKeys keys, String key) {
            JsonNode value = keys.json().get(key);
            if (value != null && value.isTextual()) {
                String text = value.textValue();
                boolean allLinear = text.toLowerCase(Locale.ROOT).equals(ALL_LINEAR) && key.equals("target_modules");
                return new Names(List.of(text), Set.of(), allLinear ? null : new PythonRegex(text, keys.where(key)));
            }
            List<String> list = keys.names(key).orElse(List.of());
            return new Names(list, new HashSet<>(list), null);
        }

        boolean match(String path) {
            return regex == null ? matchesEnd(set, path) : regex.matches(path);
        }

        boolean isAllLinear() {
            return regex == null && set.isEmpty() && !entries.isEmpty();
        }
    }

    /**
     * Reads {@code target_modules}, {@code exclude_modules}, {@code modules_to_save}, {@code layers_to_transform} and {@code
     * layers_pattern}.
     */
    TargetModules(ConfigKeys keys) {
        this.targets = Names.of(keys, "target_modules");
        this.excluded = Names.of(keys, "exclude_modules");
        this.saved = keys.namesOrName("modules_to_save").orElse(List.of()).stream()
                .map(name -> PythonRegex.ofPart(name, keys.where("modules_to_save")))
                .toList();
        Optional<List<Integer>> indexes = keys.indexes("layers_to_transform");
        this.layers = Set.copyOf(indexes.orElse(List.of()));
        List<String> given = keys.namesOrName("layers_pattern").orElse(List.of());
        List<String> patterns =
                given.stream().filter(pattern -> !pattern.isEmpty()).toList();
        this.layerNumbers = patterns.isEmpty()
                ? List.of(PythonRegex.ofFirstNumber(keys.where("layers_to_transform")))
                : patterns.stream()
                        .map(p -> PythonRegex.ofNumberBehind(p, keys.where("layers_pattern")))
                        .toList();
        boolean text = targets.regex() != null || targets.isAllLinear();
        if (text && indexes.isPresent()) {
            throw new MalformedModelException(
                    "layers_to_transform needs a list of target_modules, and they are a text",
                    keys.where("layers_to_transform"),
                    "list the target modules, or write the layers into the regular expression");
        }
        if (!patterns.isEmpty() && indexes.isEmpty()) {
            throw new MalformedModelException(
                    "layers_pattern is given without layers_to_transform",
                    keys.where("layers_pattern"),
                    "give the numbers of the layers in layers_to_transform, or remove layers_pattern");
        }
    }

    /** {@code target_modules} as written: the entries of the list, or the text alone; empty when the configuration has none. */
    public List<String> entries() {
        return targets.entries();
    }

    /** Whether {@code target_modules} is a regular expression. */
    public boolean isRegex() {
        return targets.regex() != null;
    }

    /** Whether {@code target_modules} is {@code all-linear}. */
    public boolean isAllLinear() {
        return targets.isAllLinear();
    }

    /**
     * Whether the adapter changes a module.
     *
     * @param path its path in the base model, for example {@code model.layers.0.self_attn.q_proj}
     * @param kind matters for {@code all-linear} only
     * @throws MalformedModelException when a regular expression takes too long
     */
    public boolean matches(String path, ModuleKind kind) {
        if (isExcluded(path)) { // case 1
            return false;
        }
        if (targets.isAllLinear()) { // case 3
            return kind == ModuleKind.LINEAR;
        }
        if (targets.regex() != null) { // case 3
            return targets.match(path);
        }
        // case 2; an entry that is the whole path counts for every layer
        return targets.set().contains(path) || (targets.match(path) && isChosenLayer(path));
    }

    /** Whether {@code exclude_modules} or {@code modules_to_save} keep the adapter off a module. */
    public boolean isExcluded(String path) {
        return excluded.match(path) || saved.stream().anyMatch(name -> name.matches(path));
    }

    private boolean isChosenLayer(String path) {
        if (layers.isEmpty()) {
            return true;
        }
        return layerNumbers.stream()
                .map(number -> number.layer(path))
                .filter(OptionalInt::isPresent)
                .findFirst()
                .map(layer -> layers.contains(layer.getAsInt()))
                .orElse(false);
    }

    /** The paths of {@code modules} that the adapter changes, in their order. */
    public List<String> select(Map<String, ModuleKind> modules) {
        List<String> selected = new ArrayList<>();
        modules.forEach((path, kind) -> {
            if (matches(path, kind)) {
                selected.add(path);
            }
        });
        return List.copyOf(selected);
    }

    /**
     * How many of {@code paths} each entry matches, whether or not they are excluded; for reports of entries that match nothing. A regular
     * expression and {@code all-linear} are one entry.
     */
    public SequencedMap<String, Integer> counts(Map<String, ModuleKind> modules) {
        SequencedMap<String, Integer> counts = new LinkedHashMap<>();
        for (String entry : targets.entries()) {
            Set<String> one = Set.of(entry);
            int count = 0;
            for (Map.Entry<String, ModuleKind> module : modules.entrySet()) {
                boolean matches = isAllLinear()
                        ? module.getValue() == ModuleKind.LINEAR
                        : isRegex() ? targets.match(module.getKey()) : matchesEnd(one, module.getKey());
                count += matches ? 1 : 0;
            }
            counts.put(entry, count);
        }
        return counts;
    }

    private static boolean matchesEnd(Set<String> entries, String path) {
        if (entries.contains(path)) {
            return true;
        }
        // every end of the path that begins behind a dot
        for (int dot = path.indexOf('.'); dot >= 0; dot = path.indexOf('.', dot + 1)) {
            if (entries.contains(path.substring(dot + 1))) {
                return true;
            }
        }
        return false;
    }
}
