package dev.octet.cli;

import dev.octet.converter.checkpoint.RoundedError;
import dev.octet.converter.checkpoint.SharedScale;
import dev.octet.pipeline.CheckpointOutcome;
import dev.octet.pipeline.Serving;
import dev.octet.quant.scale.ScaleSearch;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** What quantize, dequantize and convert print of a checkpoint. */
record CheckpointPage(CheckpointOutcome outcome, Optional<Serving> serving) {
    private static final int SHOWN = 12;
    private static final Pattern EXPERT = Pattern.compile("\\.experts\\.(?:expert_)?(\\d{1,9})\\.");

    /** Roles that are left alone unless asked for. */
    private static final Set<String> INCLUDABLE = Set.of("head", "router", "embedding");

    CheckpointPage(CheckpointOutcome outcome) {
        this(outcome, Optional.empty());
    }

    /** The same with the reason for the layout. */
    CheckpointPage withServing(Optional<Serving> newServing) {
        return new CheckpointPage(outcome, newServing);
    }

    void print(Arguments arguments, Screen screen) {
        if (arguments.has(Flags.JSON)) {
            screen.out().println(Json.answer(arguments.verb(), outcome));
            return;
        }
        Table table = new Table()
                .row(
                        "model",
                        outcome.model() + "  " + Quantity.bytes(outcome.sourceBytes()) + " of tensors, "
                                + outcome.sourceLayout());
        if (outcome.recipe() != null) {
            table.row("recipe", outcome.recipe());
        }
        if (outcome.rounding() != null) {
            table.row("rounding", outcome.rounding() + gain());
        }
        if (outcome.scaleSearch() != null && !outcome.scaleSearch().equals(ScaleSearch.AMAX.label())) {
            table.row("scales", "searched by " + outcome.scaleSearch());
        }
        table.row(
                "target",
                outcome.target()
                        + serving.map(v -> " for " + v.consumer().text() + " (" + v.reason() + ")")
                                .orElse(""));
        CheckpointOutcome.Transformed transformed = outcome.transformed();
        if (transformed != null) {
            table.row("transforms", String.join(", ", transformed.transforms()));
        }
        table.row("weights", weightsText());
        if (outcome.staticInputs() > 0) {
            table.row("inputs", outcome.staticInputs() + " with a static scale");
        }
        if (outcome.kvCacheLayers() > 0) {
            String perHead = outcome.scalesPerHead() ? ", one for each head" : "";
            table.row("KV cache", "scales of " + outcome.kvCacheLayers() + " attention layers" + perHead);
            if (outcome.queryLayers() > 0) {
                table.row("attention", "scales of the queries of " + outcome.queryLayers() + " layers" + perHead);
            }
        }
        if (outcome.dryRun()) {
            table.row("would write", outcome.output() + "  " + Quantity.bytes(outcome.targetBytes()));
        } else {
            table.row("written", outcome.output() + "  " + Quantity.bytes(outcome.targetBytes()));
            table.row(
                    "time",
                    Quantity.seconds(outcome.seconds()) + ", "
                            + Quantity.rate(1e9 * outcome.gigabytesPerSecond(), "bytes") + " read");
        }
        if (outcome.resumedFiles() > 0) {
            table.row("resumed", outcome.resumedFiles() + " files were finished by an earlier run");
        }
        screen.out().print(table.text(0));
        SchemesPage.print(outcome.predicted(), screen);
        if (transformed != null) {
            printTransformed(transformed, screen);
        }
        printKept(screen);
        printShared(screen);
        printUnreached(screen);
        printLines("notes", outcome.notes(), screen);
        printLines("left behind (weights in other files or formats)", outcome.leftBehind(), screen);
    }

    /** What compensated rounding left of the errors of rounding to nearest, as a share, over all weights and of the worst one. */
    private String gain() {
        if (outcome.roundingErrors().isEmpty()) {
            return "";
        }
        double error = 0;
        double nearest = 0;
        for (RoundedError e : outcome.roundingErrors()) {
            error += e.error();
            nearest += e.nearestError();
        }
        return nearest == 0
                ? ""
                : String.format(
                        Locale.ROOT,
                        ", squared error of the outputs %.3f times that of nearest (--json lists each weight)",
                        error / nearest);
    }

