package dev.octet.converter.inspect;

import com.fasterxml.jackson.databind.JsonNode;
import dev.octet.converter.plan.BodyLayers;
import dev.octet.converter.plan.LayerKind;
import dev.octet.converter.rule.CanonicalOps;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.layout.StoredWeight;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The contents of a model file.
 *
 * @param path the opened file or folder
 * @param format {@code onnx}, {@code safetensors}, {@code torch}, {@code dcp}, ...
 * @param fileBytes size on disk; for a folder, of the regular files directly in it
 * @param dimensions sizes of the architecture; null when no configuration states them
 * @param tensors totals over all constants
 * @param list every constant, in the order of the file
 * @param graph facts about the graph; null when there is none
 * @param layers number of layers that Octet can convert to FP8
 * @param quantization traces of an earlier quantisation
 * @param metadata free text in the file
 * @param notes of a checkpoint in another format than safetensors: what lies in its files and is no weight, what was renamed
 * @param fp8Training what Transformer Engine left in a checkpoint; null where it left nothing
 */
public record Inspection(
        String path,
        String format,
        long fileBytes,
        @Nullable Dimensions dimensions,
        Tensors tensors,
        List<TensorFact> list,
        @Nullable GraphFacts graph,
        Layers layers,
        Quantization quantization,
        Map<String, String> metadata,
        List<String> notes,
        @Nullable Fp8TrainingFacts fp8Training) {
    private static final List<String> SCALE_ENDINGS = List.of(
            "weight_scale",
            "weight_scale_inv",
            "input_scale",
            "weight_scale_2",
            "q_scale",
            "k_scale",
            "v_scale",
            "output_scale");
    // plain searches, because regular expressions over a million names in a header would take seconds
    private static final List<String> EMBEDDING_PARTS = List.of("embed", "Embed", "wte.", "wpe.", "shared.");
    private static final List<String> NORM_PARTS = List.of("norm", "Norm", "ln_", ".ln.");

    /** Where a graph comes from. */
    public enum Source {
        /** It is in the file. */
        FILE,
        /** Octet built it from the configuration next to the tensors. */
        CONFIGURATION
    }

    /**
     * Constants by number type, largest share of bytes first.
     *
     * @param parameters numbers that make up the model: quantised weights count as many as they have, not as their codes are packed;
     *     scales, zero points and integers are left out
     */
    public record Tensors(int count, long elements, long bytes, long parameters, List<DTypeShare> byDtype) {}

    /** The constants of one number type; {@code bytes} counts sub-byte types packed. */
    public record DTypeShare(String dtype, int count, long elements, long bytes) {}

    /**
     * Facts about the graph, including nodes in control flow and local functions.
     *
     * @param source where it comes from; a graph that is not in the file has no producer, IR version and opsets
     * @param producer the tool that wrote it; empty when it is not named
     * @param irVersion of ONNX
     * @param opsets operator set version by domain; the default domain is {@code ai.onnx}
     * @param operators number of nodes of each operator, most frequent first; other domains as {@code domain.Op}
     */
    public record GraphFacts(
            Source source,
            String producer,
            long irVersion,
            Map<String, Long> opsets,
            int nodes,
            int functions,
            Map<String, Integer> operators,
            List<Value> inputs,
            List<Value> outputs) {}

    /** A graph input or output; {@code type} for example {@code F32[batch,384]}. */
    public record Value(String name, String type) {}

    /**
     * Layers that Octet converts.
     *
     * @param source {@code graph} when the importer recognised the layers, {@code names} when they are counted by names and ranks of
     *     tensors
     * @param linear Linears, including quantised ones
     * @param quantizedLinear of these, Linears with quantised weights: in a graph those with a dequantised constant (Q/DQ around MatMul or
     *     Gemm), in a checkpoint those whose weights are codes
     * @param layerNormFp8Output LayerNorms with an FP8 output, that is, followed by a QuantizeLinear; the norm itself is computed in floats
     * @param rmsNormFp8Output RMSNorms with an FP8 output
     * @param linearInBodies further Linears, in bodies of If, Loop and Scan; they stay as they are
     */
    public record Layers(
            String source,
            int linear,
            int layerNorm,
            int rmsNorm,
            int quantizedLinear,
            int layerNormFp8Output,
            int rmsNormFp8Output,
            int linearInBodies) {}

    /**
     * Traces of quantisation.
     *
     * @param layout of quantised weights in a checkpoint: {@code compressed-tensors}, {@code fp8}; null for graphs and without any
     * @param recipe the recipe that the checkpoint's configuration describes, as Octet calls it; null when it is none of Octet's
     * @param forms number of quantised weights by how they are stored: {@code E4M3FN per channel, scale F32}
     * @param quantizeNodes QuantizeLinear nodes
     * @param dequantizeNodes DequantizeLinear nodes
     * @param float8Tensors constants of an 8-bit float type
     * @param scaleTensors constants with names of scales ({@code weight_scale}, {@code input_scale}, ...)
     * @param settings metadata and configuration entries about quantisation
     */
    public record Quantization(
            @Nullable String layout,
            @Nullable String recipe,
            Map<String, Integer> forms,
            int quantizeNodes,
            int dequantizeNodes,
            int float8Tensors,
            int scaleTensors,
            Map<String, String> settings) {}

    /**
     * Collects the facts.
     *
     * @param graph the file's graph, or one built from the configuration next to it
     * @param canonical the graph in canonical form, if there is a graph and it could be imported
     * @param stored the tensors of a checkpoint with its quantised weights recognised; null for other models
     * @throws IOException when sizes or the configuration next to the model cannot be read
     */
    public static Inspection of(
            ModelFile file,
            Optional<GraphModel> graph,
            Optional<GraphModel> canonical,
            @Nullable StoredCheckpoint stored)
            throws IOException {
        Model model = file.model();
        Map<String, TensorSpec> specs = new LinkedHashMap<>();
        model.tensors().forEach((name, tensor) -> specs.put(name, tensor.spec()));
        return of(
                new Contents(file.path(), file.format().name(), specs, model.metadata(), List.of()),
                model.graph().isPresent(),
                graph,
                canonical,
                stored);
    }

    /**
     * Collects the facts about a checkpoint without touching its tensors.
     *
     * @throws IOException when sizes or the configuration next to it cannot be read
     */
    public static Inspection of(Checkpoint checkpoint, StoredCheckpoint stored) throws IOException {
        Map<String, TensorSpec> specs = new LinkedHashMap<>();
        checkpoint.tensors().forEach((name, tensor) -> specs.put(name, tensor.spec()));
        Map<String, String> metadata = new LinkedHashMap<>();
        checkpoint.shards().forEach(s -> s.header().metadata().forEach(metadata::putIfAbsent));
        return of(
                new Contents(checkpoint.path(), checkpoint.format().name(), specs, metadata, checkpoint.notes()),
                false,
                Optional.empty(),
                Optional.empty(),
                stored);
    }

    /** What a file holds besides a graph. */
    private record Contents(
            Path path,
            String format,
            Map<String, TensorSpec> tensors,
            Map<String, String> metadata,
            List<String> notes) {}

    private static Inspection of(
            Contents contents,
            boolean ownGraph,
            Optional<GraphModel> graph,
            Optional<GraphModel> canonical,
            @Nullable StoredCheckpoint stored)
            throws IOException {
        List<TensorFact> list =
                TensorFacts.of(contents.tensors().values(), ownGraph ? graph : Optional.empty(), stored);
        Map<String, Integer> operators = new TreeMap<>();
        graph.ifPresent(g -> {
            count(g.graph(), operators);
            g.functions().forEach(f -> f.nodes().forEach(n -> count(n, operators)));
        });
        return new Inspection(
                contents.path().toString(),
                contents.format(),
                fileBytes(contents.path()),
                dimensions(contents.path(), stored),
                tensors(contents, list),
                list,
                graph.map(g -> facts(g, ownGraph ? Source.FILE : Source.CONFIGURATION, operators))
                        .orElse(null),
                canonical.map(Inspection::layersOfGraph).orElseGet(() -> layersByName(contents, stored)),
                quantization(contents, stored, list, operators),
                contents.metadata(),
                contents.notes(),
                null);
    }

    /** The same with notes, and with what was left of FP8 training. */
    public Inspection with(List<String> newNotes, Optional<Fp8TrainingFacts> newTraining) {
        return new Inspection(
                path,
                format,
                fileBytes,
                dimensions,
                tensors,
                list,
                graph,
                layers,
                quantization,
                metadata,
                newNotes,
                newTraining.orElse(null));
    }

    /** Bytes of a file, or of all files in a folder. */
    public static long fileBytes(Path path) throws IOException {
        if (!Files.isDirectory(path)) {
            return Files.size(path);
        }
        long sum = 0;
        try (Stream<Path> files = Files.list(path)) {
            for (Path file : files.filter(Files::isRegularFile).toList()) {
                sum += Files.size(file);
            }
        }
        return sum;
    }

    /** Of a checkpoint; the configuration lies in its folder. */
    private static @Nullable Dimensions dimensions(Path path, @Nullable StoredCheckpoint stored) throws IOException {
        if (stored == null) {
            return null;
        }
        Path folder = Files.isDirectory(path) ? path : path.toAbsolutePath().getParent();
        return folder == null
                ? null
                : ModelConfig.read(folder).flatMap(Dimensions::of).orElse(null);
    }

    private static Tensors tensors(Contents contents, List<TensorFact> list) {
        Map<String, DTypeShare> shares = new LinkedHashMap<>();
        long elements = 0;
        long bytes = 0;
        for (TensorSpec tensor : contents.tensors().values()) {
            long n = tensor.shape().elementCount();
            long size = tensor.byteSize();
            elements += n;
            bytes += size;
            shares.merge(
                    tensor.dtype().name(),
                    new DTypeShare(tensor.dtype().name(), 1, n, size),
                    (a, b) -> new DTypeShare(a.dtype, a.count + b.count, a.elements + b.elements, a.bytes + b.bytes));
        }
        List<DTypeShare> sorted = shares.values().stream()
                .sorted(Comparator.comparingLong(DTypeShare::bytes).reversed())
                .toList();
        return new Tensors(contents.tensors().size(), elements, bytes, TensorFacts.parameters(list), sorted);
    }

    private static void count(Graph graph, Map<String, Integer> operators) {
        graph.nodes().forEach(n -> count(n, operators));
    }

    private static void count(Node node, Map<String, Integer> operators) {
        operators.merge((node.domain().isEmpty() ? "" : node.domain() + ".") + node.opType(), 1, Integer::sum);
        node.subgraphs().forEach(g -> count(g, operators));
    }

    private static GraphFacts facts(GraphModel model, Source source, Map<String, Integer> operators) {
        Map<String, Integer> sorted = new LinkedHashMap<>();
        operators.entrySet().stream()
                .sorted(Map.Entry.<String, Integer>comparingByValue().reversed())
                .forEach(e -> sorted.put(e.getKey(), e.getValue()));
        Map<String, Long> opsets = new LinkedHashMap<>();
        boolean own = source == Source.FILE;
        if (own) {
            model.opsets().forEach((d, v) -> opsets.put(d.isEmpty() ? "ai.onnx" : d, v));
        }
        String producer = (model.producer().name() + " " + model.producer().version()).strip();
        return new GraphFacts(
                source,
                own ? producer : "",
                own ? model.irVersion() : 0,
                opsets,
                operators.values().stream().mapToInt(Integer::intValue).sum(),
                model.functions().size(),
                sorted,
                values(model.graph().requiredInputs()),
                values(model.graph().outputs()));
    }

    private static List<Value> values(List<ValueInfo> infos) {
        List<Value> values = new ArrayList<>();
        for (ValueInfo info : infos) {
            String type = switch (info.type()) {
                case null -> "?";
                case ValueType.TensorType t -> t.toString();
                case ValueType.OtherType t -> t.kind();
            };
            values.add(new Value(info.name(), type));
        }
        return values;
    }

    private static Layers layersOfGraph(GraphModel canonical) {
        List<Node> nodes = canonical.graph().nodes();
        QuantizedLayers quantized = new QuantizedLayers(canonical.graph());
        long inBodies = BodyLayers.of(canonical.graph()).stream()
                .filter(k -> k.kind() == LayerKind.LINEAR)
                .count();
        return new Layers(
                "graph",
                octetNodes(nodes, CanonicalOps.LINEAR) + quantized.linears(),
                octetNodes(nodes, CanonicalOps.LAYER_NORM),
                octetNodes(nodes, CanonicalOps.RMS_NORM),
                quantized.linears(),
                quantized.normsHandingOnFp8(CanonicalOps.LAYER_NORM),
                quantized.normsHandingOnFp8(CanonicalOps.RMS_NORM),
                (int) inBodies);
    }

    private static int octetNodes(List<Node> nodes, String opType) {
        return (int) nodes.stream().filter(n -> n.isOctet(opType)).count();
    }

    /** Without a graph, a matrix named weight that is not an embedding counts as a Linear, a vector of a norm as a norm. */
    private static Layers layersByName(Contents contents, @Nullable StoredCheckpoint stored) {
        Set<String> codes = new HashSet<>();
        int quantized = 0;
        if (stored != null) {
            for (StoredWeight weight : stored.weights().values()) {
                codes.add(weight.data().name());
                quantized += hasAny(weight.name(), EMBEDDING_PARTS) ? 0 : 1;
            }
        }
        int linear = quantized;
        int layerNorm = 0;
        int rmsNorm = 0;
        for (Map.Entry<String, TensorSpec> entry : contents.tensors().entrySet()) {
            String name = entry.getKey();
            if (codes.contains(name)) {
                continue;
            }
            if (!name.endsWith("weight") && !name.endsWith("weight_packed") && !name.endsWith("gamma")) {
                continue;
            }
            int rank = entry.getValue().shape().rank();
            if (rank == 2 && !hasAny(name, EMBEDDING_PARTS)) {
                linear++;
            } else if (rank == 1 && hasAny(name, NORM_PARTS)) {
                // a LayerNorm has a bias, an RMSNorm has none
                String bias = name.replaceAll("weight$", "bias").replaceAll("gamma$", "beta");
                if (contents.tensors().containsKey(bias)) {
                    layerNorm++;
                } else {
                    rmsNorm++;
                }
            }
        }
        return new Layers("names", linear, layerNorm, rmsNorm, quantized, 0, 0, 0);
    }

    private static boolean hasAny(String name, List<String> parts) {
        for (String part : parts) {
            if (name.contains(part)) {
                return true;
            }
        }
        return false;
    }

    private static boolean isScale(String name) {
        if (name.contains("_scale")) {
            for (String ending : SCALE_ENDINGS) {
                if (name.endsWith(ending)) {
                    return true;
                }
            }
        }
        return false;
    }

    private static Quantization quantization(
            Contents contents, @Nullable StoredCheckpoint stored, List<TensorFact> list, Map<String, Integer> operators)
            throws IOException {
        int float8 = (int) contents.tensors().values().stream()
                .filter(t -> t.dtype().isFloat8())
                .count();
        int scales = (int) list.stream()
                .filter(t -> t.role().contains("scale") || isScale(t.name()))
                .count();
        Map<String, Integer> forms = new TreeMap<>();
        for (TensorFact tensor : list) {
            if (tensor.quantized() != null) {
                forms.merge(tensor.quantized().form(), 1, Integer::sum);
            }
        }
        Map<String, String> settings = new TreeMap<>();
        contents.metadata().forEach((key, value) -> {
            String lower = key.toLowerCase(Locale.ROOT);
            if (lower.startsWith("octet.") || lower.contains("quant") || lower.contains("fp8")) {
                settings.put(key, value);
            }
        });
        ModelConfig.read(contents.path())
                .ifPresent(c -> flatten("quantization_config", c.path("quantization_config"), settings));
        StoredCheckpoint quantized = stored == null || stored.weights().isEmpty() ? null : stored;
        return new Quantization(
                quantized == null ? null : quantized.layout(),
                quantized == null ? null : quantized.recipe(),
                forms,
                operators.getOrDefault("QuantizeLinear", 0),
                operators.getOrDefault("DequantizeLinear", 0),
                float8,
                scales,
                settings);
    }

    /** Collects all entries under {@code node} by dotted name. */
    private static void flatten(String name, JsonNode node, Map<String, String> into) {
        if (node.isObject()) {
            node.properties().forEach(p -> flatten(name + "." + p.getKey(), p.getValue(), into));
        } else if (!node.isMissingNode() && !node.isNull()) {
            into.put(name, node.isTextual() ? node.asText() : node.toString());
        }
    }
}
