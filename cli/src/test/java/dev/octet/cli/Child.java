package dev.octet.cli;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Octet in a process of its own, which tests can kill. */
final class Child {
    private Child() {}

    /** The words that start Java with the tests' classes; a main class and its words follow. */
    static List<String> java(String... options) {
        List<String> words = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--enable-native-access=ALL-UNNAMED",
                "--add-modules",
                "jdk.incubator.vector",
                "-cp",
                System.getProperty("java.class.path")));
        words.addAll(1, Arrays.asList(options));
        return words;
    }

    /** The words that start Octet with these of its own. */
    static List<String> octet(List<String> words) {
        List<String> command = java();
        command.add(Start.class.getName());
        command.addAll(words);
        return command;
    }

    /** Starts a command; all it prints goes to {@code printed}. */
    static Process start(List<String> command, Path printed) throws IOException {
        return new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(printed.toFile())
                .start();
    }
}
