package dev.octet.converter;

import dev.octet.converter.expand.GroupedExperts;
import dev.octet.converter.expand.TrainingExpansions;
import dev.octet.converter.pass.ConstantFolding;
import dev.octet.converter.pass.ImportPasses;
import dev.octet.converter.pass.PassLog;
import dev.octet.converter.pass.ShapeInference;
import dev.octet.converter.rule.FusePatterns;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import java.util.Map;

/**
 * The graph the trainer compiles: canonical, with fixed sizes, attention as one operator, experts in groups, and operators without a derivative expressed by
 * others.
 */
public final class TrainingGraph {
    private TrainingGraph() {}

    /**
     * The canonical graph for these sizes. Attention is fused here and not at import: imported models are exported to targets that know
     * only the single operators of attention, and masks are known only once sizes are.
     *
     * @param sizes number by symbol, each at least 0
     * @param log gets what was changed, and which attention was not fused and why
     * @throws dev.octet.formats.error.InvalidDataException when the model lacks a symbol, or an input's dimension stays open
     */
    public static GraphModel of(GraphModel canonical, Map<String, Long> sizes, PassLog log) {
        GraphModel concrete = ImportPasses.specialise(canonical, sizes, log);
        GraphModel grouped = GroupedExperts.apply(
                concrete, (node, why) -> log.note("grouped-experts", node, "each expert computes all tokens: " + why));
        return fused(concrete, grouped, log);
    }

    /** The same, each expert by itself. */
    static GraphModel withExperts(GraphModel canonical, Map<String, Long> sizes, PassLog log) {
        GraphModel concrete = ImportPasses.specialise(canonical, sizes, log);
        return fused(concrete, concrete, log);
    }

    @SuppressWarnings("ReferenceEquality") // the same object where nothing was expanded
    private static GraphModel fused(GraphModel specialised, GraphModel grouped, PassLog log) {
        GraphModel concrete = specialised;
        GraphModel expanded = TrainingExpansions.apply(grouped);
        if (expanded != concrete) { // masks and sizes of the expanded operators are known now, too
            concrete = new ConstantFolding().apply(new ShapeInference().apply(expanded, log), log);
        }
        concrete = new ShapeInference().apply(concrete, log);
        FusePatterns.Result result = FusePatterns.forTraining().fuse(concrete, log);
        if (result.fused().isEmpty()) {
            return concrete;
        }
        GraphEdit edit = GraphEdit.of(result.model().graph());
        edit.removeUnreachable(); // masks that became attributes, repeated heads
        return new ShapeInference().apply(result.model().withGraph(edit.build()), log);
    }
}
