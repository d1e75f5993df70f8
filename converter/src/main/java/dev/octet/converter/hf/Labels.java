package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.JsonNode;

/** How many classes a classifying model tells apart: {@code id2label}, or {@code num_labels}; transformers' default is 2. */
final class Labels {
    private static final int DEFAULT = 2;

    private Labels() {}

    static int count(HfConfig config) {
        JsonNode names = config.json().path("id2label");
        if (names.isObject() && !names.isEmpty()) {
            return names.size();
        }
        return config.sizeOr(DEFAULT, "num_labels", "_num_labels");
    }
}
