package dev.octet.trainer.config;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.yaml.Section;
import java.nio.file.Path;
import java.time.LocalDate;
import java.time.format.DateTimeParseException;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * Training and evaluation data.
 *
 * @param train file of training samples
 * @param eval file of evaluation samples
 * @param shuffle whether to shuffle each epoch, in an order derived from the seed
 * @param sequence tokens per sample of a {@code .bin} file or of packed texts; 0 when not given
 * @param tokenType U16 or U32: token type of a {@code .bin} file
 * @param tokenizer {@code tokenizer.json} for texts; empty for the one in the model's folder
 * @param pack whether samples are sequences of texts, instead of one text each
 * @param eos the token appended to each packed text and to completions; empty for the one that the files next to the tokenizer name
 * @param maxLength tokens to which a text is truncated
 * @param padMultiple batches of texts are padded to a multiple of this many tokens, {@code maxLength} at most: each length needs a program
 * @param neighbours whether a packed text sees those before it in its sample
 * @param chat how conversations become texts
 */
public record DataConfig(
        Path train,
        Optional<Path> eval,
        boolean shuffle,
        int sequence,
        DType tokenType,
        Optional<Path> tokenizer,
        boolean pack,
        Optional<String> eos,
        int maxLength,
        int padMultiple,
        Neighbours neighbours,
        Chat chat) {
    private static final int LONGEST = 1 << 20;

    /** Files of tokens and arrays; any other path names rows: a file, a folder of files, or a split of a folder. */
    private static final List<String> NOT_ROWS = List.of(".npz", ".safetensors", ".bin");

    private static final List<String> ROW_KEYS =
            List.of("tokenizer", "pack", "eos", "max_length", "pad_multiple", "chat_template", "train_on", "date");

    /** What a packed text sees of the others in its sample. */
    public enum Neighbours {
        /** Those before it: texts are joined into one stream, which is cut anywhere. */
        SEEN,
        /** Nothing: a sample holds whole texts, and attention, positions and loss are those of each text alone. */
        UNSEEN
    }

    /**
     * Conversations and completions.
     *
     * @param template Jinja template; empty for the one next to the tokenizer
     * @param trainOn the tokens that are learnt
     * @param date today for a template that asks
     */
    public record Chat(Optional<Path> template, TrainOn trainOn, Optional<LocalDate> date) {
        /** Nothing but defaults. */
        public static final Chat DEFAULT = new Chat(Optional.empty(), TrainOn.ASSISTANT, Optional.empty());
    }

    /** The tokens of a conversation, or of a prompt and a completion, that are learnt. */
    public enum TrainOn {
        /** The assistant's turns; the completion. */
        ASSISTANT,
        /** All. */
        ALL
    }

    private static final Map<String, Pack> PACKS =
            Map.of("true", Pack.JOINED, "false", Pack.NO, "documents", Pack.DOCUMENTS);

    private enum Pack {
        NO,
        JOINED,
        DOCUMENTS
    }

    static DataConfig read(Section s, Path folder) {
        Pack pack = s.choice("pack", PACKS, Pack.NO);
        DataConfig data = new DataConfig(
                s.requiredPath("train", folder),
                s.path("eval", folder),
                s.flag("shuffle", true),
                (int) s.whole("sequence", 0, 1, LONGEST),
                s.choice("token_type", Map.of("uint16", DType.U16, "uint32", DType.U32), DType.U16),
                s.path("tokenizer", folder),
                pack != Pack.NO,
                s.text("eos"),
                (int) s.whole("max_length", 256, 2, LONGEST),
                (int) s.whole("pad_multiple", 16, 1, LONGEST),
                pack == Pack.DOCUMENTS ? Neighbours.UNSEEN : Neighbours.SEEN,
                chat(s, folder));
        boolean tokens = data.pack || data.train.toString().endsWith(".bin");
        if (tokens && data.sequence == 0) {
            throw s.error(
                    "sequence",
                    data.pack
                            ? "packed texts are a stream of tokens: the number of tokens per sample is missing"
                            : "a .bin file is a stream of tokens: the number of tokens per sample is missing",
                    "add sequence: 1024");
        }
        if (!tokens && data.sequence != 0) {
            throw s.error(
                    "sequence",
                    "only .bin files and packed texts are cut into sequences",
                    "leave the key out, or add pack: true for texts, or use max_length");
        }
        requireKind(s, data.paths().anyMatch(p -> p.toString().endsWith(".bin")), ".bin files", List.of("token_type"));
        requireKind(s, data.paths().anyMatch(DataConfig::isRows), ".jsonl and .parquet files", ROW_KEYS);
        for (String key : data.pack ? List.of("max_length", "pad_multiple") : List.<String>of()) {
            if (s.has(key)) {
                throw s.error(key, "packed texts are neither cut nor padded", "leave the key out, or leave pack out");
            }
        }
        return data;
    }

    private static Chat chat(Section s, Path folder) {
        return new Chat(
                s.path("chat_template", folder),
                s.choice("train_on", Map.of("assistant", TrainOn.ASSISTANT, "all", TrainOn.ALL), TrainOn.ASSISTANT),
                s.text("date").map(text -> {
                    try {
                        return LocalDate.parse(text);
                    } catch (DateTimeParseException _) {
                        throw s.error("date", "'" + text + "' is not a date", "write year, month and day: 2026-01-31");
                    }
                }));
    }

    /** Whether a path names rows of texts, conversations or tokens: {@code .jsonl}, {@code .parquet}, or a folder of them. */
    public static boolean isRows(Path path) {
        return NOT_ROWS.stream().noneMatch(path.toString().toLowerCase(Locale.ROOT)::endsWith);
    }

    private Stream<Path> paths() {
        return Stream.concat(Stream.of(train), eval.stream());
    }

    /** Rejects keys that no data file would use: they are most likely meant for other data. */
    private static void requireKind(Section s, boolean there, String files, List<String> keys) {
        for (String key : keys) {
            if (!there && s.has(key)) {
                throw s.error(key, "only " + files + " have a " + key, "leave the key out");
            }
        }
    }
}
