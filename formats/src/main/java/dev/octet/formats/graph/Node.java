package dev.octet.formats.graph;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * One operation. {@code inputs} and {@code outputs} are value names; an empty name is an absent optional one.
 *
 * @param name may be empty and need not be unique (ONNX); use {@link #id()} in messages
 * @param domain empty for ONNX's own operators
 * @param unknown fields passed through untouched
 */
public record Node(
        String name,
        String opType,
        String domain,
        String overload,
        List<String> inputs,
        List<String> outputs,
        Map<String, Attribute> attributes,
        String doc,
        Map<String, String> metadata,
        Bytes unknown) {
    /** Domain of Octet's own operators ({@code Linear}, {@code QuantizedLinear}, {@code QuantizingLayerNorm}). */
    public static final String OCTET_DOMAIN = "dev.octet";

    /**
     * Metadata key of a Gather: the row that gets no gradient, torch's {@code padding_idx}. An integer, at least 0. Runtimes ignore it.
     */
    public static final String PADDING_INDEX = "dev.octet.padding_idx";

    /** Metadata of an Attention with a key that is no token, in front of the others; its operands are not measured. */
    public static final String SINKS = "dev.octet.sinks";

    /** Attribute of Linears that are computed as one for several experts: the ids of their nodes, in the order of the experts, a line each. */
    public static final String LINEARS = "linears";

    /** Attribute of a node that computes in F32 whatever the precision of others, and is not quantised, 1: routers, DoRA's norms. */
    public static final String IN_F32 = "f32";

    /** Attribute of a router and of the rows of experts whose tokens are a decoder's, 1: no input says which of them are padding. */
    public static final String UNMASKED = "unmasked";

    public Node {
        inputs = List.copyOf(inputs);
        outputs = List.copyOf(outputs);
        attributes = Ordered.copyOf(attributes);
        metadata = Ordered.copyOf(metadata);
        // "ai.onnx" is another spelling of the default domain
        domain = domain.equals("ai.onnx") ? "" : domain;
    }

    /** A node of the default domain. */
    public static Node of(
            String name, String opType, List<String> inputs, List<String> outputs, Attribute... attributes) {
        return of(name, opType, "", inputs, outputs, attributes);
    }

    public static Node of(
            String name,
            String opType,
            String domain,
            List<String> inputs,
            List<String> outputs,
            Attribute... attributes) {
        Map<String, Attribute> map = new LinkedHashMap<>();
        Arrays.stream(attributes).forEach(a -> map.put(a.name(), a));
        return new Node(name, opType, domain, "", inputs, outputs, map, "", Map.of(), Bytes.EMPTY);
    }

    /** Whether this is {@code opType} of ONNX's own domain. */
    public boolean is(String wanted) {
        return domain.isEmpty() && opType.equals(wanted);
    }

    /** Whether this is {@code opType} of Octet's domain. */
    public boolean isOctet(String wanted) {
        return domain.equals(OCTET_DOMAIN) && opType.equals(wanted);
    }

    /** The node's name in messages: its name, or its operator with its first output. */
    public String id() {
        return name.isEmpty() ? opType + "(" + (outputs.isEmpty() ? "" : outputs.getFirst()) + ")" : name;
    }

    /** Input {@code i}, or the empty name when absent. */
    public String input(int i) {
        return i < inputs.size() ? inputs.get(i) : "";
    }

    public boolean hasInput(int i) {
        return !input(i).isEmpty();
    }

    /** Output {@code i}, or the empty name when absent. */
    public String output(int i) {
        return i < outputs.size() ? outputs.get(i) : "";
    }

    /** The first output, or the empty name for a node without outputs, which an invalid file may have. */
    public String output() {
        return output(0);
    }

    public Optional<Attribute.Value> attribute(String attributeName) {
        return Optional.ofNullable(attributes.get(attributeName)).map(Attribute::value);
    }

    /** Integer attribute, or {@code fallback} when absent or of another type. */
    public long intAttribute(String attributeName, long fallback) {
        return attribute(attributeName).orElse(null) instanceof Attribute.OfInt a ? a.value() : fallback;
    }

    public float floatAttribute(String attributeName, float fallback) {
        return attribute(attributeName).orElse(null) instanceof Attribute.OfFloat a ? a.value() : fallback;
    }

    public String textAttribute(String attributeName, String fallback) {
        return attribute(attributeName).orElse(null) instanceof Attribute.OfText a
                ? a.value().text()
                : fallback;
    }

    public Optional<List<Long>> intsAttribute(String attributeName) {
        return attribute(attributeName).orElse(null) instanceof Attribute.OfInts a
                ? Optional.of(a.values())
                : Optional.empty();
    }

    /** All graphs nested directly in this node's attributes. */
    public List<Graph> subgraphs() {
        List<Graph> found = new ArrayList<>();
        for (Attribute a : attributes.values()) {
            switch (a.value()) {
                case Attribute.OfGraph s -> found.add(s.value());
                case Attribute.OfGraphs s -> found.addAll(s.values());
                case Attribute.OfInt _,
                        Attribute.OfFloat _,
                        Attribute.OfText _,
                        Attribute.OfTensor _,
                        Attribute.OfType _,
                        Attribute.OfInts _,
                        Attribute.OfFloats _,
                        Attribute.OfTexts _,
                        Attribute.OfTensors _,
                        Attribute.OfTypes _,
                        Attribute.OfOther _,
                        Attribute.Reference _ -> {}
            }
        }
        return found;
    }

    /** Names this node needs from its graph: its inputs and the captures of its subgraphs, without absent inputs. */
    public Set<String> uses() {
        Set<String> used = new LinkedHashSet<>(inputs);
        for (Graph g : subgraphs()) {
            used.addAll(g.captures());
        }
        used.remove("");
        return used;
    }

    /** A copy with these inputs. */
    public Node withInputs(List<String> newInputs) {
        return new Node(name, opType, domain, overload, newInputs, outputs, attributes, doc, metadata, unknown);
    }

    /** A copy with these outputs. */
    public Node withOutputs(List<String> newOutputs) {
        return new Node(name, opType, domain, overload, inputs, newOutputs, attributes, doc, metadata, unknown);
    }

    /** A copy with this name. */
    public Node withName(String newName) {
        return new Node(newName, opType, domain, overload, inputs, outputs, attributes, doc, metadata, unknown);
    }

    /** A copy with these attributes. */
    public Node withAttributes(Map<String, Attribute> newAttributes) {
        return new Node(name, opType, domain, overload, inputs, outputs, newAttributes, doc, metadata, unknown);
    }

    /** A copy with one attribute added or replaced. */
    public Node with(Attribute attribute) {
        Map<String, Attribute> map = new LinkedHashMap<>(attributes);
        map.put(attribute.name(), attribute);
        return withAttributes(map);
    }

    /** A copy without one attribute. */
    public Node without(String attributeName) {
        Map<String, Attribute> map = new LinkedHashMap<>(attributes);
        map.remove(attributeName);
        return withAttributes(map);
    }

    /** A copy with this metadata. */
    public Node withMetadata(Map<String, String> newMetadata) {
        return new Node(name, opType, domain, overload, inputs, outputs, attributes, doc, newMetadata, unknown);
    }

    /** For example {@code /layer/MatMul: MatMul(x, w) -> y}. */
    @Override
    public String toString() {
        return id() + ": " + (domain.isEmpty() ? "" : domain + ".") + opType + inputs + " -> " + outputs;
    }
}
