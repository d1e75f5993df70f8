package dev.octet.cli;

import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.data.NpzDataset;
import dev.octet.converter.data.TextDataset;
import dev.octet.converter.data.TextOptions;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.commons.cli.Option;

/** Options that name samples for a model, the same for calibration and evaluation. */
final class DataFlags {
    static final PathOption CALIBRATION = PathOption.read(
            "calibration",
            "FILE",
            "samples to calibrate on: .npz (arrays named as the model's inputs, first axis = samples) or .jsonl"
                    + " ({\"text\": ...}, with --tokenizer)");
    static final PathOption TOKENIZER = PathOption.read(
            "tokenizer",
            "FILE",
            "tokenizer.json of the model, for texts (default: the one beside the model, or in its folder)");
    static final Option SAMPLES = Flags.value(
            "samples", "[FROM:]N", "use N samples, starting at number FROM counted from 0 (default: all samples)");
    static final Option MAX_LENGTH = Flags.value(
            "max-length", "N", "tokens after which a text is cut (default: " + TextOptions.DEFAULT.maxLength() + ")");

    private static final String TOKENIZER_FILE = "tokenizer.json";
    private static final Pattern RANGE = Pattern.compile("(?:(\\d{1,9}):)?(\\d{1,9})");
    private static final int LONGEST_TEXT = 1 << 20;

    private DataFlags() {}

    /** What a verb that reads samples takes beside the option for the file. */
    static List<Option> all() {
        return List.of(TOKENIZER, SAMPLES, MAX_LENGTH);
    }

    /**
     * Opens the samples in {@code file}.
     *
     * @param model the model's file or folder; a {@code tokenizer.json} beside the file or in the folder is used where none is named
     * @param inputs what the model wants
     */
    static Dataset open(Arguments arguments, Path file, Path model, List<InputSpec> inputs) throws IOException {
        String name = file.toString().toLowerCase(Locale.ROOT);
        Dataset data;
        if (name.endsWith(".npz")) {
            data = NpzDataset.open(file, inputs);
        } else if (name.endsWith(".jsonl")) {
            Path tokenizer = tokenizer(arguments, model);
            int length = arguments.integer(MAX_LENGTH, TextOptions.DEFAULT.maxLength(), 1, LONGEST_TEXT);
            data = TextDataset.open(file, tokenizer, inputs, new TextOptions(length));
        } else {
            throw arguments.usage(
                    "'" + file + "' is neither .npz nor .jsonl",
                    "give arrays as .npz, or texts as .jsonl with lines of {\"text\": ...}");
        }
        Optional<String> samples = arguments.text(SAMPLES);
        return samples.isPresent() ? slice(arguments, data, samples.get()) : data;
    }

    private static Path tokenizer(Arguments arguments, Path model) {
        boolean folder = Files.isDirectory(model);
        Path beside = folder ? model.resolve(TOKENIZER_FILE) : model.resolveSibling(TOKENIZER_FILE);
        return arguments
                .path(TOKENIZER)
                .or(() -> Files.isRegularFile(beside) ? Optional.of(beside) : Optional.empty())
                .orElseThrow(() -> arguments.usage(
                        "texts need the model's tokenizer, and there is no " + beside,
                        "give --tokenizer tokenizer.json, or put it " + (folder ? "there" : "beside the model")));
    }

    private static Dataset slice(Arguments arguments, Dataset data, String range) {
        Matcher matcher = RANGE.matcher(range);
        if (!matcher.matches()) {
            throw arguments.usage("--samples needs N or FROM:N, got '" + range + "'", "for example 256, or 256:400");
        }
        int from = matcher.group(1) == null ? 0 : Integer.parseInt(matcher.group(1));
        int count = Integer.parseInt(matcher.group(2));
        if (count < 1) {
            throw arguments.usage("--samples needs at least one sample", "for example 256, or 256:400");
        }
        return data.slice(from, count);
    }
}
