package dev.octet.trainer.dialect;

import java.util.List;
import java.util.Set;

/** What becomes of a key, as a row of a table says it. */
public sealed interface Becomes {
    /**
     * The same value under a key here.
     *
     * @param key of a configuration here, dotted
     */
    record Same(String key) implements Becomes {}

    /**
     * Nothing: what a run here computes does not depend on it, whatever its value.
     *
     * @param reason one sentence
     */
    record NoEffect(String reason) implements Becomes {}

    /**
     * Refused, unless its value asks for nothing.
     *
     * @param harmless values that ask for nothing, in lower case; an empty list and null always do
     * @param reason one sentence
     */
    record Refused(Set<String> harmless, String reason) implements Becomes {
        public Refused {
            harmless = Set.copyOf(harmless);
        }
    }

    /**
     * Part of a feature that has a switch: off, it has no effect; on, the whole feature is refused.
     *
     * @param feature its name, for the reason
     * @param switches paths of the keys that turn it on, each a flag
     * @param reason why it is refused, one sentence
     */
    record Feature(String feature, List<String> switches, String reason) implements Becomes {
        public Feature {
            switches = List.copyOf(switches);
        }
    }

    /** It depends on other keys: the dialect's own code says. */
    record Decided() implements Becomes {}
}
