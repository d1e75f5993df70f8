package dev.octet.pipeline.run;

import java.nio.file.Path;

/** Words in command lines that are shown to be copied. */
public final class ShellWord {
    private ShellWord() {}

    /** A path as a shell reads it back. */
    public static String of(Path path) {
        return of(path.toString());
    }

    /** A word as a shell reads it back. */
    public static String of(String text) {
        return text.matches("[\\w./:+@%=,~\\\\-]+") ? text : "'" + text.replace("'", "'\\''") + "'";
    }
}
