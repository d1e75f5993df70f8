package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

/** Starts of configurations that architectures propose for a graph. */
final class Candidate {
    private Candidate() {}

    /** With {@code model_type} and the class. */
    static ObjectNode of(Architecture architecture, String modelClass) {
        ObjectNode config = JsonNodeFactory.instance.objectNode();
        ArrayNode classes = config.putArray("architectures");
        classes.add(modelClass);
        return config.put("model_type", architecture.modelType());
    }

    /** The names that transformers gives classes without names. */
    static void labels(ObjectNode config, int count) {
        ObjectNode names = config.putObject("id2label");
        ObjectNode ids = config.putObject("label2id");
        for (int i = 0; i < count; i++) {
            names.put(Integer.toString(i), "LABEL_" + i);
            ids.put("LABEL_" + i, i);
        }
    }
}
