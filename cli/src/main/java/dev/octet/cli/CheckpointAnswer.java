package dev.octet.cli;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.checkpoint.CheckpointPlan;
import dev.octet.converter.checkpoint.CheckpointResult;
import dev.octet.converter.checkpoint.ConversionRequest;
import dev.octet.converter.checkpoint.Exactness;
import dev.octet.converter.checkpoint.SharedScale;
import dev.octet.converter.checkpoint.TensorStep;
import dev.octet.quant.layout.CacheSide;
import dev.octet.quant.recipe.Recipe;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * What quantize, dequantize and convert say of a checkpoint; {@code --json} prints it as it stands.
 *
 * @param weights one entry for each weight whose bytes change, in the order of the checkpoint
 * @param exactness how many weights were changed how
 * @param kept matrices that stay as they are, with their reasons
 * @param staticInputs weights that have the static scale of their input beside them
 * @param kvCacheLayers attention layers that have scales of a KV cache
 * @param unreachedExperts modules of experts that no sample of the statistics reached: they have a sibling's input scale
 */
record CheckpointAnswer(
        String model,
        String output,
        String sourceLayout,
        @Nullable String recipe,
        String target,
        boolean dryRun,
        long sourceBytes,
        long targetBytes,
        double seconds,
        double gigabytesPerSecond,
        int resumedFiles,
        Map<String, Long> exactness,
        List<Weight> weights,
        List<Kept> kept,
        List<SharedScale> sharedScales,
        long staticInputs,
        long kvCacheLayers,
        List<String> unreachedExperts,
        List<String> notes,
        List<String> carried,
        List<String> leftBehind) {
    private static final int SHOWN = 12;

    private static final Pattern EXPERT = Pattern.compile("\\.experts\\.(\\d{1,9})\\.");

    /** Roles that are left alone unless asked for. */
    private static final Set<String> INCLUDABLE = Set.of("head", "router", "embedding");

    /** A weight and what happens to its values. */
    record Weight(String name, String exactness) {}

    /** A matrix that is not quantised. */
    record Kept(String name, String role, String reason) {}

    static CheckpointAnswer of(
            CheckpointConverter converter,
            ConversionRequest goal,
            CheckpointPlan plan,
            String output,
            @Nullable CheckpointResult result,
            StaticScales scales) {
        Map<String, Long> counts = new LinkedHashMap<>();
        for (Exactness e : Exactness.values()) {
            if (plan.count(e) > 0) {
                counts.put(e.label(), plan.count(e));
            }
        }
        List<Weight> weights = plan.shards().stream()
                .flatMap(s -> s.steps().stream())
                .filter(TensorStep::isOfWeight)
                .map(s -> new Weight(s.name(), s.exactness().label()))
                .toList();
        List<Kept> kept = plan.decisions().stream()
                .filter(d -> !d.quantized())
                .map(d -> new Kept(d.name(), d.role().name().toLowerCase(Locale.ROOT), d.reason()))
                .toList();
        List<String> notes = new ArrayList<>(plan.notes());
        notes.addAll(scales.notes());
        double seconds = result == null ? 0 : result.seconds();
        return new CheckpointAnswer(
                converter.checkpoint().path().toString(),
                output,
                converter.stored().layout(),
                recipe(goal),
                target(goal),
                result == null,
                plan.sourceBytes(),
                plan.targetBytes(),
                seconds,
                seconds == 0 ? 0 : plan.sourceBytes() / seconds / 1e9,
                result == null ? 0 : result.resumedFiles(),
                counts,
                weights,
                kept,
                result == null ? List.of() : result.sharedScales(),
                count(
                        plan,
                        s -> s instanceof TensorStep.Quantize q && q.target().inputScale() != null),
                count(plan, TensorStep.CacheScale.class::isInstance) / CacheSide.values().length,
                scales.unreached(),
                notes,
                result == null ? List.of() : result.carried(),
                result == null ? List.of() : result.leftBehind());
    }

    private static long count(CheckpointPlan plan, Predicate<TensorStep> which) {
        return plan.shards().stream()
                .flatMap(s -> s.steps().stream())
                .filter(which)
                .count();
    }

    private static @Nullable String recipe(ConversionRequest goal) {
        return switch (goal) {
            case ConversionRequest.Quantize q -> q.recipe().name();
            case ConversionRequest.Dequantize _ -> null;
            case ConversionRequest.Convert c -> c.recipe().map(Recipe::name).orElse(null);
        };
    }

    private static String target(ConversionRequest goal) {
        return switch (goal) {
            case ConversionRequest.Quantize q -> q.layout().name();
            case ConversionRequest.Dequantize d -> "plain " + d.type();
            case ConversionRequest.Convert c -> c.layout().name();
        };
    }

    void print(Arguments arguments, Screen screen) {
        if (arguments.has(Flags.JSON)) {
            screen.out().println(Json.page(this));
            return;
        }
        Table table =
                new Table().row("model", model + "  " + Table.bytes(sourceBytes) + " of tensors, " + sourceLayout);
        if (recipe != null) {
            table.row("recipe", recipe);
        }
        table.row("target", target);
        table.row("weights", weightsText());
        if (staticInputs > 0) {
            table.row("inputs", staticInputs + " with a static scale");
        }
        if (kvCacheLayers > 0) {
            table.row("KV cache", "scales of " + kvCacheLayers + " attention layers");
        }
        if (dryRun) {
            table.row("would write", output + "  " + Table.bytes(targetBytes));
        } else {
            table.row("written", output + "  " + Table.bytes(targetBytes));
            table.row(
                    "time",
                    String.format(Locale.ROOT, "%s, %.2f GB/s read", Table.seconds(seconds), gigabytesPerSecond));
        }
        if (resumedFiles > 0) {
            table.row("resumed", resumedFiles + " files were finished by an earlier run");
        }
        screen.out().print(table.text(0));
        printKept(screen);
        printShared(screen);
        printUnreached(screen);
        printLines("notes", notes, screen);
        printLines("left behind (weights in other files or formats)", leftBehind, screen);
    }

    private String weightsText() {
        List<String> parts = new ArrayList<>();
        exactness.forEach((label, count) -> parts.add(count + " " + label));
        return parts.isEmpty() ? "none" : String.join(", ", parts);
    }

    private void printKept(Screen screen) {
        if (kept.isEmpty()) {
            return;
        }
        Map<String, List<Kept>> byReason = new LinkedHashMap<>();
        kept.forEach(k ->
                byReason.computeIfAbsent(k.reason(), _ -> new ArrayList<>()).add(k));
        Table table = new Table();
        byReason.entrySet().stream()
                .limit(SHOWN)
                .forEach(e -> table.row(
                        e.getValue().size(),
                        e.getKey(),
                        e.getValue().getFirst().name() + (e.getValue().size() > 1 ? ", ..." : "")));
        screen.out().print("\nkept as they are\n" + table.text(2));
        if (byReason.size() > SHOWN) {
            screen.out().println("  and for " + (byReason.size() - SHOWN) + " other reasons (--json lists all)");
        }
        if (kept.stream().anyMatch(k -> INCLUDABLE.contains(k.role()))) {
            screen.out().println("  --include REGEX quantises heads, routers and embeddings too");
        }
    }

    private void printShared(Screen screen) {
        List<SharedScale> differing =
                sharedScales.stream().filter(s -> s.ratio() > 1).toList();
        if (differing.isEmpty()) {
            return;
        }
        Table table = new Table().row("fused weights with one scale", "own scales differ by", "worst loses");
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
        if (unreachedExperts.isEmpty()) {
            return;
        }
        Map<String, List<Integer>> byKind = new LinkedHashMap<>();
        for (String module : unreachedExperts) {
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
        screen.out().println("\n" + title);
        lines.stream().limit(SHOWN).forEach(l -> screen.out().println("  " + Printable.of(l)));
        if (lines.size() > SHOWN) {
            screen.out().println("  and " + (lines.size() - SHOWN) + " more (--json lists all)");
        }
    }
}
