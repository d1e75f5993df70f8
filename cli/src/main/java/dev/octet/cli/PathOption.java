package dev.octet.cli;

import java.io.Serial;
import java.util.List;
import org.apache.commons.cli.Option;

/**
 * An option whose value is a path. It says whether that is read or written, so that no verb can take a path that is not guarded: only such
 * options give one ({@link Arguments#path}).
 */
final class PathOption extends Option {
    /** Which way a path goes. */
    enum Way {
        /** A file or folder that is read. */
        READ,
        /** A file or folder that is replaced as a whole. */
        WRITTEN,
        /** A folder that outputs are added to. */
        ADDED_TO
    }

    @Serial
    private static final long serialVersionUID = 1L;

    private final Way way;
    private final String[] entries;

    private PathOption(String letter, String name, String argument, String description, Way way, List<String> entries) {
        super(letter.isEmpty() ? null : letter, name, true, description);
        setArgName(argument);
        this.way = way;
        this.entries = entries.toArray(String[]::new);
    }

    /** One that is read. */
    static PathOption read(String name, String argument, String description) {
        return new PathOption("", name, argument, description, Way.READ, List.of());
    }

    /** One that is written. */
    static PathOption written(String name, String argument, String description) {
        return new PathOption("", name, argument, description, Way.WRITTEN, List.of());
    }

    /** {@code -o}, {@code --output}: one that is written. */
    static PathOption output(String argument, String description) {
        return new PathOption("o", "output", argument, description, Way.WRITTEN, List.of());
    }

    /** {@code -o}, {@code --output}: a folder that these files and folders are written in, and nothing else is touched of. */
    static PathOption outputIn(String argument, String description, List<String> entries) {
        return new PathOption("o", "output", argument, description, Way.ADDED_TO, entries);
    }

    Way way() {
        return way;
    }

    /** What is written in a folder that outputs are added to. */
    List<String> entries() {
        return List.of(entries);
    }
}
