package dev.octet.trainer.config;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.peft.PeftConfig;
import dev.octet.formats.peft.PeftType;
import dev.octet.trainer.yaml.Section;
import java.io.IOException;
import java.nio.file.Path;
import java.util.TreeSet;

/**
 * The configuration of an adapter that is trained on: that of its folder. Keys of the run's own configuration may repeat it, but not contradict it.
 */
record ContinuedAdapter(PeftConfig config) {
    /**
     * Reads {@code adapter_config.json} of {@code from:}.
     *
     * @param s the section of the adapter
     */
    static ContinuedAdapter read(Section s, Path from) {
        try {
            return new ContinuedAdapter(PeftConfig.read(from.resolve(PeftConfig.FILE_NAME)));
        } catch (IOException e) {
            throw s.error(
                    "from",
                    "the adapter cannot be read: " + e.getMessage(),
                    "give a folder with " + PeftConfig.FILE_NAME + ", such as RUN/checkpoints/step-N");
        }
    }

    PeftType type() {
        return config.type();
    }

    /**
     * The configuration, when the run's own says nothing else.
     *
     * @param given what the run's own comes to, defaults included
     * @throws dev.octet.formats.error.InvalidOptionException when a written key has another value
     */
    PeftConfig agreeing(Section s, ObjectNode given) {
        ObjectNode there = config.withDefaults().json();
        for (String key : s.keys()) {
            JsonNode own = given.get(key);
            if (own != null && !same(own, there.path(key))) {
                throw s.error(
                        key,
                        "the adapter that is trained on has " + key + " " + there.path(key) + ", not " + own,
                        "leave " + key + " out, or begin a new adapter without from");
            }
        }
        return config;
    }

    private static boolean same(JsonNode a, JsonNode b) {
        if (a.isNumber() && b.isNumber()) {
            return a.doubleValue() == b.doubleValue();
        }
        boolean lists = a.isArray() && b.isArray();
        return lists ? sorted(a).equals(sorted(b)) : a.equals(b);
    }

    /** Elements of a list whose order does not matter, as text. */
    private static TreeSet<String> sorted(JsonNode list) {
        TreeSet<String> all = new TreeSet<>();
        list.forEach(e -> all.add(e.toString()));
        return all;
    }
}
