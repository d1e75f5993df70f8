package dev.octet.converter;

import dev.octet.converter.evaluate.LayerComparison;
import dev.octet.converter.lower.OnnxTarget;
import dev.octet.converter.pass.PassLog;
import dev.octet.converter.plan.ActivationScale;
import dev.octet.converter.plan.LayerResult;
import dev.octet.converter.plan.Plan;
import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.model.Model;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A converted model, ready to be saved. Its tensors belong to the {@link Converter} that made it and live until the converter is closed.
 *
 * @param model standard ONNX for {@code target}, with Octet's metadata
 * @param plan the final decisions, with the statistics taken into account
 * @param activations the chosen activation scales by value; empty for weight-only recipes
 * @param layers the result of each converted Linear
 * @param comparison each converted Linear's output against the original's; empty until {@link Converter#measure}
 * @param notes the notes of import and lowering
 */
public record Conversion(
        GraphModel model,
        OnnxTarget target,
        Plan plan,
        Map<String, ActivationScale> activations,
        List<LayerResult> layers,
        List<LayerComparison> comparison,
        List<PassLog.Note> notes) {
    public Conversion {
        layers = List.copyOf(layers);
        comparison = List.copyOf(comparison);
        notes = List.copyOf(notes);
    }

    /** The same with the measurements; the model stays as it is, so that the same scales and codes are always the same file. */
    Conversion withComparison(List<LayerComparison> measured) {
        return new Conversion(model, target, plan, activations, layers, measured, notes);
    }

    /** The same with more metadata in the file. */
    public Conversion withMetadata(Map<String, String> more) {
        Map<String, String> all = new LinkedHashMap<>(model.metadata());
        all.putAll(more);
        return new Conversion(model.withMetadata(all), target, plan, activations, layers, comparison, notes);
    }

    /**
     * Writes the model: a whole file or none. The tensors of a model of more than 2 GiB go into a data file next to it.
     *
     * @throws IOException no space or no permission; a file that was at {@code path} is untouched
     */
    public void save(Path path) throws IOException {
        ModelFile.save(Model.of(model), path);
    }
}
