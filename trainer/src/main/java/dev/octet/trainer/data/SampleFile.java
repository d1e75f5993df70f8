package dev.octet.trainer.data;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.trainer.config.DataConfig;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Locale;
import java.util.OptionalInt;

/** Opens files of samples by the ending of their name. */
public final class SampleFile {
    private SampleFile() {}

    /** Makes tokens of texts: whoever has a tokenizer. */
    public interface TextOpener {
        /**
         * Opens a file of texts.
         *
         * @param maxLength tokens that each is cut to; empty for whole texts
         * @throws IOException when it cannot be read
         */
        Texts open(Path file, OptionalInt maxLength) throws IOException;
    }

    /**
     * Opens {@code .npz}, {@code .safetensors}, {@code .bin} or {@code .jsonl}.
     *
     * @throws InvalidDataException when the data does not fit the model, or the name has another ending
     * @throws IOException when it cannot be read
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
        if (name.endsWith(".jsonl")) {
            int maxLength = config.maxLength();
            Texts opened = texts.open(file, config.pack() ? OptionalInt.empty() : OptionalInt.of(maxLength));
            boolean fits = false;
            try {
                Samples samples = config.pack()
                        ? PackedSamples.of(opened, file.toString(), feed, config.sequence())
                        : new TextSamples(opened, file.toString(), feed, maxLength, config.padMultiple());
                fits = true;
                return samples;
            } finally {
                if (!fits) {
                    opened.close();
                }
            }
        }
        throw new InvalidDataException(
                "the data is neither .npz nor .safetensors, .bin or .jsonl",
                file.toString(),
                "give arrays as .npz or .safetensors, tokens as .bin, texts as .jsonl");
    }
}
