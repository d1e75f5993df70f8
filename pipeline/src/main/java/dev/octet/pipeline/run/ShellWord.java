package dev.octet.pipeline.run;

import java.nio.file.Path;

/** Paths in command lines that are shown to be copied. */
public final class ShellWord {
    private ShellWord() {}

    /** A path as a shell reads it back. */
    public static String of(Path path) {
        String text = path.toString();
        return text.matches("[\\w./:+@%=,~\\\\-]+") ? text : "'" + text.replace("'", "'\\''") + "'";
    }
}
