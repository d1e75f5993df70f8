package dev.octet.pipeline.run;

import dev.octet.converter.data.RowOptions;
import dev.octet.converter.data.TokenizedRows;
import dev.octet.trainer.config.DataConfig;
import dev.octet.trainer.data.Texts;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;

/** The converter's rows of a data set, for the trainer, which does not know them. */
record DatasetRows(TokenizedRows rows) implements Texts {
    /** What a configuration says of rows. */
    static RowOptions options(DataConfig config, RowOptions.Purpose purpose, OptionalInt maxLength) {
        return new RowOptions(
                purpose,
                config.chat().template(),
                switch (config.chat().trainOn()) {
                    case ASSISTANT -> RowOptions.TrainOn.ASSISTANT;
                    case ALL -> RowOptions.TrainOn.ALL;
                },
                config.chat().date(),
                maxLength,
                config.eos());
    }

    @Override
    public String name() {
        return rows.name();
    }

    @Override
    public long count() {
        return rows.count();
    }

    @Override
    public String digest() {
        return rows.digest();
    }

    @Override
    public List<long[]> tokens(long from, int size) {
        List<long[]> tokens = new ArrayList<>(size);
        for (int i = 0; i < size; i++) {
            tokens.add(rows.tokens(Math.toIntExact(from + i)));
        }
        return tokens;
    }

    @Override
    public Optional<boolean[]> counted(long text) {
        return rows.counted(Math.toIntExact(text));
    }

    @Override
    public boolean takesEnd() {
        return rows.areTexts();
    }

    @Override
    public Optional<Labels> labels(String key) throws IOException {
        return rows.labels(key).map(DatasetTexts.WrittenLabels::new);
    }

    @Override
    public long endOfText() throws IOException {
        return rows.endOfText();
    }

    @Override
    public long largestToken() throws IOException {
        return rows.largestToken();
    }

    @Override
    public void close() {
        rows.close();
    }
}
