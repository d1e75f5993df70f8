package dev.octet.cli;

import dev.octet.converter.inspect.AdapterFacts;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;

/** What {@code inspect} prints of an adapter, for people. */
final class AdapterPage {
    private static final int SHOWN = 10;

    private AdapterPage() {}

    /**
     * An adapter.
     *
     * @param all whether to list every module, or the modules by the last part of their paths
     */
    static String of(AdapterFacts facts, boolean all) {
        Table head = new Table()
                .row("adapter", facts.adapter())
                .row(
                        "method",
                        facts.method()
                                + (facts.variants().isEmpty() ? "" : " (" + String.join(", ", facts.variants()) + ")"))
                .row("base", facts.base() == null ? "not named" : facts.base());
        if (facts.task() != null) {
            head.row("task", facts.task());
        }
        if (facts.rank() != null && facts.alpha() != null) {
            head.row("rank", facts.rank() + ", alpha " + number(facts.alpha()));
        }
        if (facts.virtualTokens() != null) {
            head.row("tokens", facts.virtualTokens() + " virtual");
        }
        if (!facts.targets().isEmpty()) {
            head.row(
                    "targets",
                    facts.targets().stream()
                            .map(t -> t.entry() + " (" + t.modules() + ")")
                            .collect(Collectors.joining(", ")));
        }
        head.row("parameters", ModelPage.count(facts.parameters()))
                .row("size", Quantity.bytes(facts.bytes()) + ", " + String.join(", ", facts.dtypes()));
        StringBuilder page = new StringBuilder(head.text(0));
        if (!facts.modules().isEmpty()) {
            page.append('\n').append(all ? modules(facts) : kinds(facts));
        }
        appendSaved(page, facts, all);
        facts.foreignKeys()
                .forEach(key -> page.append("note: Octet does not know what ")
                        .append(Printable.of(key))
                        .append(" changes\n"));
        return page.toString();
    }

    private static String modules(AdapterFacts facts) {
        Table table = new Table().heading("module", "weight", "rank", "scaling", "parameters", "bytes");
        for (AdapterFacts.Module m : facts.modules()) {
            table.row(m.path(), weight(m), rank(m), scaling(m), m.parameters(), Quantity.bytes(m.bytes()));
        }
        return table.text(0);
    }

    /** Modules with the same last part, weight, rank and scaling in one row. */
    private static String kinds(AdapterFacts facts) {
        Map<List<String>, List<AdapterFacts.Module>> kinds = new LinkedHashMap<>();
        for (AdapterFacts.Module m : facts.modules()) {
            String last = m.path().substring(m.path().lastIndexOf('.') + 1);
            kinds.computeIfAbsent(List.of(last, weight(m), rank(m), scaling(m)), k -> new ArrayList<>())
                    .add(m);
        }
        Table table = new Table().heading("module", "count", "weight", "rank", "scaling", "parameters", "bytes");
        kinds.forEach((kind, modules) -> table.row(
                kind.get(0),
                modules.size(),
                kind.get(1),
                kind.get(2),
                kind.get(3),
                modules.stream().mapToLong(AdapterFacts.Module::parameters).sum(),
                Quantity.bytes(
                        modules.stream().mapToLong(AdapterFacts.Module::bytes).sum())));
        return table.text(0);
    }

    private static void appendSaved(StringBuilder page, AdapterFacts facts, boolean all) {
        if (facts.saved().isEmpty()) {
            return;
        }
        page.append("\ntrained whole (").append(facts.saved().size()).append(")\n");
        facts.saved().stream()
                .limit(all ? Long.MAX_VALUE : SHOWN)
                .forEach(t -> page.append("  ")
                        .append(Printable.of(t.name()))
                        .append(' ')
                        .append(t.dtype())
                        .append(' ')
                        .append(t.shape())
                        .append('\n'));
        if (!all && facts.saved().size() > SHOWN) {
            page.append("  and ").append(facts.saved().size() - SHOWN).append(" more (--tensors lists all)\n");
        }
    }

    private static String weight(AdapterFacts.Module m) {
        return m.weight().isEmpty()
                ? ""
                : m.weight().stream().map(String::valueOf).collect(Collectors.joining(" x "));
    }

    private static String rank(AdapterFacts.Module m) {
        return m.rank() == null ? "" : m.rank().toString();
    }

    private static String scaling(AdapterFacts.Module m) {
        return m.scaling() == null ? "" : number(m.scaling());
    }

    private static String number(double x) {
        return x == Math.rint(x) && Math.abs(x) < 1e9
                ? String.valueOf((long) x)
                : String.format(Locale.ROOT, "%.4g", x);
    }
}
