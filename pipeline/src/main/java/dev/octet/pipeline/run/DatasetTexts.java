package dev.octet.pipeline.run;

import dev.octet.converter.data.DataFiles;
import dev.octet.converter.data.LineLabels;
import dev.octet.converter.data.RowOptions;
import dev.octet.converter.data.TokenizedRows;
import dev.octet.converter.data.TokenizedTexts;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.config.DataConfig;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.data.Feed;
import dev.octet.trainer.data.SampleFile;
import dev.octet.trainer.data.Samples;
import dev.octet.trainer.data.Texts;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/** The converter's texts and tokenizer, for the trainer, which does not know them. */
public record DatasetTexts(TokenizedTexts texts) implements Texts {
    private static final String TOKENIZER = "tokenizer.json";

    /**
     * Samples for a model: texts become tokens with the tokenizer in its folder, unless the configuration names one.
     *
     * @param purpose what rows of a data set are for
     */
    public static Samples samples(Path file, DataConfig config, Feed feed, Path model, RowOptions.Purpose purpose)
            throws IOException {
        return SampleFile.open(file, config, feed, (path, maxLength) -> {
            DataFiles files = DataFiles.of(path);
            Path tokenizer = tokenizer(config, model);
            boolean lines = purpose == RowOptions.Purpose.SEQUENCES && TokenizedRows.isTextLines(files);
            return lines
                    ? new DatasetTexts(TokenizedTexts.open(path, tokenizer, maxLength, config.eos()))
                    : new DatasetRows(
                            TokenizedRows.open(files, tokenizer, DatasetRows.options(config, purpose, maxLength)));
        });
    }

    /** What a configuration reads rows for. */
    public static RowOptions.Purpose purpose(TrainingConfig config) {
        return config.loss().type() == LossConfig.Type.DPO
                ? RowOptions.Purpose.PREFERENCES
                : RowOptions.Purpose.SEQUENCES;
    }

    /**
     * The tokenizer of texts: the one that the configuration names, else the one in the model's folder.
     *
     * @throws InvalidOptionException when it names none and there is none
     */
    public static Path tokenizer(DataConfig config, Path model) {
        boolean folder = Files.isDirectory(model);
        Path own = folder ? model.resolve(TOKENIZER) : model.resolveSibling(TOKENIZER);
        return config.tokenizer()
                .or(() -> Optional.of(own).filter(Files::exists))
                .orElseThrow(() -> new InvalidOptionException(
                        "texts need the model's tokenizer, and there is no " + own,
                        "data: {tokenizer: ...}",
                        "add data: {tokenizer: tokenizer.json}, or put it "
                                + (folder ? "there" : "next to the model")));
    }

    /** Tokens of a text that a prompt begins with, by the tokenizer of {@link #tokenizer}. */
    public static List<Long> tokens(String text, DataConfig config, Path model) throws IOException {
        return Arrays.stream(TokenizedTexts.tokensOf(text, tokenizer(config, model)))
                .boxed()
                .toList();
    }

    @Override
    public String name() {
        return texts.name();
    }

    @Override
    public long count() {
        return texts.count();
    }

    @Override
    public String digest() {
        return texts.digest();
    }

    @Override
    public List<long[]> tokens(long from, int size) {
        return texts.tokens(Math.toIntExact(from), size);
    }

    @Override
    public Optional<Labels> labels(String key) {
        return texts.labels(key).map(WrittenLabels::new);
    }

    /** Labels as the converter reads them. */
    record WrittenLabels(LineLabels found) implements Labels {
        @Override
        public double[] values(long text) {
            return found.values(Math.toIntExact(text));
        }

        @Override
        public boolean isWhole(long text) {
            return found.isWhole(Math.toIntExact(text));
        }

        @Override
        public long line(long text) {
            return found.line(Math.toIntExact(text));
        }
    }

    @Override
    public long endOfText() throws IOException {
        return texts.endOfText();
    }

    @Override
    public long largestToken() throws IOException {
        return texts.largestToken();
    }

    @Override
    public void close() {
        texts.close();
    }
}
