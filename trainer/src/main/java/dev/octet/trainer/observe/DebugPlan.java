package dev.octet.trainer.observe;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.Nearest;
import dev.octet.trainer.precision.LinearModule;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;

/**
 * What a debug configuration comes to for a model.
 *
 * @param layers by id of the Linear's node, in the graph's order
 * @param notes for the user, on names that mean something else here
 */
public record DebugPlan(Map<String, Layer> layers, List<String> notes) {
    private static final int SHOWN = 3;

    /** A Linear with the features of its section. */
    public record Layer(LinearModule module, DebugSection section) {
        /** Its features that read tensors and work in an iteration. */
        public List<Feature.Reading> readings(long iteration) {
            return section.features().stream()
                    .filter(Feature.Reading.class::isInstance)
                    .map(Feature.Reading.class::cast)
                    .filter(r -> r.gate().opens(iteration))
                    .toList();
        }

        /** Why a statistic of a cast cannot be found: its recipe is not the layer's, or the layer does not quantise the tensor. */
        InvalidOptionException hasNoCast(ObservedTensor tensor, CastStatistic s) {
            boolean delayed = s.isOfDelayed();
            return new InvalidOptionException(
                    s.label() + " of the " + tensor.label() + " of layer '" + module.name() + "' is of "
                            + (delayed ? "delayed scaling" : "the layer's own recipe") + ", which does not quantise it"
                            + (s.columnwise() ? " for sums along its first axis" : ""),
                    section.where(),
                    "name a recipe that is worked out from the tensor itself, as in fp8_current_scaling_"
                            + (s.measure() == CastStatistic.Measure.OVERFLOWS
                                    ? "mse"
                                    : s.measure().label()));
        }

        /** Its features that change how it is computed. */
        public List<Feature.Change> changes() {
            return section.features().stream()
                    .filter(Feature.Change.class::isInstance)
                    .map(Feature.Change.class::cast)
                    .toList();
        }
    }

    public DebugPlan {
        layers = Collections.unmodifiableMap(new LinkedHashMap<>(layers));
        notes = List.copyOf(notes);
    }

    /**
     * Finds the layers of each section.
     *
     * @param modules of the model
     * @throws InvalidOptionException when a section names no layer, two name the same, or a name is ambiguous
     */
    public static DebugPlan of(DebugSettings settings, List<LinearModule> modules) {
        Map<String, Layer> layers = new LinkedHashMap<>();
        List<String> notes = new ArrayList<>(settings.notes());
        for (DebugSection section : settings.sections()) {
            requireNumbers(section, modules);
            List<LinearModule> selected =
                    modules.stream().filter(m -> selects(section.layers(), m)).toList();
            requireNames(section, modules, selected);
            partlyNamed(section, modules, selected, notes);
            for (LinearModule m : selected) {
                Layer other = layers.putIfAbsent(m.node(), new Layer(m, section));
                if (other != null) {
                    throw new InvalidOptionException(
                            "layer '" + m.name() + "' is in two sections, '"
                                    + other.section().name() + "' and '" + section.name() + "'",
                            section.where(),
                            "name it in one of them");
                }
            }
        }
        return new DebugPlan(inOrder(layers, modules), notes);
    }

    /** Which features work on which layers, a line for each layer. */
    public List<String> messages() {
        return layers.values().stream()
                .map(l -> l.module().name() + ": section=" + l.section().name() + ", features="
                        + l.section().features().stream()
                                .map(f -> f.getClass().getSimpleName())
                                .distinct()
                                .toList())
                .toList();
    }

    private static Map<String, Layer> inOrder(Map<String, Layer> layers, List<LinearModule> modules) {
        Map<String, Layer> ordered = new LinkedHashMap<>();
        for (LinearModule m : modules) {
            Layer layer = layers.get(m.node());
            if (layer != null) {
                ordered.put(m.node(), layer);
            }
        }
        return ordered;
    }

    private static boolean selects(LayerSelection layers, LinearModule m) {
        return layers.selects(m.name())
                || TransformerEngineName.of(m.name()).stream().anyMatch(n -> n.whole() && n.isSelected(layers));
    }

    private static void requireNumbers(DebugSection section, List<LinearModule> modules) {
        if (section.layers() instanceof LayerSelection.Kinds kinds) {
            modules.stream()
                    .filter(m -> kinds.isAmbiguous(m.name()))
                    .findFirst()
                    .ifPresent(m -> {
                        throw new InvalidOptionException(
                                "layer_numbers cannot tell which number of '" + m.name() + "' is the layer's",
                                section.where(),
                                "select layers by layer_name_regex_pattern");
                    });
        }
    }

    /** Rejects a section that selects nothing, and of exact names each that is no layer's. */
    private static void requireNames(DebugSection section, List<LinearModule> modules, List<LinearModule> selected) {
        if (section.layers() instanceof LayerSelection.Exact exact) {
            for (String name : exact.names()) {
                LayerSelection one = new LayerSelection.Exact(List.of(name));
                if (modules.stream().noneMatch(m -> selects(one, m))) {
                    throw missing("no layer is called '" + name + "'", name, one, section, modules);
                }
            }
        } else if (selected.isEmpty()) {
            String name = section.layers() instanceof LayerSelection.Regex r ? r.pattern() : "";
            throw missing(
                    "the section selects none of the " + modules.size() + " layers",
                    name,
                    section.layers(),
                    section,
                    modules);
        }
    }

    private static InvalidOptionException missing(
            String what, String name, LayerSelection layers, DebugSection section, List<LinearModule> modules) {
        List<String> parts = parts(layers, modules);
        String fix;
        if (!parts.isEmpty()) {
            fix = "what Transformer Engine calls so is several layers here; name them: " + shown(parts);
        } else {
            Set<String> names = modules.stream().map(LinearModule::name).collect(Collectors.toCollection(TreeSet::new));
            List<String> near = Nearest.names(name, names);
            fix = near.isEmpty()
                    ? "layers are called " + shown(List.copyOf(names))
                    : "did you mean " + String.join(", ", near) + "?";
        }
        return new InvalidOptionException(what, section.where(), fix);
    }

    private static String shown(List<String> names) {
        return names.stream().limit(SHOWN).collect(Collectors.joining(", "))
                + (names.size() > SHOWN ? " and " + (names.size() - SHOWN) + " more" : "");
    }

    /** Modules that are part of a module of Transformer Engine's which the section names. */
    private static List<String> parts(LayerSelection layers, List<LinearModule> modules) {
        return modules.stream()
                .filter(m ->
                        TransformerEngineName.of(m.name()).stream().anyMatch(n -> !n.whole() && n.isSelected(layers)))
                .map(LinearModule::name)
                .distinct()
                .toList();
    }

    /** A note where a pattern means, in Transformer Engine's names, more than it selects here. */
    private static void partlyNamed(
            DebugSection section, List<LinearModule> modules, List<LinearModule> selected, List<String> notes) {
        if (section.layers() instanceof LayerSelection.Exact) {
            return;
        }
        Set<String> here = new HashSet<>();
        selected.forEach(m -> here.add(m.name()));
        List<String> left = parts(section.layers(), modules).stream()
                .filter(name -> !here.contains(name))
                .toList();
        if (!left.isEmpty()) {
            notes.add(
                    section.where() + ": its layers include modules of Transformer Engine that are several layers here,"
                            + " which it does not select: " + shown(left));
        }
    }
}
