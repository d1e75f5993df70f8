package dev.octet.formats.graph;

import java.util.List;
import java.util.Map;

/**
 * A model-local operator defined by a body of nodes (ONNX FunctionProto).
 *
 * @param attributes names of attributes without a default
 * @param defaults attributes with a default
 * @param opsets operator set versions of the body, by domain
 * @param unknown fields passed through untouched
 */
public record Function(
        String domain,
        String name,
        String overload,
        List<String> inputs,
        List<String> outputs,
        List<String> attributes,
        List<Attribute> defaults,
        List<Node> nodes,
        Map<String, Long> opsets,
        Map<String, ValueInfo> valueInfos,
        String doc,
        Map<String, String> metadata,
        Bytes unknown) {
    public Function {
        inputs = List.copyOf(inputs);
        outputs = List.copyOf(outputs);
        attributes = List.copyOf(attributes);
        defaults = List.copyOf(defaults);
        nodes = List.copyOf(nodes);
        opsets = Ordered.copyOf(opsets);
        valueInfos = Ordered.copyOf(valueInfos);
        metadata = Ordered.copyOf(metadata);
    }

    /** A copy with this body. */
    public Function withNodes(List<Node> newNodes) {
        return new Function(
                domain,
                name,
                overload,
                inputs,
                outputs,
                attributes,
                defaults,
                newNodes,
                opsets,
                valueInfos,
                doc,
                metadata,
                unknown);
    }

    /** A copy with these operator set versions. */
    public Function withOpsets(Map<String, Long> newOpsets) {
        return new Function(
                domain,
                name,
                overload,
                inputs,
                outputs,
                attributes,
                defaults,
                nodes,
                newOpsets,
                valueInfos,
                doc,
                metadata,
                unknown);
    }
}
