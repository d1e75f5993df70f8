package dev.octet.trainer.config;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.yaml.Section;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * Samples to train and evaluate on.
 *
 * @param train file of samples
 * @param eval file of other samples, for evaluations
 * @param shuffle whether each epoch has an order of its own, made from the seed
 * @param sequence tokens of a sample of a {@code .bin} file, or of packed texts; 0 where none is given
 * @param tokenType U16 or U32: how tokens lie in a {@code .bin} file
 * @param tokenizer {@code tokenizer.json} for texts; empty for the one beside the model
 * @param pack whether texts are joined and cut into sequences, instead of each being a sample
 * @param eos the token that ends a packed text; empty for what the files beside the tokenizer say
 * @param maxLength tokens after which a text is cut
 * @param padMultiple batches of text are padded to a multiple of so many tokens, {@code maxLength} at most: programs are made per length
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
                            ? "packed texts are a stream of tokens; nothing says how many make a sample"
                            : "a .bin file is a stream of tokens; nothing says how many make a sample",
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

    /** Keys that would have no effect are most likely meant for other data. */
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
