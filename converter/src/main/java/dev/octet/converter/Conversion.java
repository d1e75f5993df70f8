package dev.octet.converter;

import dev.octet.converter.lower.Target;
import dev.octet.converter.pass.PassLog;
import dev.octet.converter.plan.ActivationScale;
import dev.octet.converter.plan.LayerResult;
import dev.octet.converter.plan.Plan;
import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.model.Model;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

/**
 * A converted model, ready to be saved. Its tensors belong to the {@link Converter} that made it and live until that is closed.
 *
 * @param model standard ONNX for {@code target}, with Octet's metadata
 * @param plan the final decisions, after the statistics were looked at
 * @param activations the chosen activation scales by value; empty for weight-only recipes
 * @param layers what became of each converted Linear
 * @param notes what import and lowering had to say
 */
public record Conversion(
        GraphModel model,
        Target target,
        Plan plan,
        Map<String, ActivationScale> activations,
        List<LayerResult> layers,
        List<PassLog.Note> notes) {
    public Conversion {
        layers = List.copyOf(layers);
        notes = List.copyOf(notes);
    }

    /** The same conversion with more said in the file. */
    Conversion withMetadata(Map<String, String> metadata) {
        return new Conversion(model.withMetadata(metadata), target, plan, activations, layers, notes);
    }

    /**
     * Writes the model: a whole file or none. A model of more than 2 GiB gets its tensors in a data file beside it.
     *
     * @throws IOException no space, no permission; what was at {@code path} before is still there
     */
    public void save(Path path) throws IOException {
        ModelFile.save(Model.of(model), path);
    }
}
