package dev.octet.trainer.replay;

import dev.octet.quant.recipe.LinearTensor;
import dev.octet.trainer.replay.Culprit.Extent;
import dev.octet.trainer.replay.Culprit.Remedy;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;

/** Verdicts as sentences. */
final class VerdictText {
    private static final int SHOWN = 3;

    private VerdictText() {}

    static String of(Diagnosis d) {
        return switch (d.verdict()) {
            case HEALTHY ->
                "FP8 is healthy: rounding explains its whole distance from the reference."
                        + (d.complete() ? "" : " The budget was spent before single products were compared.");
            case SPIKE ->
                "Not FP8's fault: the reference jumps in " + steps(d.spikes())
                        + " as FP8 does, and rounding explains all other distance.";
            case NO_FP8 -> "Nothing is computed in FP8.";
            case REFERENCE_NOT_FINITE ->
                "Not FP8's fault: the reference is not finite, either ("
                        + d.evidence().experiments().getFirst().replay().nonFinite() + ").";
            case FEATURE -> "The feature " + d.feature() + " is at fault: without it FP8 is healthy.";
            case STALE_SCALES -> capital(guilty(d)) + ": scales of earlier steps do not fit; current scaling cures.";
            case RANGE ->
                capital(guilty(d)) + ": the values do not fit the format with their scale; "
                        + (current(d) ? "current scaling does not cure, " : "") + "high precision does.";
            case PRODUCT ->
                capital(guilty(d))
                        + ": the product is wrong, not its codes and scales, for fake quantisation is healthy; "
                        + (all(d, Remedy.CURRENT_SCALING)
                                ? "with current scaling it is healthy, too."
                                : (current(d)
                                        ? "current scaling does not cure, high precision does."
                                        : "high precision cures."));
            case SPREAD ->
                "FP8 is at fault in too many products to blame one: "
                        + d.suspects().size() + " are suspects; another recipe, or high precision.";
            case UNFINISHED -> unfinished(d);
        };
    }

    private static String unfinished(Diagnosis d) {
        if (d.evidence().floor() == null) {
            return "The budget was spent before the noise floor was known.";
        }
        if (d.culprits().isEmpty() && d.suspects().isEmpty()) {
            return "The budget was spent before the run as configured was replayed.";
        }
        String rest = d.suspects().isEmpty()
                ? ""
                : " One of " + d.suspects().size() + " products is at fault: " + list(d.suspects()) + ".";
        return (d.culprits().isEmpty() ? "FP8 is at fault." : capital(guilty(d)) + ".") + rest
                + (d.cure().isEmpty() ? "" : " High precision cures; a smaller cure may do.")
                + " The budget was spent before more was known.";
    }

    /** Whether current scaling was tried, or products were compared with it. */
    private static boolean current(Diagnosis d) {
        return d.evidence().productFloor() != null
                || d.evidence().experiments().stream()
                        .anyMatch(e -> e.replay().key().contains(" current"));
    }

    private static boolean all(Diagnosis d, Remedy remedy) {
        return d.culprits().stream().allMatch(c -> c.remedy() == remedy);
    }

    private static String guilty(Diagnosis d) {
        // one tensor is an operand of two products: its fault is told once
        Map<String, List<Culprit>> byTensor = new LinkedHashMap<>();
        for (Culprit c : d.culprits()) {
            byTensor.computeIfAbsent(tensor(c), _ -> new ArrayList<>()).add(c);
        }
        List<String> names = new ArrayList<>();
        byTensor.forEach((tensor, of) -> {
            if (of.size() == 1) {
                names.add(name(of.getFirst()));
            } else {
                names.add("the " + tensor + " in "
                        + of.stream().map(VerdictText::product).collect(Collectors.joining(" and ")));
            }
        });
        return String.join("; ", names) + (names.size() == 1 ? " is at fault" : " are at fault");
    }

    /** {@code input of model.layers.0.mlp.up_proj}, or what no other culprit has. */
    private static String tensor(Culprit c) {
        return c.extent() == Extent.ALONE && c.operands().size() == 1
                ? c.operands().stream().map(VerdictText::word).collect(Collectors.joining()) + " of "
                        + c.products().getFirst().module()
                : c.toString();
    }

    private static String product(Culprit c) {
        return c.products().getFirst().product().name().toLowerCase(Locale.ROOT);
    }

    private static String name(Culprit c) {
        return switch (c.extent()) {
            case ALONE ->
                c.operands().size() == 1
                        ? "the " + tensor(c) + " in " + product(c)
                        : c.products().getFirst().toString();
            case TOGETHER -> list(c.products()) + " together";
            case ALL_LAYERS -> product(c) + " in many layers";
        };
    }

    private static String word(LinearTensor tensor) {
        return tensor.name().toLowerCase(Locale.ROOT).replace('_', ' ');
    }

    private static String list(List<LayerProduct> products) {
        String shown =
                products.stream().limit(SHOWN).map(LayerProduct::toString).collect(Collectors.joining(", "));
        return products.size() > SHOWN ? shown + " and " + (products.size() - SHOWN) + " more" : shown;
    }

    private static String steps(List<Long> steps) {
        return (steps.size() == 1 ? "step " : "steps ")
                + steps.stream().map(String::valueOf).collect(Collectors.joining(", "));
    }

    /** Names of modules keep their case. */
    private static String capital(String sentence) {
        return sentence.startsWith("the ") ? "T" + sentence.substring(1) : sentence;
    }
}
