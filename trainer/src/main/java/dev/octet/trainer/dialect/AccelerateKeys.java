package dev.octet.trainer.dialect;

import java.util.List;

/** Every key of the file that {@code accelerate config} writes. */
final class AccelerateKeys {
    static final KeyTable ALL = new KeyTable(List.of(KeyRule.decided("mixed_precision", KeyType.TEXT, "no")));

    private AccelerateKeys() {}
}
