package dev.octet.pipeline;

import java.nio.file.Path;

/** The command that makes what a file of statistics lacks, for messages. */
final class CalibrateCommandLine {
    private CalibrateCommandLine() {}

    /**
     * To type as it is, but for the data.
     *
     * @param flags what it needs besides, as {@code --second-moments}; may be empty
     */
    static String of(Path model, Path statistics, String flags) {
        return "octet calibrate " + quoted(model) + " -o " + quoted(statistics) + " --data TEXTS.jsonl"
                + (flags.isEmpty() ? "" : " " + flags);
    }

    private static String quoted(Path path) {
        String text = path.toString();
        return text.matches("[\\w./:+-]+") ? text : "'" + text + "'";
    }
}
