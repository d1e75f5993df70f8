package dev.octet.trainer.dialect;

/**
 * A key of a configuration here, with the value that another library's configuration gives it.
 *
 * @param key dotted: {@code optimizer.lr}
 * @param value in YAML
 * @param from the key it comes from, in the library's words
 */
public record Setting(String key, String value, String from) {}
