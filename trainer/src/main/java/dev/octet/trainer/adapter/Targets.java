package dev.octet.trainer.adapter;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.Nearest;
import dev.octet.formats.peft.ModuleKind;
import dev.octet.formats.peft.TargetModules;
import dev.octet.trainer.adapter.BaseModules.Table;
import dev.octet.trainer.precision.LinearModule;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;

/**
 * The modules of a base that an adapter changes.
 *
 * @param linears in the order of the graph
 * @param tables of embeddings
 * @param norms paths
 */
record Targets(List<LinearModule> linears, List<Table> tables, List<String> norms) {
    Targets {
        linears = List.copyOf(linears);
        tables = List.copyOf(tables);
        norms = List.copyOf(norms);
    }

    /**
     * The modules that {@code target_modules} and its companions choose.
     *
     * @throws InvalidOptionException when an entry matches no module, or nothing is left
     */
    static Targets of(TargetModules chosen, BaseModules modules, AdapterSettings settings) {
        chosen.counts(modules.kinds()).forEach((entry, count) -> {
            if (count == 0) {
                throw unmatched(entry, modules, settings);
            }
        });
        Targets targets = new Targets(
                modules.linears().stream()
                        .filter(m -> matches(chosen, m.name(), modules))
                        .toList(),
                modules.tables().stream()
                        .filter(t -> matches(chosen, t.name(), modules))
                        .toList(),
                modules.norms().stream()
                        .filter(n -> matches(chosen, n, modules))
                        .toList());
        if (targets.names().isEmpty()) {
            throw new InvalidOptionException(
                    "exclude_modules, layers_to_transform and modules_to_save leave no target",
                    settings.where("target_modules"),
                    "name other targets, or exclude fewer; the modules are " + some(lastNames(modules)));
        }
        return targets;
    }

    private static boolean matches(TargetModules chosen, String name, BaseModules modules) {
        return chosen.matches(name, modules.kinds().getOrDefault(name, ModuleKind.OTHER));
    }

    private static InvalidOptionException unmatched(String entry, BaseModules modules, AdapterSettings settings) {
        Set<String> names = lastNames(modules);
        List<String> near = Nearest.names(lastName(entry), names);
        return new InvalidOptionException(
                "target '" + entry + "' matches none of the " + modules.kinds().size() + " modules",
                settings.where("target_modules"),
                modules.kinds().isEmpty()
                        ? "the model has no Linears"
                        : near.isEmpty() ? "use " + some(names) : "did you mean " + String.join(", ", near) + "?");
    }

    private static String some(Set<String> names) {
        int shown = 12;
        return names.isEmpty()
                ? "none"
                : String.join(", ", names.stream().limit(shown).toList()) + (names.size() > shown ? ", ..." : "");
    }

    /** The last parts of the paths of all modules. */
    private static Set<String> lastNames(BaseModules modules) {
        Set<String> names = new LinkedHashSet<>();
        modules.kinds().keySet().forEach(k -> names.add(lastName(k)));
        return names;
    }

    /** What follows on the last dot of a path. */
    static String lastName(String module) {
        return module.substring(module.lastIndexOf('.') + 1);
    }

    /** Paths of all. */
    List<String> names() {
        return Stream.of(
                        linears.stream().map(LinearModule::name),
                        tables.stream().map(Table::name),
                        norms.stream())
                .flatMap(s -> s)
                .distinct()
                .toList();
    }

    /** This, of Linears and embeddings only. */
    Targets withoutNorms(String method, AdapterSettings settings) {
        if (!norms.isEmpty()) {
            throw wrong(
                    method, "the norm", norms.getFirst(), settings, "leave it out; peft_type LN_TUNING trains norms");
        }
        return this;
    }

    /** This, of Linears only. */
    Targets linearsOnly(String method, AdapterSettings settings) {
        if (!tables.isEmpty()) {
            throw wrong(
                    method,
                    "the embeddings",
                    tables.getFirst().name(),
                    settings,
                    "leave it out; LORA adapts embeddings");
        }
        return withoutNorms(method, settings);
    }

    /** This, of norms only. */
    Targets normsOnly(AdapterSettings settings) {
        if (!linears.isEmpty() || !tables.isEmpty()) {
            String name = linears.isEmpty()
                    ? tables.getFirst().name()
                    : linears.getFirst().name();
            throw wrong(
                    "LN_TUNING",
                    "",
                    name,
                    settings,
                    "leave it out, or name it in modules_to_save, which trains modules whole");
        }
        return this;
    }

    private static InvalidOptionException wrong(
            String method, String what, String name, AdapterSettings settings, String fix) {
        return new InvalidOptionException(
                "target_modules match " + (what.isEmpty() ? "" : what + " ") + "'" + name + "', which " + method
                        + " does not change",
                settings.where("target_modules"),
                fix);
    }

    /** "24 Linears and 1 table of embeddings". */
    String counted() {
        List<String> parts = new ArrayList<>();
        for (Map.Entry<String, Long> part : List.of(
                Map.entry(
                        "Linear",
                        linears.stream().map(LinearModule::name).distinct().count()),
                Map.entry(
                        "embedding", tables.stream().map(Table::name).distinct().count()),
                Map.entry("norm", (long) norms.size()))) {
            if (part.getValue() > 0) {
                parts.add(part.getValue() + " " + part.getKey() + (part.getValue() == 1 ? "" : "s"));
            }
        }
        return String.join(" and ", parts);
    }
}
