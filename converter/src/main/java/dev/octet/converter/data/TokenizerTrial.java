package dev.octet.converter.data;

import ai.djl.huggingface.tokenizers.HuggingFaceTokenizer;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.CacheFolder;
import dev.octet.formats.file.NativeTrial;
import dev.octet.formats.file.PrivateFolder;
import dev.octet.formats.file.Sha256;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;

/**
 * Tries a tokenizer file in a separate process before this process reads it.
 *
 * <p>The native library ends its process on contradictions in a file that it does not check, because Rust panics do not pass through JNI.
 * {@link TokenizerContradictions} finds the known contradictions; for the others, a separate JVM reads the file and encodes some texts.
 * Starting a JVM takes time, so the user's cache folder records files that passed by their digest. If no process can be started, only the
 * known contradictions are checked.
 */
final class TokenizerTrial {
    private static final System.Logger LOG = System.getLogger(TokenizerTrial.class.getName());
    private static final Duration LIMIT = Duration.ofMinutes(2);

    /**
     * Texts that take different paths in the library: words, scripts, empty, blanks, controls, lone marks, lookalikes of special tokens,
     * runs.
     */
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
     * Tries a file unless it passed before.
     *
     * @param json the file's bytes
     * @param path the file, for messages
     * @throws InvalidDataException when the file ends the process
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

    /** The empty file that marks these bytes as passed with this build of the library; empty without a cache folder. */
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

    /** Whether the process ended normally; false when none could be started. */
    private static boolean survived(byte[] json, Path path) throws IOException {
        Optional<NativeTrial.Ended> trial =
                NativeTrial.run(TokenizerTrial.class, TokenizerLibrary.settings(), json, LIMIT);
        if (trial.isEmpty()) {
            return false;
        }
        NativeTrial.Ended ended = trial.get();
        if (!ended.inTime() && !Thread.currentThread().isInterrupted()) {
            throw new InvalidDataException(
                    "the tokenizer's library does not finish this file within " + LIMIT.toSeconds() + " s",
                    path.toString(),
                    "give the tokenizer.json that belongs to the model, as its library wrote it");
        }
        if (ended.crashed()) {
            throw new InvalidDataException(
                    "the tokenizer's library crashes on this file: " + reason(ended.errors()),
                    path.toString(),
                    "give the tokenizer.json that belongs to the model, as its library wrote it");
        }
        return ended.exit() == 0;
    }

    /** The library's message: Rust prints the place in one line and the reason in the next. */
    private static String reason(String errors) {
        List<String> lines = errors.lines().toList();
        for (int i = 0; i + 1 < lines.size(); i++) {
            if (lines.get(i).contains("panicked at")) {
                return lines.get(i + 1).strip();
            }
        }
        return "it gives no reason";
    }

    /** Reads a tokenizer from standard input and encodes texts; a normal exit is the only result. */
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
                return; // refused properly: the parent process gets the same refusal
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
