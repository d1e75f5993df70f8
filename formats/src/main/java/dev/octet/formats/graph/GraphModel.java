package dev.octet.formats.graph;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A main graph with its operator set versions, local functions and producer.
 *
 * @param irVersion ONNX IR version
 * @param opsets operator set version by domain; the default domain is the empty string
 * @param metadata free text by key (ONNX metadata_props)
 * @param unknown fields passed through untouched (training_info, device configurations, future ones)
 */
public record GraphModel(
        long irVersion,
        Map<String, Long> opsets,
        Graph graph,
        List<Function> functions,
        Producer producer,
        Map<String, String> metadata,
        Bytes unknown) {
    /** The producer fields of ONNX's ModelProto. */
    public record Producer(String name, String version, String domain, long modelVersion, String doc) {
        public static final Producer NONE = new Producer("", "", "", 0, "");
    }

    public GraphModel {
        Map<String, Long> normal = new LinkedHashMap<>();
        opsets.forEach((d, v) -> normal.merge(d.equals("ai.onnx") ? "" : d, v, Math::max));
        opsets = Ordered.copyOf(normal);
        functions = List.copyOf(functions);
        metadata = Ordered.copyOf(metadata);
    }

    /** A model of the default domain at {@code opset}. */
    public static GraphModel of(Graph graph, long irVersion, long opset) {
        return new GraphModel(irVersion, Map.of("", opset), graph, List.of(), Producer.NONE, Map.of(), Bytes.EMPTY);
    }

    /** Version of the default domain; 0 if the model does not import it. */
    public long opset() {
        return opsets.getOrDefault("", 0L);
    }

    /** A copy with this graph. */
    public GraphModel withGraph(Graph newGraph) {
        return new GraphModel(irVersion, opsets, newGraph, functions, producer, metadata, unknown);
    }

    /** A copy with these functions. */
    public GraphModel withFunctions(List<Function> newFunctions) {
        return new GraphModel(irVersion, opsets, graph, newFunctions, producer, metadata, unknown);
    }

    /** A copy with the version of one domain, and an IR version of at least {@code minIrVersion}. */
    public GraphModel withOpset(String domain, long version, long minIrVersion) {
        Map<String, Long> map = new LinkedHashMap<>(opsets);
        map.put(domain, version);
        return new GraphModel(Math.max(irVersion, minIrVersion), map, graph, functions, producer, metadata, unknown);
    }

    /** A copy with this metadata. */
    public GraphModel withMetadata(Map<String, String> newMetadata) {
        return new GraphModel(irVersion, opsets, graph, functions, producer, newMetadata, unknown);
    }

    /** A copy with this producer. */
    public GraphModel withProducer(Producer newProducer) {
        return new GraphModel(irVersion, opsets, graph, functions, newProducer, metadata, unknown);
    }
}