    private String weightsText() {
        List<String> parts = new ArrayList<>();
        outcome.exactness().forEach((label, count) -> parts.add(count + " " + label));
        return parts.isEmpty() ? "none" : String.join(", ", parts);
    }

    private void printKept(Screen screen) {
        if (outcome.kept().isEmpty()) {
            return;
        }
        Map<String, List<CheckpointOutcome.Kept>> byReason = new LinkedHashMap<>();
        outcome.kept()
                .forEach(k -> byReason.computeIfAbsent(k.reason(), _ -> new ArrayList<>())
                        .add(k));
        Table table = new Table();
        byReason.entrySet().stream()
                .limit(SHOWN)
                .forEach(e -> table.row(
                        e.getValue().size(),
                        e.getKey(),
                        e.getValue().getFirst().name() + (e.getValue().size() > 1 ? ", ..." : "")));
        screen.out().print("\n" + TextStyle.heading("kept as they are") + "\n" + table.text(2));
        if (byReason.size() > SHOWN) {
            screen.out().println("  and for " + (byReason.size() - SHOWN) + " other reasons (--json lists all)");
        }
        if (outcome.kept().stream().anyMatch(k -> INCLUDABLE.contains(k.role()))) {
            screen.out().println("  --include REGEX quantises heads, routers and embeddings too");
        }
    }

    private static void printTransformed(CheckpointOutcome.Transformed transformed, Screen screen) {
        printLines(
                "folded",
                transformed.folds().stream()
                        .map(f -> f.into() + " -> " + String.join(", ", f.of()) + ": " + f.how())
                        .toList(),
                screen);
        printLines(
                "not transformed",
                transformed.left().entrySet().stream()
                        .map(e -> e.getKey() + ": " + e.getValue())
                        .toList(),
                screen);
    }

    private void printShared(Screen screen) {
        List<SharedScale> differing =
                outcome.sharedScales().stream().filter(s -> s.ratio() > 1).toList();
        if (differing.isEmpty()) {
            return;
        }
        Table table = new Table().heading("fused weights with one scale", "ratio of scales", "worst loss");
        differing.stream()
                .limit(SHOWN)
                .forEach(s -> table.row(
                        s.group(),
                        String.format(Locale.ROOT, "%.3fx", s.ratio()),
                        String.format(Locale.ROOT, "%.2f dB", s.lostDb())));
        screen.out().print("\n" + table.text(0));
        if (differing.size() > SHOWN) {
            screen.out().println("and " + (differing.size() - SHOWN) + " more groups (--json lists all)");
        }
    }

    /** All of them, those of one layer and kind on one line. */
    private void printUnreached(Screen screen) {
        if (outcome.unreachedExperts().isEmpty()) {
            return;
        }
        Map<String, List<Integer>> byKind = new LinkedHashMap<>();
        for (String module : outcome.unreachedExperts()) {
            Matcher expert = EXPERT.matcher(module);
            if (expert.find()) {
                byKind.computeIfAbsent(expert.replaceFirst(".experts.*."), _ -> new ArrayList<>())
                        .add(Integer.parseInt(expert.group(1)));
            }
        }
        screen.out().println("\nexperts that no sample reached; each has the largest input scale of its siblings");
        byKind.forEach((kind, experts) -> screen.out()
                .println("  " + Printable.of(kind) + "  "
                        + experts.stream().sorted().map(String::valueOf).collect(Collectors.joining(", "))));
    }

    private static void printLines(String title, List<String> lines, Screen screen) {
        if (lines.isEmpty()) {
            return;
        }
        screen.out().println("\n" + TextStyle.heading(title));
        lines.stream().limit(SHOWN).forEach(l -> screen.out().println("  " + Printable.of(l)));
        if (lines.size() > SHOWN) {
            screen.out().println("  and " + (lines.size() - SHOWN) + " more (--json lists all)");
        }
    }
}
