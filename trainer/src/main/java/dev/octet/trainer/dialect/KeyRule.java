package dev.octet.trainer.dialect;

import java.util.Set;

/**
 * A documented key of a library: one row of its table.
 *
 * @param path dotted, from the top of the file; a part {@code *} stands for any name, and {@code **} at the end for all that is below
 * @param type of its values
 * @param standard the library's default, as its documentation writes it; empty where it has none
 * @param becomes what becomes of it
 */
public record KeyRule(String path, KeyType type, String standard, Becomes becomes) {
    /** The same value under a key here. */
    static KeyRule same(String path, KeyType type, String standard, String key) {
        return new KeyRule(path, type, standard, new Becomes.Same(key));
    }

    /** Without effect on what a run here computes. */
    static KeyRule noEffect(String path, KeyType type, String standard, String reason) {
        return new KeyRule(path, type, standard, new Becomes.NoEffect(reason));
    }

    /** Refused, unless the value is one that asks for nothing. */
    static KeyRule refused(String path, KeyType type, String standard, String reason, String... harmless) {
        return new KeyRule(path, type, standard, new Becomes.Refused(Set.of(harmless), reason));
    }

    /** Part of a feature that is refused where its switch is on. */
    static KeyRule feature(String path, KeyType type, String standard, Becomes.Feature feature) {
        return new KeyRule(path, type, standard, feature);
    }

    /** What becomes of it depends on other keys. */
    static KeyRule decided(String path, KeyType type, String standard) {
        return new KeyRule(path, type, standard, new Becomes.Decided());
    }

    /** Whether this row is about a key of a file. */
    boolean covers(String key) {
        String[] mine = path.split("\\.", -1);
        String[] its = key.split("\\.", -1);
        for (int i = 0; i < mine.length; i++) {
            if (mine[i].equals("**")) {
                return its.length > i;
            }
            if (i >= its.length || !(mine[i].equals("*") || mine[i].equals(its[i]))) {
                return false;
            }
        }
        return its.length == mine.length;
    }

    /** Whether this row is about keys below one. */
    boolean isBelow(String key) {
        String[] mine = path.split("\\.", -1);
        String[] its = key.split("\\.", -1);
        for (int i = 0; i < its.length; i++) {
            if (i < mine.length && mine[i].equals("**")) {
                return true;
            }
            if (i >= mine.length || !(mine[i].equals("*") || mine[i].equals(its[i]))) {
                return false;
            }
        }
        return mine.length > its.length;
    }
}
