package dev.octet.converter;

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
 * What the trainer makes programs of: a canonical graph at one size of everything, attention in one operator, operators without a
 * derivative written with others.
 */
public final class TrainingGraph {
    private TrainingGraph() {}

    /**
     * The canonical graph for these sizes. Attention is put together here and not at import, because what is imported is exported again,
     * to targets that know attention by its single operators, and because masks are known only when sizes are.
     *
     * @param sizes number by symbol, each at least 0
     * @param log what was done, and which attention stays as it is, why
     * @throws dev.octet.formats.error.InvalidDataException when a symbol is not in the model, or an input's dimension stays open
     */
    public static GraphModel of(GraphModel canonical, Map<String, Long> sizes, PassLog log) {
        GraphModel concrete = ImportPasses.specialise(canonical, sizes, log);
        GraphModel expanded = TrainingExpansions.apply(concrete);
        if (expanded != concrete) { // masks and sizes of what was written out are known, too
            concrete = new ConstantFolding().apply(new ShapeInference().apply(expanded, log), log);
        }
        concrete = new ShapeInference().apply(concrete, log);
        FusePatterns.Result result = FusePatterns.forTraining().fuse(concrete, log);
        if (result.fused().isEmpty()) {
            return concrete;
        }
        GraphEdit edit = GraphEdit.of(result.model().graph());
        edit.removeUnreachable(); // masks that are attributes now, heads that were repeated
        return new ShapeInference().apply(result.model().withGraph(edit.build()), log);
    }
}
