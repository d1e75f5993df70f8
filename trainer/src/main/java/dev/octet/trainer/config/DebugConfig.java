package dev.octet.trainer.config;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.Nearest;
import dev.octet.trainer.observe.DebugSection;
import dev.octet.trainer.observe.DebugSettings;
import dev.octet.trainer.observe.Feature;
import dev.octet.trainer.observe.LayerSelection;
import dev.octet.trainer.observe.StepGate;
import dev.octet.trainer.yaml.Section;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;

/**
 * Reads {@code debug:}: sections as in a debug file of Transformer Engine, or the name of such a file, and how to write what they log. Files
 * are read as nvidia-dlfw-inspect (commit dc19d10) and Transformer Engine (commit d0067d0) read them; what these would pass over in silence
 * is an error here, or a note.
 */
final class DebugConfig {
    private static final String KEY = "debug";
    private static final String FILE = "file";
    private static final String ENABLED = "enabled";
    private static final String NAMESPACE = "transformer_engine";
    private static final String ALL = "all";

    /** Keys of {@code debug:} that are no sections. */
    private static final Set<String> OWN = Set.of(FILE, "te_log", "parity", "init_training_step");

    /** What YAML 1.1 takes for true and false. */
    static final Map<String, Boolean> FLAGS = Map.ofEntries(
            Map.entry("true", true),
            Map.entry("True", true),
            Map.entry("TRUE", true),
            Map.entry("yes", true),
            Map.entry("on", true),
            Map.entry("false", false),
            Map.entry("False", false),
            Map.entry("FALSE", false),
            Map.entry("no", false),
            Map.entry("off", false));

    private final List<String> notes = new ArrayList<>();

    private DebugConfig() {}

    /**
     * Reads the key from a whole configuration.
     *
     * @param folder base of relative paths
     * @throws InvalidOptionException when something in it, or in the file it names, has no meaning in Transformer Engine
     */
    static DebugSettings read(Section run, Path folder) {
        if (!run.has(KEY)) {
            return DebugSettings.NONE;
        }
        if (!run.isSection(KEY)) {
            Path file = run.requiredPath(KEY, folder);
            DebugConfig config = new DebugConfig();
            return new DebugSettings(
                    config.sections(file(run, KEY, file)), Optional.of(file), false, false, 1, config.notes);
        }
        return run.section(KEY).read(s -> new DebugConfig().settings(s, folder));
    }

    /** The file, or the copy of it that a run keeps with its configuration. */
    private static Section file(Section s, String key, Path file) {
        try {
            Path kept = s.sibling(DebugSettings.KEPT_FILE);
            return YamlFile.read(Files.exists(file) || !Files.exists(kept) ? file : kept);
        } catch (IOException e) {
            throw s.error(key, "the file cannot be read: " + e, "give a debug file of Transformer Engine");
        }
    }

    private DebugSettings settings(Section s, Path folder) {
        List<DebugSection> sections = new ArrayList<>();
        Optional<Path> file = s.path(FILE, folder);
        file.ifPresent(f -> sections.addAll(sections(file(s, FILE, f))));
        boolean logs = flag(s, "te_log", false);
        boolean parity = flag(s, "parity", false);
        long first = s.whole("init_training_step", 1, 0, Long.MAX_VALUE / 2);
        s.keys().stream()
                .filter(key -> !OWN.contains(key))
                .filter(s::isSection) // of the others, end() says that they are unknown
                .forEach(key -> add(sections, s, key));
        return new DebugSettings(sections, file, logs, parity, first, notes);
    }

    private List<DebugSection> sections(Section file) {
        List<DebugSection> sections = new ArrayList<>();
        for (String key : file.keys()) {
            if (!file.isSection(key)) {
                throw file.error(key, "expected a section", "write enabled, layers and " + NAMESPACE + " below " + key);
            }
            add(sections, file, key);
        }
        return sections;
    }

    private void add(List<DebugSection> sections, Section all, String key) {
        Section s = all.section(key);
        String where = all.where(key);
        if (!enabled(s)) {
            return;
        }
        sections.add(s.read(x -> new DebugSection(
                key,
                x.section("layers").read(l -> layers(l, x)),
                x.section(NAMESPACE).read(f -> features(x, f)),
                where)));
    }

    /** The flag that every section and feature has. */
    private static boolean enabled(Section s) {
        if (!s.has(ENABLED)) {
            throw s.error(ENABLED, "the key " + ENABLED + " is missing", "add " + ENABLED + ": true, or false");
        }
        return flag(s, ENABLED, true);
    }

    private static boolean flag(Section s, String key, boolean usual) {
        return s.choice(key, FLAGS, usual);
    }

    private static LayerSelection layers(Section s, Section of) {
        String exact = "layer_names";
        String exactToo = "exact_layer_names";
        String regex = "layer_name_regex_pattern";
        boolean kinds = s.has("layer_numbers") || s.has("layer_types");
        // the first of these counts, in this order
        if (s.has(exactToo) || s.has(exact)) {
            s.has(regex);
            return new LayerSelection.Exact(s.texts(s.has(exactToo) ? exactToo : exact));
        }
        if (s.has(regex)) {
            return new LayerSelection.Regex(s.patterns(regex).getFirst().pattern());
        }
        if (!kinds) {
            throw of.error(
                    "layers",
                    "no layers are selected",
                    "add one of exact_layer_names, " + regex + ", layer_numbers, layer_types");
        }
        List<String> types = s.texts("layer_types");
        List<StepGate.Range> numbers = s.texts("layer_numbers").stream()
                .filter(n -> !n.equals(ALL))
                .map(n -> numbers(s, n))
                .toList();
        return new LayerSelection.Kinds(numbers, types.contains(ALL) ? List.of() : types);
    }

    private static StepGate.Range numbers(Section s, String text) {
        if (!text.matches("\\d{1,9}(-\\d{1,9})?")) {
            throw s.error("layer_numbers", "'" + text + "' is not a number", "write numbers, 2-5, or all");
        }
        String[] ends = text.split("-", -1);
        long first = Long.parseLong(ends[0]);
        long last = Long.parseLong(ends[ends.length - 1]);
        if (first > last) {
            throw s.error("layer_numbers", text + " are no numbers", "write the smaller number first");
        }
        return new StepGate.Range(first, last);
    }

    private List<Feature> features(Section section, Section s) {
        if (s.keys().isEmpty()) {
            throw section.error(
                    NAMESPACE,
                    "the section has no features",
                    "add some: " + String.join(", ", DebugFeatures.READERS.keySet()));
        }
        return s.keys().stream().flatMap(name -> feature(s, name)).toList();
    }

    private Stream<Feature> feature(Section s, String name) {
        DebugFeatures.Reader reader = DebugFeatures.READERS.get(name);
        if (reader == null) {
            List<String> near = Nearest.names(name, DebugFeatures.READERS.keySet());
            String all = "valid: " + String.join(", ", DebugFeatures.READERS.keySet());
            throw s.error(
                    name,
                    "unknown feature '" + name + "'",
                    near.isEmpty() ? all : "did you mean " + String.join(", ", near) + "? " + all);
        }
        DebugFeatures.newName(name)
                .ifPresent(now -> notes.add(s.where(name) + ": " + name + " is " + now + " by its earlier name"));
        Section feature = s.section(name);
        return enabled(feature) ? feature.read(reader::read).stream() : Stream.empty();
    }
}
