package dev.octet.trainer.config;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.yaml.Section;
import java.nio.file.Path;
import java.util.List;
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
 * @param pack whether to join texts and cut them into sequences, instead of one sample per text
 * @param eos the token appended to each packed text; empty for the one that the files next to the tokenizer name
 * @param maxLength tokens to which a text is truncated
 * @param padMultiple batches of texts are padded to a multiple of this many tokens, {@code maxLength} at most: each length needs a program
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
        int padMultiple) {
    private static final int LONGEST = 1 << 20;

    static DataConfig read(Section s, Path folder) {
        DataConfig data = new DataConfig(
                s.requiredPath("train", folder),
                s.path("eval", folder),
                s.flag("shuffle", true),
                (int) s.whole("sequence", 0, 1, LONGEST),
                s.choice("token_type", Map.of("uint16", DType.U16, "uint32", DType.U32), DType.U16),
                s.path("tokenizer", folder),
                s.flag("pack", false),
                s.text("eos"),
                (int) s.whole("max_length", 256, 2, LONGEST),
                (int) s.whole("pad_multiple", 16, 1, LONGEST));
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
        requireKind(s, data, ".bin", List.of("token_type"));
        requireKind(s, data, ".jsonl", List.of("tokenizer", "pack", "eos", "max_length", "pad_multiple"));
        for (String key : data.pack ? List.of("max_length", "pad_multiple") : List.of("eos")) {
            if (s.has(key)) {
                throw s.error(
                        key,
                        data.pack ? "packed texts are neither cut nor padded" : "only packed texts are joined",
                        data.pack ? "leave the key out, or leave pack out" : "add pack: true, or leave the key out");
            }
        }
        return data;
    }

    /** Rejects keys that no data file would use: they are most likely meant for other data. */
    private static void requireKind(Section s, DataConfig data, String ending, List<String> keys) {
        boolean there = Stream.concat(Stream.of(data.train), data.eval.stream())
                .anyMatch(p -> p.toString().endsWith(ending));
        for (String key : keys) {
            if (!there && s.has(key)) {
                throw s.error(key, "only " + ending + " files have a " + key, "leave the key out");
            }
        }
    }
}
