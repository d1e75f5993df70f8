package dev.octet.cli;

import dev.octet.converter.data.InputSpec;
import dev.octet.converter.data.TextDataset;
import dev.octet.converter.data.TextOptions;
import dev.octet.formats.tensor.DType;
import dev.octet.trainer.config.DataConfig;
import dev.octet.trainer.data.Feed;
import dev.octet.trainer.data.SampleFile;
import dev.octet.trainer.data.Samples;
import dev.octet.trainer.data.Texts;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;

/** The converter's texts and tokenizer, for the trainer, which does not know them. */
record DatasetTexts(TextDataset dataset) implements Texts {
    private static final String IDS = "input_ids";

    private static DatasetTexts open(Path file, Path tokenizer, int maxLength) throws IOException {
        InputSpec ids = new InputSpec(IDS, DType.I64, null);
        return new DatasetTexts(TextDataset.open(file, tokenizer, List.of(ids), new TextOptions(maxLength)));
    }

    /** Samples for a model: texts become tokens with the tokenizer beside it, unless the configuration names one. */
    static Samples samples(Path file, DataConfig config, Feed feed, Path model) throws IOException {
        return SampleFile.open(file, config, feed, (texts, maxLength) -> {
            Path beside = model.resolveSibling("tokenizer.json");
            return open(texts, config.tokenizer().orElse(beside), maxLength);
        });
    }

    @Override
    public String name() {
        return dataset.name();
    }

    @Override
    public long count() {
        return dataset.count();
    }

    @Override
    public String digest() {
        return dataset.digest();
    }

    @Override
    public long[] tokens(long number) {
        return dataset.batch(Math.toIntExact(number), 1).tensor(IDS).toLongs();
    }

    @Override
    public void close() {
        dataset.close();
    }
}
