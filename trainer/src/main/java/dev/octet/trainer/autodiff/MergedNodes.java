package dev.octet.trainer.autodiff;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.quant.layout.StoredGrids;
import dev.octet.quant.scale.ScaleRule;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Linears that compute with the weight that the merged file will have: inputs x, w, bias, A and B, then w, A and B of each weight that shares the
 * scale of w. What else there is to say of them is an attribute of the node.
 *
 * @param grids how stored weights are quantised again
 * @param baseScale the scale that w shares with weights without an adapter; NaN where there are none
 * @param members of w and those that share its scale
 */
public record MergedNodes(StoredGrids grids, float baseScale, List<Product> members) {
    /** Number of the input with A; B follows. */
    public static final int A = 3;

    /** Number of the first input of the others that share the scale of w: w, A, B of each. */
    static final int SIBLINGS = 5;

    private static final int OF_SIBLING = 3;
    private static final String NAME = "merged";
    private static final ObjectMapper JSON = new ObjectMapper();

    /** The scaling of a product, and whether its weight lies as [in, out]. */
    public record Product(float factor, boolean transposed) {}

    public MergedNodes {
        members = List.copyOf(members);
    }

    /** As an attribute of a Linear. */
    public Attribute attribute() {
        ObjectNode json = JSON.createObjectNode();
        json.put("exponent", grids.exponent().name());
        json.put("powers_of_two", grids.powersOfTwo());
        if (!Float.isNaN(baseScale)) {
            json.put("base_scale", Float.floatToIntBits(baseScale));
        }
        ArrayNode all = json.putArray("members");
        members.forEach(m ->
                all.addObject().put("factor", Float.floatToIntBits(m.factor())).put("transposed", m.transposed()));
        return Attribute.of(NAME, json.toString());
    }

    /** Of a Linear; null for one that computes with its weight as it is. */
    static @Nullable MergedNodes of(Node node) {
        String text = node.textAttribute(NAME, "");
        if (text.isEmpty()) {
            return null;
        }
        try {
            ObjectNode json = (ObjectNode) JSON.readTree(text);
            List<Product> members = new ArrayList<>();
            json.get("members")
                    .forEach(m -> members.add(new Product(
                            Float.intBitsToFloat(m.get("factor").asInt()),
                            m.get("transposed").asBoolean())));
            return new MergedNodes(
                    new StoredGrids(
                            ScaleRule.Exponent.valueOf(json.get("exponent").asText()),
                            json.get("powers_of_two").asBoolean()),
                    json.has("base_scale")
                            ? Float.intBitsToFloat(json.get("base_scale").asInt())
                            : Float.NaN,
                    members);
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("attribute of '" + node.id() + "'", e);
        }
    }

    /** Whether input {@code i} of a Linear is a weight that shares the scale of its own. */
    static boolean isSibling(Node node, int i) {
        return i >= SIBLINGS
                && (i - SIBLINGS) % OF_SIBLING == 0
                && node.attributes().containsKey(NAME);
    }
}
