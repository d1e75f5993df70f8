package dev.octet.converter.pass;

import dev.octet.formats.graph.GraphModel;
import java.util.List;

/**
 * What every imported model goes through before patterns are looked for: afterwards it is at opset 21 or later, nodes follow
 * what they read, constants are initializers and nothing else is, what can be computed is computed, and types are known as far
 * as they can be. Outputs are bit for bit those of the model before.
 */
public final class ImportPasses {
    /** In this order; one more pass is one more line. */
    public static final List<Pass> ALL = List.of(
            new GraphOrder(),
            new InputDefaults(),
            new OpsetUpgrade(),
            new ConstantNodes(),
            new IdentityRemoval(),
            new ShapeInference(),
            new ConstantFolding(),
            new ShapeInference(),
            new UntieInitializers());

    private ImportPasses() {}

    /**
     * The model after all passes; {@code log} says what they did.
     *
     * @throws dev.octet.formats.error.OctetException when the model contradicts itself or is of an unknown opset
     */
    public static GraphModel apply(GraphModel model, PassLog log) {
        GraphModel result = model;
        for (Pass pass : ALL) {
            result = pass.apply(result, log);
        }
        return result;
    }
}
