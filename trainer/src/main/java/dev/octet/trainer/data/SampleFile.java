package dev.octet.trainer.data;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.trainer.config.DataConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.OptionalInt;

/** Opens files of samples, by file extension. */
public final class SampleFile {
    private SampleFile() {}

    /** Tokenizes text files; provided by the module that has tokenizers. */
    public interface TextOpener {
        /**
         * Opens a file or folder of texts.
         *
         * @param maxLength tokens to which each text is truncated; empty for no limit
         * @throws IOException when the file cannot be read
         */
        Texts open(Path file, OptionalInt maxLength) throws IOException;
    }

    /**
     * Opens {@code .npz}, {@code .safetensors} or {@code .bin}; anything else holds rows.
     *
     * @throws InvalidDataException when the data does not fit the model, or the extension is unknown
     * @throws IOException when the file cannot be read
     */
    public static Samples open(Path file, DataConfig config, Feed feed, TextOpener texts) throws IOException {
        String name = file.toString().toLowerCase(Locale.ROOT);
        if (name.endsWith(".npz")) {
            return ArraySamples.npz(file, feed);
        }
        if (name.endsWith(".safetensors")) {
            return ArraySamples.safetensors(file, feed);
        }
        if (name.endsWith(".bin")) {
            return TokenSamples.open(file, config.sequence(), config.tokenType(), feed);
        }
        if (name.endsWith(".jsonl") || name.endsWith(".parquet") || !Files.isRegularFile(file)) {
            int maxLength = config.maxLength();
            Texts opened = texts.open(file, config.pack() ? OptionalInt.empty() : OptionalInt.of(maxLength));
            boolean fits = false;
            try {
                Samples samples;
                if (feed.comparesAnswers()) {
                    samples = new PreferenceSamples(opened, file.toString(), feed, maxLength, config.padMultiple());
                } else if (!config.pack()) {
                    samples = new TextSamples(opened, file.toString(), feed, maxLength, config.padMultiple());
                } else if (config.neighbours() == DataConfig.Neighbours.UNSEEN) {
                    samples = DocumentSamples.of(opened, file.toString(), feed, config.sequence());
                } else {
                    samples = PackedSamples.of(opened, file.toString(), feed, config.sequence());
                }
                fits = true;
                return samples;
            } finally {
                if (!fits) {
                    opened.close();
                }
            }
        }
        throw new InvalidDataException(
                "the data is neither .npz nor .safetensors, .bin, .jsonl or .parquet",
                file.toString(),
                "give arrays as .npz or .safetensors, tokens as .bin, texts and conversations as .jsonl or .parquet");
    }
}
