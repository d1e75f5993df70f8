package dev.octet.trainer.dialect;

import java.util.List;
import java.util.Set;

/**
 * A documented key of a library: one row of its table.
 *
 * @param path dotted, from the top of the file; a part {@code *} stands for any name, and {@code **} at the end for all that is below
 * @param type of its values
 * @param standard the library's default, as its documentation writes it; empty where it has none
 * @param becomes what becomes of it
 */
public record KeyRule(String path, ValueType type, String standard, Becomes becomes) {
    /** The same value under a key here. */
    static KeyRule same(String path, ValueType type, String standard, String key) {
        return new KeyRule(path, type, standard, new Becomes.Same(key));
    }

    /** Without effect on what a run here computes. */
    static KeyRule noEffect(String path, ValueType type, String standard, String reason) {
        return new KeyRule(path, type, standard, new Becomes.NoEffect(reason));
    }

    /** Refused, unless the value is one that asks for nothing. */
    static KeyRule refused(String path, ValueType type, String standard, String reason, String... harmless) {
        return new KeyRule(path, type, standard, new Becomes.Refused(Set.of(harmless), reason));
    }

    /** Part of a feature that is refused where its switch is on. */
    static KeyRule feature(String path, ValueType type, String standard, Becomes.Feature feature) {
        return new KeyRule(path, type, standard, feature);
    }

    /** What becomes of it depends on other keys. */
    static KeyRule decided(String path, ValueType type, String standard) {
        return new KeyRule(path, type, standard, new Becomes.Decided());
    }

    /** Whether this row is about a key of a file. */
    boolean covers(String key) {
        List<String> mine = List.of(path.split("\\."));
        List<String> its = List.of(key.split("\\."));
        for (int i = 0; i < mine.size(); i++) {
            if (mine.get(i).equals("**")) {
                return its.size() > i;
            }
            if (i >= its.size() || !(mine.get(i).equals("*") || mine.get(i).equals(its.get(i)))) {
                return false;
            }
        }
        return its.size() == mine.size();
    }
}
