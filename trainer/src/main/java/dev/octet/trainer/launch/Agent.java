package dev.octet.trainer.launch;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;

/**
 * What mpirun starts in place of ssh: has a relay run a command, as ssh would have a machine, with its output and exit code. A program of its own that uses the JDK alone, so
 * that it starts quickly and takes one jar.
 */
final class Agent {
    /** The names of relays in place of machines begin so; the number of the relay follows. */
    static final String HOST = "octet-";

    /** What ssh answers when it cannot connect. */
    private static final int UNREACHABLE = 255;

    private static final Duration PATIENCE = Duration.ofSeconds(10);

    private Agent() {}

    /** Words: the file with the invitation, options of ssh, a host, and the command, whose words are joined by blanks as ssh joins them. */
    public static void main(String... words) {
        System.exit(run(words));
    }

    /** Writes down for agents where the first relay listens. */
    static void write(Invitation invitation, Path file) throws IOException {
        Files.write(file, List.of(invitation.host(), String.valueOf(invitation.port()), invitation.secret()));
    }

    private static int run(String... words) {
        int host = 1;
        while (host < words.length && words[host].startsWith("-")) {
            host++;
        }
        String name = host < words.length ? words[host].replaceFirst("^.*@", "") : "";
        if (!name.matches(HOST + "\\d{1,9}")) {
            System.err.println("octet: '" + name + "' is no relay");
            return UNREACHABLE;
        }
        String command = String.join(" ", Arrays.asList(words).subList(host + 1, words.length));
        try {
            List<String> lines = Files.readAllLines(Path.of(words[0]));
            Invitation invitation = new Invitation(lines.get(0), Integer.parseInt(lines.get(1)), lines.get(2));
            try (Connection first = Connection.call(invitation, PATIENCE)) {
                first.send(Connection.Kind.HELLO, "agent\n" + name.substring(HOST.length()));
                first.send(Connection.Kind.RUN, command);
                return pass(first);
            }
        } catch (IOException e) {
            System.err.println("octet: " + name + " cannot be reached: " + e.getMessage());
            return UNREACHABLE;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return UNREACHABLE;
        }
    }

    private static int pass(Connection first) throws IOException {
        while (true) {
            Connection.Frame frame = first.receive();
            switch (frame.kind()) {
                case OUT -> frame.writeTo(System.out);
                case ERR -> frame.writeTo(System.err);
                case EXIT -> {
                    return frame.number();
                }
                case REFUSED -> {
                    System.err.println("octet: " + frame.text());
                    return UNREACHABLE;
                }
                case PULSE, HELLO, RUN, STOP, DONE -> throw new IOException("the first relay says something odd");
            }
        }
    }
}
