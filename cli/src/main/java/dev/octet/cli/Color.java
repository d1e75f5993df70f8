package dev.octet.cli;

import java.util.Map;

/** When text is coloured: what {@code --color} takes. */
enum Color {
    /** On terminals, unless {@code NO_COLOR} is set or {@code TERM} is {@code dumb}. */
    AUTO,
    /** Always, in files and pipes too. */
    ALWAYS,
    /** Never. */
    NEVER;

    /** By the names that users type. */
    static final Map<String, Color> CHOICES = Map.of("auto", AUTO, "always", ALWAYS, "never", NEVER);
}
