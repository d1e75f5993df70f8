package dev.octet.trainer.data;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.Optional;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * Labels that stand with their texts: class numbers, I64 [batch]; or what a regression is to answer, F32 with the shape of the model's output,
 * [batch] or [batch, n].
 */
final class TextLabels {
    private final String name;
    private final Texts.Labels labels;
    private final DType dtype;
    private final boolean matrix;

    private TextLabels(String name, Texts.Labels labels, DType dtype, boolean matrix) {
        this.name = name;
        this.labels = labels;
        this.dtype = dtype;
        this.matrix = matrix;
    }

    /**
     * The labels of texts; null where there are none to read, or where tokens are the labels: with causal-lm, and with cross-entropy of an output
     * per token when no text has a label of its own.
     *
     * @param file for messages
     * @throws InvalidDataException when a label is missing or does not fit the model's output; the message has its line
     * @throws IOException when the file can no longer be read
     */
    static @Nullable TextLabels of(Texts texts, String file, Feed feed) throws IOException {
        if (feed.labels().isEmpty() || feed.compared().isEmpty()) {
            return null;
        }
        String name = feed.labels().get();
        Feed.Compared compared = feed.compared().get();
        boolean classes = compared.loss().isOverClasses();
        Optional<Texts.Labels> labels = texts.labels(name);
        if (labels.isEmpty()) {
            if (classes && (compared.rank() == 3 || compared.rank() < 0)) {
                return null;
            }
            throw new InvalidDataException(
                    "no text has a \"" + name + "\", which the loss "
                            + compared.loss().key() + " compares with the output",
                    file + ", line 1",
                    "give each line one, as {\"text\": ..., \"" + name + "\": " + (classes ? "0" : "0.5")
                            + "}; loss: {labels: KEY} reads another key");
        }
        Checks checks = new Checks(labels.get(), file, name, feed, compared);
        int width = 0;
        for (long text = 0; text < texts.count(); text++) {
            width = classes ? checks.requireClass(text) : checks.requireWidth(text, width);
        }
        DType dtype = classes ? DType.I64 : DType.F32;
        return new TextLabels(name, labels.get(), dtype, !classes && (width > 1 || compared.rank() == 2));
    }

    private record Checks(Texts.Labels labels, String file, String name, Feed feed, Feed.Compared compared) {
        /** Requires a class number; the width of labels is 1. */
        int requireClass(long text) {
            double[] values = labels.values(text);
            if (values.length != 1 || !labels.isWhole(text)) {
                throw unfit(
                        text,
                        values.length == 1 ? "is not a whole number" : "is a list of " + values.length,
                        "give the number of one class, which count from 0");
            }
            OptionalLong classes = compared.width();
            boolean inside = values[0] >= 0 && (classes.isEmpty() || values[0] < classes.getAsLong());
            if (!inside && values[0] != feed.ignoreIndex()) {
                throw unfit(
                        text,
                        "is " + (long) values[0] + ", classes are 0 to "
                                + (classes.isEmpty() ? "the last" : String.valueOf(classes.getAsLong() - 1)),
                        "correct it, or use a model with more classes; " + feed.ignoreIndex()
                                + " is the label of texts that do not count");
            }
            return 1;
        }

        /** Requires as many numbers as the output and the texts before have. */
        int requireWidth(long text, int before) {
            int width = labels.values(text).length;
            long wanted = compared.rank() == 1 ? 1 : compared.width().orElse(before == 0 ? width : before);
            if (width != wanted || width == 0) {
                throw unfit(text, "has " + width + " numbers, the output " + wanted, "give as many as the output has");
            }
            return width;
        }

        private InvalidDataException unfit(long text, String what, String fix) {
            return new InvalidDataException("\"" + name + "\" " + what, file + ", line " + labels.line(text), fix);
        }
    }

    /** The labels of some texts. */
    Tensor tensor(long[] texts, Arena arena) {
        int width = texts.length == 0 ? 1 : labels.values(texts[0]).length;
        Shape shape = matrix ? Shape.of(texts.length, width) : Shape.of(texts.length);
        Tensor tensor = Tensor.allocate(arena, new TensorSpec(name, dtype, shape));
        long at = 0;
        for (long text : texts) {
            for (double value : labels.values(text)) {
                if (dtype == DType.F32) {
                    tensor.bytes().set(Tensor.F32_LE, at * Float.BYTES, (float) value);
                } else {
                    tensor.bytes().set(Tensor.I64_LE, at * Long.BYTES, (long) value);
                }
                at++;
            }
        }
        return tensor;
    }
}
