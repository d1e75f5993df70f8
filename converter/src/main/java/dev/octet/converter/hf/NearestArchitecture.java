package dev.octet.converter.hf;

import dev.octet.formats.error.OctetException;
import dev.octet.formats.graph.Initializer;
import java.lang.foreign.Arena;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * The architecture whose tensors are most like those of a checkpoint that is of none: what a graph for it would need.
 *
 * @param modelClass class of transformers
 * @param differences of its parameters and the checkpoint's tensors
 */
record NearestArchitecture(String modelClass, CheckpointParameters.Differences differences) {
    /** Lines of each kind that a message shows. */
    private static final int SHOWN = 5;

    /** The nearest one; empty where none has half of its parameters in the checkpoint. */
    static Optional<NearestArchitecture> of(HfConfig config, Map<String, Initializer> constants) {
        NearestArchitecture best = null;
        for (Architecture architecture : HfImporter.ARCHITECTURES) {
            for (NearestArchitecture n : architecture.classes().stream()
                    .flatMap(c -> as(architecture, c, config, constants))
                    .toList()) {
                boolean near = n.differences.right()
                        > n.differences.missing().size() + n.differences.wrong().size();
                if (near && (best == null || n.differences.count() < best.differences.count())) {
                    best = n;
                }
            }
        }
        return Optional.ofNullable(best);
    }

    private static Stream<NearestArchitecture> as(
            Architecture architecture, String modelClass, HfConfig config, Map<String, Initializer> constants) {
        Arena arena = Arena.ofAuto();
        CheckpointParameters parameters =
                new CheckpointParameters(constants, architecture.prefix(), config.where(), arena);
        try {
            architecture.build(config, modelClass, new GraphDraft(parameters, arena));
        } catch (OctetException e) {
            return Stream.empty(); // its keys are those of another model
        }
        return Stream.of(new NearestArchitecture(modelClass, parameters.differences(architecture.ignored())));
    }

    /** For messages: what it is called, and where it differs. */
    @Override
    public String toString() {
        return differences.count() == 0
                ? "its tensors are those of " + modelClass + ", what it computes with them is not known"
                : "its tensors are nearest to those of " + modelClass + ": " + differences.text(SHOWN);
    }
}
