package dev.octet.pipeline;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.checkpoint.CheckpointPlan;
import dev.octet.converter.checkpoint.ConversionRequest;
import dev.octet.converter.checkpoint.Selection;
import dev.octet.converter.checkpoint.StreamOptions;
import dev.octet.converter.sensitivity.LinearLayer;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Node;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * Linears that are better left as they are, in the words of those who can leave them out.
 *
 * @param weights names of their weights
 * @param keep patterns for {@code octet quantize --keep}, one for each weight
 * @param nodesToExclude names of their nodes in the ONNX file, for ONNX Runtime's {@code quantize_static}; empty for checkpoints
 * @param ignore of compressed-tensors: these modules and every other Linear that is not quantised
 * @param modulesToNotConvert the same for transformers' {@code quant_method: fp8}
 * @param excludeModules the same for ModelOpt
 */
public record Exclusion(
        List<String> weights,
        List<String> keep,
        List<String> nodesToExclude,
        List<String> ignore,
        List<String> modulesToNotConvert,
        List<String> excludeModules) {
    private static final String WEIGHT = ".weight";

    public Exclusion {
        weights = List.copyOf(weights);
        keep = List.copyOf(keep);
        nodesToExclude = List.copyOf(nodesToExclude);
        ignore = List.copyOf(ignore);
        modulesToNotConvert = List.copyOf(modulesToNotConvert);
        excludeModules = List.copyOf(excludeModules);
    }

    /**
     * The words for these Linears. Those of a checkpoint are what Octet itself writes into its configuration.
     *
     * @throws IOException when the checkpoint's headers cannot be read
     */
    static Exclusion of(List<LinearLayer> layers, ModelSource source, Converter converter) throws IOException {
        List<String> weights = layers.stream().map(LinearLayer::weight).toList();
        List<String> keep = weights.stream().map(Exclusion::pattern).toList();
        if (weights.isEmpty() || source.huggingFace().isEmpty()) {
            List<String> modules = weights.stream()
                    .filter(w -> w.endsWith(WEIGHT))
                    .map(StoredWeight::moduleOf)
                    .toList();
            return new Exclusion(
                    weights,
                    keep,
                    source.huggingFace().isEmpty()
                            ? nodes(
                                    converter.source().graph(),
                                    converter.canonical().graph(),
                                    layers)
                            : List.of(),
                    modules,
                    modules,
                    modules);
        }
        try (CheckpointConverter checkpoint = CheckpointConverter.open(source.path())) {
            return new Exclusion(
                    weights,
                    keep,
                    List.of(),
                    written(checkpoint, "compressed-tensors", Recipes.FP8_DYNAMIC, weights, "ignore"),
                    written(checkpoint, "fp8", Recipes.CHECKPOINT_FP8, weights, "modules_to_not_convert"),
                    written(checkpoint, "modelopt", Recipes.FP8_DYNAMIC, weights, "exclude_modules"));
        }
    }

    /** A pattern that matches this name and nothing longer that ends with it. */
    static String pattern(String weight) {
        StringBuilder pattern = new StringBuilder("^");
        for (int i = 0; i < weight.length(); i++) {
            char c = weight.charAt(i);
            if ("\\.[]{}()*+-?^$|".indexOf(c) >= 0 && c != '-') {
                pattern.append('\\');
            }
            pattern.append(c);
        }
        return pattern.append('$').toString();
    }

    /** What the configuration of a layout lists when these weights are kept; their modules where it has no way to hold this model. */
    private static List<String> written(
            CheckpointConverter checkpoint, String layout, Recipe recipe, List<String> weights, String key)
            throws IOException {
        Map<String, String> kept = new LinkedHashMap<>();
        weights.forEach(w -> kept.put(w, "sensitive"));
        ConversionRequest goal =
                new ConversionRequest.Quantize(recipe, Layouts.named(layout).orElseThrow(), LayoutOptions.defaults());
        Selection selection = new Selection(List.of(), List.of(), List.of(), kept);
        try {
            CheckpointPlan plan = checkpoint.plan(
                    goal, CheckpointConverter.Request.of(selection, Map.of()), StreamOptions.defaults());
            Optional<List<String>> found = plan.files().values().stream()
                    .map(f -> f.path("quantization").path(key))
                    .filter(JsonNode::isArray)
                    .findFirst()
                    .or(() -> plan.config()
                            .map((ObjectNode c) -> c.path("quantization_config").path(key))
                            .filter(JsonNode::isArray))
                    .map(Exclusion::texts);
            return found.orElseGet(() -> modules(weights));
        } catch (UnsupportedModelException e) {
            return modules(weights); // nothing of it can be quantised in this layout
        }
    }

    private static List<String> modules(List<String> weights) {
        return weights.stream().map(StoredWeight::moduleOf).toList();
    }

    private static List<String> texts(JsonNode array) {
        List<String> texts = new ArrayList<>();
        array.forEach(e -> texts.add(e.asText()));
        return texts;
    }

    /**
     * Products of the file that compute these Linears: MatMul, Gemm, FusedMatMul or FusedGemm that read what the Linear reads, and write what
     * it writes or hand it to the addition that does.
     */
    private static List<String> nodes(Graph file, Graph canonical, List<LinearLayer> layers) {
        Set<String> wanted = new HashSet<>();
        layers.forEach(l -> wanted.addAll(l.nodes()));
        Map<String, Set<String>> outputsByInput = new LinkedHashMap<>();
        canonical.nodes().stream()
                .filter(n -> wanted.contains(n.id()))
                .forEach(n -> outputsByInput
                        .computeIfAbsent(n.input(0), _ -> new LinkedHashSet<>())
                        .add(n.output()));
        Map<String, Set<String>> added = new LinkedHashMap<>();
        for (Node n : file.nodes()) {
            if (n.is("Add")) {
                n.inputs()
                        .forEach(i -> added.computeIfAbsent(i, _ -> new LinkedHashSet<>())
                                .add(n.output()));
            }
        }
        List<String> names = new ArrayList<>();
        for (Node n : file.nodes()) {
            boolean product = n.opType().endsWith("MatMul") || n.opType().endsWith("Gemm");
            Set<String> outputs = product ? outputsByInput.getOrDefault(n.input(0), Set.of()) : Set.of();
            Set<String> made = new LinkedHashSet<>(added.getOrDefault(product ? n.output() : "", Set.of()));
            if (product) {
                made.add(n.output());
            }
            if (made.stream().anyMatch(outputs::contains)) {
                names.add(n.name().isEmpty() ? n.id() : n.name());
            }
        }
        return names;
    }
}
