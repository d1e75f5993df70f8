package dev.octet.cli;

import dev.octet.formats.OctetVersion;

/**
 * Where the JVM starts: answers {@code --version} by itself, since touching {@link Octet} loads every verb and what it works with, and
 * this answer must be as quick as a JVM can be.
 */
public final class Start {
    private Start() {}

    /** Entry point of the launcher {@code ./octet}. */
    public static void main(String[] args) {
        if (args.length == 1 && args[0].equals("--version")) {
            System.out.println("octet " + OctetVersion.current());
        } else {
            Octet.main(args);
        }
    }
}
