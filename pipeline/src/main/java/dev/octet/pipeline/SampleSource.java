package dev.octet.pipeline;

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

/**
 * Samples for a model, to calibrate or to evaluate on.
 *
 * @param file {@code .npz}: arrays named as the model's inputs, first axis = samples; {@code .jsonl}: lines of {"text": ...}
 * @param tokenizer {@code tokenizer.json} for texts; empty for the one in the model's folder
 * @param range which of them; empty for all
 * @param maxLength tokens after which a text is cut
 */
public record SampleSource(Path file, Optional<Path> tokenizer, Optional<Range> range, int maxLength) {
    private static final String TOKENIZER = "tokenizer.json";

    /**
     * Samples from number {@code from}, counted from 0.
     *
     * @param limit whether {@code count} is the most there may be, rather than how many there must be
     */
    public record Range(int from, int count, boolean limit) {
        public Range {
            if (from < 0 || count < 1) {
                throw new IllegalArgumentException(count + " samples from " + from);
            }
        }

        private Dataset of(Dataset data) {
            return data.slice(from, limit ? Math.min(count, data.count() - from) : count);
        }
    }

    /** All samples of a file. */
    public static SampleSource of(Path file) {
        return new SampleSource(
                file, Optional.empty(), Optional.empty(), TextOptions.defaults().maxLength());
    }

    /** The same texts with a tokenizer that lies elsewhere. */
    public SampleSource withTokenizer(Path newTokenizer) {
        return new SampleSource(file, Optional.of(newTokenizer), range, maxLength);
    }

    /** {@code count} samples of the file from number {@code from}, counted from 0. */
    public SampleSource withRange(int from, int count) {
        return new SampleSource(file, tokenizer, Optional.of(new Range(from, count, false)), maxLength);
    }

    /** The first samples of the file, {@code count} where there are so many. */
    public SampleSource withAtMost(int count) {
        return new SampleSource(file, tokenizer, Optional.of(new Range(0, count, true)), maxLength);
    }

    /** The same texts, cut after so many tokens. */
    public SampleSource withMaxLength(int tokens) {
        return new SampleSource(file, tokenizer, range, tokens);
    }

    /**
     * Opens the samples.
     *
     * @param model its file or folder; a {@code tokenizer.json} next to the file or in the folder is used where none is named
     * @param inputs what the model wants
     * @throws dev.octet.formats.error.InvalidOptionException when the file is of another kind, or the tokenizer is missing
     */
    Dataset open(Path model, List<InputSpec> inputs, Job job) throws IOException {
        String name = file.toString().toLowerCase(Locale.ROOT);
        Dataset data;
        if (name.endsWith(".npz")) {
            data = NpzDataset.open(file, inputs);
        } else if (name.endsWith(".jsonl")) {
            data = TextDataset.open(file, tokenizer(model, job), inputs, new TextOptions(maxLength));
        } else {
            throw job.invalid(
                    "'" + file + "' is neither .npz nor .jsonl",
                    "give arrays as .npz, or texts as .jsonl with lines of {\"text\": ...}");
        }
        return range.isPresent() ? range.get().of(data) : data;
    }

    private Path tokenizer(Path model, Job job) {
        boolean folder = Files.isDirectory(model);
        Path own = folder ? model.resolve(TOKENIZER) : model.resolveSibling(TOKENIZER);
        return tokenizer
                .or(() -> Files.isRegularFile(own) ? Optional.of(own) : Optional.empty())
                .orElseThrow(() -> job.invalid(
                        "texts need the model's tokenizer, and there is no " + own,
                        "give --tokenizer tokenizer.json, or put it " + (folder ? "there" : "next to the model")));
    }
}
