package dev.octet.trainer.dialect;

import dev.octet.trainer.yaml.Section.Kind;

/**
 * A key of a configuration here, with the value that another library's configuration gives it.
 *
 * @param key dotted: {@code optimizer.lr}
 * @param value in YAML
 * @param from the key it comes from, in the library's words
 * @param isDefault whether the library's default says it rather than the file: what a run's own configuration says counts more
 */
public record Setting(String key, String value, String from, boolean isDefault) {
    /** Whether a value means the same as this setting's: numbers and lists of numbers by value, other words in any case. */
    public boolean isSame(String other) {
        String[] mine = parts(value);
        String[] its = parts(other);
        if (mine.length != its.length) {
            return false;
        }
        for (int i = 0; i < mine.length; i++) {
            boolean numbers = KeyType.NUMBER.takes(mine[i], Kind.NUMBER) && KeyType.NUMBER.takes(its[i], Kind.NUMBER);
            if (numbers ? KeyType.number(mine[i]) != KeyType.number(its[i]) : !mine[i].equalsIgnoreCase(its[i])) {
                return false;
            }
        }
        return true;
    }

    private static String[] parts(String value) {
        return value.replaceAll("[\\[\\] ]", "").split(",", -1);
    }
}
