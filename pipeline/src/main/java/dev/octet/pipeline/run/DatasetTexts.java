package dev.octet.pipeline.run;

import dev.octet.converter.data.TokenizedTexts;
import dev.octet.trainer.config.DataConfig;
import dev.octet.trainer.data.Feed;
import dev.octet.trainer.data.SampleFile;
import dev.octet.trainer.data.Samples;
import dev.octet.trainer.data.Texts;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** The converter's texts and tokenizer, for the trainer, which does not know them. */
public record DatasetTexts(TokenizedTexts texts) implements Texts {
    private static final String TOKENIZER = "tokenizer.json";

    /** Samples for a model: texts become tokens with the tokenizer in its folder, unless the configuration names one. */
    public static Samples samples(Path file, DataConfig config, Feed feed, Path model) throws IOException {
        return SampleFile.open(file, config, feed, (texts, maxLength) -> {
            Path own = Files.isDirectory(model) ? model.resolve(TOKENIZER) : model.resolveSibling(TOKENIZER);
            return new DatasetTexts(
                    TokenizedTexts.open(texts, config.tokenizer().orElse(own), maxLength, config.eos()));
        });
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
