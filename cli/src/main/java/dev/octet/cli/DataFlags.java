package dev.octet.cli;

import dev.octet.converter.data.TextOptions;
import dev.octet.pipeline.SampleSource;
import java.nio.file.Path;
import java.util.List;
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
    /** Where {@code --calibration} is the usual word. */
    static final PathOption DATA_FOR_CALIBRATION = PathOption.read("data", "FILE", "the same as --calibration");
    /** Where {@code --data} is the usual word. */
    static final PathOption CALIBRATION_FOR_DATA = PathOption.read("calibration", "FILE", "the same as --data");

    static final PathOption TOKENIZER = PathOption.read(
            "tokenizer",
            "FILE",
            "tokenizer.json of the model, for texts (default: the one next to the model, or in its folder)");
    static final Option SAMPLES = Flags.value(
            "samples", "[FROM:]N", "use N samples, starting at number FROM counted from 0 (default: all samples)");
    static final Option MAX_LENGTH = Flags.value(
            "max-length",
            "N",
            "tokens after which a text is cut (default: "
                    + TextOptions.defaults().maxLength() + ")");

    private static final Pattern RANGE = Pattern.compile("(?:(\\d{1,9}):)?(\\d{1,9})");
    private static final int LONGEST_TEXT = 1 << 20;

    private DataFlags() {}

    /** What a verb that reads samples takes in addition to the option for the file. */
    static List<Option> all() {
        return List.of(TOKENIZER, SAMPLES, MAX_LENGTH);
    }

    /** The file of samples, by either name of its option; empty where none was given. */
    static Optional<Path> file(Arguments arguments) {
        Optional<Path> calibration = arguments.path(CALIBRATION);
        Optional<Path> data = arguments.path(DATA_FOR_CALIBRATION);
        if (calibration.isPresent() && data.isPresent()) {
            throw arguments.usage("--data and --calibration name the same thing", "give one of them");
        }
        return calibration.or(() -> data);
    }

    /** The samples in {@code file} that the command line asks for. */
    static SampleSource source(Arguments arguments, Path file) {
        SampleSource source = SampleSource.of(file)
                .withMaxLength(
                        arguments.integer(MAX_LENGTH, TextOptions.defaults().maxLength(), 1, LONGEST_TEXT));
        Optional<Path> tokenizer = arguments.path(TOKENIZER);
        if (tokenizer.isPresent()) {
            source = source.withTokenizer(tokenizer.get());
        }
        Optional<String> samples = arguments.text(SAMPLES);
        return samples.isPresent() ? slice(arguments, source, samples.get()) : source;
    }

    private static SampleSource slice(Arguments arguments, SampleSource source, String range) {
        Matcher matcher = RANGE.matcher(range);
        if (!matcher.matches()) {
            throw arguments.usage("--samples needs N or FROM:N, got '" + range + "'", "for example 256, or 256:400");
        }
        int from = matcher.group(1) == null ? 0 : Integer.parseInt(matcher.group(1));
        int count = Integer.parseInt(matcher.group(2));
        if (count < 1) {
            throw arguments.usage("--samples needs at least one sample", "for example 256, or 256:400");
        }
        return source.withRange(from, count);
    }
}
