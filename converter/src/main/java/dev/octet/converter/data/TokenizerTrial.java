package dev.octet.converter.data;

import ai.djl.huggingface.tokenizers.HuggingFaceTokenizer;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.CacheFolder;
import dev.octet.formats.file.PrivateFolder;
import dev.octet.formats.file.Sha256;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.TimeUnit;

/**
 * A tokenizer file tried in a process that may die, before it is read in this one.
 *
 * <p>The native library ends its process where a file contradicts itself in a way that the library did not think of: Rust's panics do not
 * pass through JNI. {@link TokenizerContradictions} finds the known ones; for the others a Java of its own reads the file and encodes some texts.
 * That takes the start of a JVM, so a file that passed is remembered by its digest in the user's cache folder. Where no process can be started,
 * the known contradictions are all that is looked for.
 */
final class TokenizerTrial {
    private static final System.Logger LOG = System.getLogger(TokenizerTrial.class.getName());
    private static final long SECONDS = 120;

    /** Exit codes of processes that a signal ended are this and its number. */
    private static final int SIGNALLED = 128;

    /** SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV; the others come from outside. */
    private static final List<Integer> CRASHES = List.of(4, 5, 6, 7, 8, 11);

    /** Texts on which the library's ways part: words, scripts, nothing, blanks, controls, marks alone, what special tokens look like, runs. */
    private static final List<String> TEXTS = List.of(
            "The cat sat on a mat.",
            "h\u00e9llo w\u00f6rld \u65e5\u672c\u8a9e \uD83D\uDE00  12 345",
            "",
            "  x  ",
            "<s></s>[UNK][CLS]<unk><x>\n\t'",
            "\u0000\u0301e\uFFFD\u200B\uD800 z",
            "a".repeat(3000),
            " ".repeat(300),
            "7".repeat(300),
            "\u65e5".repeat(300),
            "a b ".repeat(300));

    private TokenizerTrial() {}

    /**
     * Tries a file, unless it was tried before.
     *
     * @param json its bytes
     * @param path where they were read, for messages
     * @throws InvalidDataException when it ends the process
     */
    static void pass(byte[] json, Path path) throws IOException {
        Optional<Path> mark = mark(json);
        if (mark.isPresent() && Files.isRegularFile(mark.get())) {
            return;
        }
        TokenizerContradictions.check(json, path);
        if (survived(json, path) && mark.isPresent()) {
            keep(mark.get());
        }
    }

    /** An empty file that says that these bytes passed with this build of the library; empty where there is no folder for it. */
    private static Optional<Path> mark(byte[] json) {
        try {
            Path folder = PrivateFolder.open(CacheFolder.path().resolve("tokenizers"));
            return Optional.of(
                    folder.resolve(Sha256.of("tried", Sha256.of(json), TokenizerLibrary.build(), TEXTS.toString())));
        } catch (IOException e) {
            LOG.log(System.Logger.Level.DEBUG, "each run tries the tokenizer again", e);
            return Optional.empty();
        }
    }

    private static void keep(Path mark) {
        try {
            Files.write(mark, new byte[0]);
        } catch (IOException e) {
            LOG.log(System.Logger.Level.DEBUG, "the next run tries the tokenizer again", e);
        }
    }

    /** Whether a process lived to its end; false when none could be started. */
    private static boolean survived(byte[] json, Path path) throws IOException {
        Path errors = Files.createTempFile("octet-tokenizer", ".txt");
        try {
            Process process;
            try {
                process = new ProcessBuilder(command())
                        .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                        .redirectError(errors.toFile())
                        .start();
            } catch (IOException e) {
                LOG.log(System.Logger.Level.DEBUG, "no process can be started", e);
                return false;
            }
            int code = feed(process, json, path);
            if (CRASHES.contains(code - SIGNALLED)) {
                throw new InvalidDataException(
                        "the tokenizer's library crashes on this file: " + reason(errors),
                        path.toString(),
                        "give the tokenizer.json that belongs to the model, as its library wrote it");
            }
            return code == 0;
        } finally {
            Files.deleteIfExists(errors);
        }
    }

    private static int feed(Process process, byte[] json, Path path) {
        try {
            try (OutputStream in = process.getOutputStream()) {
                in.write(json);
            } catch (IOException e) {
                LOG.log(System.Logger.Level.DEBUG, "the process ended before it had read all", e);
            }
            if (!process.waitFor(SECONDS, TimeUnit.SECONDS)) {
                throw new InvalidDataException(
                        "the tokenizer's library does not end on this file within " + SECONDS + " s",
                        path.toString(),
                        "give the tokenizer.json that belongs to the model, as its library wrote it");
            }
            return process.exitValue();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return -1;
        } finally {
            process.destroyForcibly();
        }
    }

    /** What the library said: Rust tells the place in one line and the reason in the next. */
    private static String reason(Path errors) throws IOException {
        List<String> lines = new String(Files.readAllBytes(errors), StandardCharsets.UTF_8)
                .lines()
                .toList();
        for (int i = 0; i + 1 < lines.size(); i++) {
            if (lines.get(i).contains("panicked at")) {
                return lines.get(i + 1).strip();
            }
        }
        return "it does not say why";
    }

    private static List<String> command() {
        List<String> words = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-XX:-CreateCoredumpOnCrash",
                "-XX:+SuppressFatalErrorMessage",
                "--enable-native-access=ALL-UNNAMED"));
        for (Map.Entry<String, String> e : TokenizerLibrary.settings().entrySet()) {
            words.add("-D" + e.getKey() + "=" + e.getValue());
        }
        String module = TokenizerTrial.class.getModule().getName();
        if (module == null) {
            words.addAll(List.of("-cp", System.getProperty("java.class.path"), TokenizerTrial.class.getName()));
        } else {
            words.addAll(List.of(
                    "-p",
                    System.getProperty("jdk.module.path", ""),
                    "-m",
                    module + "/" + TokenizerTrial.class.getName()));
        }
        return words;
    }

    /** Reads a tokenizer from standard input and encodes texts; that it comes to its end is all its answer. */
    public static void main(String... words) throws IOException {
        byte[] json = System.in.readAllBytes();
        for (Map<String, String> options :
                List.of(Tokenizer.options(OptionalInt.of(16)), Tokenizer.options(OptionalInt.empty()))) {
            try (HuggingFaceTokenizer tokenizer =
                    HuggingFaceTokenizer.newInstance(new ByteArrayInputStream(json), options)) {
                for (String text : TEXTS) {
                    encode(tokenizer, text);
                }
            } catch (RuntimeException e) {
                return; // refused in peace: the process that asks will hear of it
            }
        }
    }

    private static void encode(HuggingFaceTokenizer tokenizer, String text) {
        try {
            tokenizer.encode(text, true, false);
        } catch (RuntimeException e) {
            LOG.log(System.Logger.Level.TRACE, "this text cannot be encoded", e);
        }
    }
}
