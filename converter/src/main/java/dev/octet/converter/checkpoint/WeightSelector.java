package dev.octet.converter.checkpoint;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.recipe.OperandSpec;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Decides which weights are quantised: by their role, by what the layout's consumers can read, and by the user's choice. Weights that an
 * engine fuses into one product are quantised together or not at all.
 */
final class WeightSelector {
    private final Layout layout;
    private final Function<String, OperandSpec> schemes;
    private final Selection selection;
    private final String modelType;
    private final boolean tied;
    private final LinearModules modules;
    private final Map<String, String> nonFinite;

    /** A matrix that may be quantised. */
    record Candidate(String name, Shape shape, DType dtype) {}

    /**
     * @param schemes how a weight would be quantised, by its own name
     * @param config the model's, null without one
     * @param nonFinite weights that stay as they are because they hold a NaN or an infinity, with what was found
     */
    WeightSelector(
            Layout layout,
            Function<String, OperandSpec> schemes,
            Selection selection,
            @Nullable ObjectNode config,
            Map<String, String> nonFinite) {
        this.layout = layout;
        this.schemes = schemes;
        this.selection = selection;
        this.modelType = config == null ? "" : config.path("model_type").asText("");
        this.tied = config != null && config.path("tie_word_embeddings").asBoolean(false);
        this.modules = LinearModules.of(config);
        this.nonFinite = nonFinite;
    }

    /** Decisions by name, in the order of the candidates. */
    Map<String, WeightDecision> decide(List<Candidate> candidates) {
        selection.requireMatches(candidates.stream().map(Candidate::name).toList());
        Map<String, WeightDecision> decisions = new LinkedHashMap<>();
        for (Candidate c : candidates) {
            TensorRole role = LinearNames.role(c.name(), c.shape());
            String reason = reasonToKeep(c, role).orElse("");
            decisions.put(c.name(), new WeightDecision(c.name(), c.shape(), role, reason.isEmpty(), reason));
        }
        keepFusedTogether(decisions);
        return Collections.unmodifiableMap(decisions);
    }

    private Optional<String> reasonToKeep(Candidate c, TensorRole role) {
        if (selection.kept().containsKey(c.name())) {
            return Optional.ofNullable(selection.kept().get(c.name()));
        }
        if (Selection.matches(selection.keep(), c.name())) {
            return Optional.of("--keep");
        }
        if (!selection.only().isEmpty() && !Selection.matches(selection.only(), c.name())) {
            return Optional.of("not in --only");
        }
        boolean included = Selection.matches(selection.include(), c.name());
        Optional<String> byRole = reasonOfRole(c, role, included);
        if (byRole.isPresent()) {
            return byRole;
        }
        if (c.dtype() != DType.F32 && c.dtype() != DType.BF16 && c.dtype() != DType.F16) {
            return Optional.of("elements are " + c.dtype());
        }
        if (nonFinite.containsKey(c.name())) {
            return Optional.of(nonFinite.get(c.name()));
        }
        if (c.shape().elementCount() == 0) {
            return Optional.of("empty");
        }
        OperandSpec scheme = schemes.apply(c.name());
        long maxCols = Tile.maxCols(scheme.granularity());
        if (c.shape().dim(-1) > maxCols) {
            return Optional.of("rows of " + c.shape().dim(-1) + " elements; at most " + maxCols + " are streamed");
        }
        Optional<String> refusal = layout.refusal(scheme, c.shape());
        return refusal.isPresent() ? refusal : fusedBlocks(c, scheme);
    }

    /** Engines stack the blocks of fused weights; a weight that ends within a block would shift the blocks of the next. */
    private static Optional<String> fusedBlocks(Candidate c, OperandSpec scheme) {
        boolean ends = scheme.granularity() instanceof Granularity.PerBlock(int rows, int _)
                && LinearNames.fusedGroup(c.name()).isPresent()
                && c.shape().dim(-2) % rows != 0;
        return ends
                ? Optional.of(c.shape().dim(-2) + " rows end within a block, and engines stack it with others")
                : Optional.empty();
    }

    private Optional<String> reasonOfRole(Candidate c, TensorRole role, boolean included) {
        return switch (role) {
            case LINEAR -> {
                if (LinearNames.isConv1d(modelType, c.name())) {
                    yield Optional.of("stored as [in, out] (Conv1D), which no FP8 consumer reads");
                }
                if (modules.isNoLinear(StoredWeight.moduleOf(c.name()))) {
                    yield Optional.of("not a Linear in transformers, which would read its codes as values");
                }
                yield modules.isShared(StoredWeight.moduleOf(c.name()))
                        ? Optional.of("shared with other modules, which would lack its scale")
                        : Optional.empty();
            }
            case FUSED_EXPERTS -> Optional.empty();
            case HEAD -> {
                if (included && tied && c.name().contains("lm_head")) {
                    yield Optional.of("tied to the embedding, which is a table");
                }
                yield included ? Optional.empty() : Optional.of("output head");
            }
            case ROUTER -> included ? Optional.empty() : Optional.of("router");
            case EMBEDDING -> included ? Optional.empty() : Optional.of("embedding");
            case NORM -> Optional.of("norm");
            case OTHER -> Optional.of("not a Linear weight");
        };
    }

    private static void keepFusedTogether(Map<String, WeightDecision> decisions) {
        Map<String, List<WeightDecision>> groups = new HashMap<>();
        for (WeightDecision d : decisions.values()) {
            LinearNames.fusedGroup(d.name())
                    .ifPresent(g ->
                            groups.computeIfAbsent(g, _ -> new ArrayList<>()).add(d));
        }
        for (Map.Entry<String, List<WeightDecision>> group : groups.entrySet()) {
            Optional<WeightDecision> kept =
                    group.getValue().stream().filter(d -> !d.quantized()).findFirst();
            if (kept.isEmpty()) {
                continue;
            }
            for (WeightDecision d : group.getValue()) {
                if (d.quantized()) {
                    String reason = "engines fuse it with " + kept.get().name() + ", which is kept: "
                            + kept.get().reason();
                    decisions.put(d.name(), new WeightDecision(d.name(), d.shape(), d.role(), false, reason));
                }
            }
        }
    }
}
