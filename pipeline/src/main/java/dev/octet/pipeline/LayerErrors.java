package dev.octet.pipeline;

import dev.octet.converter.Converter;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.evaluate.Evaluation;
import dev.octet.converter.evaluate.EvaluationOptions;
import dev.octet.converter.evaluate.LayerComparison;
import dev.octet.converter.rule.ExpertValues;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import java.io.IOException;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The outputs of the reference's Linears against the values of the same names in a converted model. */
final class LayerErrors {
    /** Inner values are compared on some samples only: enough for a tenth of a decibel. */
    private static final int SAMPLES = 32;

    private LayerErrors() {}

    /**
     * One comparison for each Linear whose output the candidate has under the same name, in graph order; not those of experts, whose rows are of
     * other tokens where routers choose differently.
     *
     * @param runnable the reference in standard ONNX, its Linears' outputs under their names
     */
    static List<LayerComparison> compare(
            Converter reference, GraphModel runnable, GraphModel candidate, Dataset samples, EvaluationOptions options)
            throws IOException {
        Set<String> values = new HashSet<>();
        candidate.graph().nodes().forEach(n -> values.addAll(n.outputs()));
        Set<String> inExperts = ExpertValues.of(reference.canonical().graph());
        Map<String, String> pairs = new LinkedHashMap<>();
        for (Node node : reference.canonical().graph().nodes()) {
            if (node.isOctet("Linear") && values.contains(node.output()) && !inExperts.contains(node.output())) {
                pairs.put(node.output(), node.output());
            }
        }
        Dataset some = samples.slice(0, Math.min(SAMPLES, samples.count()));
        return Evaluation.compareLayers(runnable, candidate, pairs, some, options);
    }
}
