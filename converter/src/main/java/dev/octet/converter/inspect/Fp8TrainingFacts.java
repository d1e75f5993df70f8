package dev.octet.converter.inspect;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.model.ExtraState;
import dev.octet.formats.torch.Fp8TrainingState;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * What a checkpoint keeps of FP8 training by Transformer Engine.
 *
 * @param recipes number of modules by the class of their recipe; empty text for modules that keep none
 * @param modules in the order of the files
 * @param refused states that could not be decoded, a sentence each
 */
public record Fp8TrainingFacts(Map<String, Integer> recipes, List<Fp8TrainingState> modules, List<String> refused) {
    /**
     * The states of a checkpoint; empty where it has none. One that is damaged or names what no state needs leaves the others readable.
     *
     * @throws IOException when a file cannot be read
     */
    public static Optional<Fp8TrainingFacts> of(Checkpoint checkpoint) throws IOException {
        Map<String, Integer> recipes = new TreeMap<>();
        List<Fp8TrainingState> modules = new ArrayList<>();
        List<String> refused = new ArrayList<>();
        List<ExtraState> stored = List.of();
        try {
            stored = checkpoint.extraStates();
        } catch (MalformedModelException | UnsupportedModelException e) {
            refused.add(e.what());
        }
        for (ExtraState one : stored) {
            try {
                Fp8TrainingState state = Fp8TrainingState.of(one);
                modules.add(state);
                recipes.merge(state.recipe(), 1, Integer::sum);
            } catch (MalformedModelException | UnsupportedModelException e) {
                refused.add("'" + one.module() + "': " + e.what());
            }
        }
        return modules.isEmpty() && refused.isEmpty()
                ? Optional.empty()
                : Optional.of(new Fp8TrainingFacts(recipes, List.copyOf(modules), List.copyOf(refused)));
    }
}
