package dev.octet.pipeline;

import dev.octet.formats.tensor.DType;
import java.io.IOException;
import java.nio.file.Path;
import java.util.EnumSet;
import java.util.Optional;
import java.util.Set;

/**
 * {@code octet dequantize}: any quantised checkpoint back to floats.
 *
 * <pre>{@code
 * Dequantize.run(Dequantize.Request.of(folder, output), Job.defaults());
 * }</pre>
 */
public final class Dequantize {
    private Dequantize() {}

    /** What a user can choose. */
    public enum Choice {
        /** The scales stay with the model, so that quantising it again with {@link Quantize.Choice#KEEP_SCALES} gives the same codes. */
        KEEP_SCALES,
        /** Whatever would change a value is refused. */
        EXACT_ONLY
    }

    /**
     * What to do.
     *
     * @param model a safetensors file, an index or a folder
     * @param output a folder to make, or a file for a checkpoint of one
     * @param type of the weights: BF16, F16 or F32
     */
    public record Request(Path model, Path output, DType type, Set<Choice> choices) {
        public Request {
            choices = Set.copyOf(choices);
        }

        /** To BF16. */
        public static Request of(Path model, Path output) {
            return new Request(model, output, DType.BF16, Set.of());
        }

        /** The same to another type. */
        public Request withType(DType newType) {
            return new Request(model, output, newType, choices);
        }

        /** The same with one more choice. */
        public Request with(Choice choice) {
            Set<Choice> more = EnumSet.of(choice);
            more.addAll(choices);
            return new Request(model, output, type, more);
        }
    }

    /**
     * Dequantises a checkpoint.
     *
     * @throws dev.octet.formats.error.OctetException when the checkpoint is malformed, or a value would change that may not
     * @throws IOException when reading or writing fails; finished files stay and the same call continues after them
     */
    public static CheckpointOutcome run(Request request, Job job) throws IOException {
        try (CheckpointGoal goal = CheckpointGoal.of(request, job)) {
            return new CheckpointWork(goal, request.output(), job).run(Optional.empty());
        }
    }
}
