package dev.octet.cli;

import java.util.Map;

/** How progress is shown on standard error. */
enum ProgressStyle {
    /** A bar redrawn in place. */
    BAR,
    /** A line every few seconds. */
    PLAIN,
    /** A JSON object per line, for programs. */
    JSON,
    /** Nothing. */
    NONE;

    /** What {@code --progress} takes. */
    static final Map<String, ProgressStyle> CHOICES = Map.of("json", JSON, "plain", PLAIN, "none", NONE);
}
