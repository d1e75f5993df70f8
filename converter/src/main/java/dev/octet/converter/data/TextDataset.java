package dev.octet.converter.data;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalLong;

/**
 * Texts for a transformer: JSON Lines of {@code {"text": ...}}, tokenised by the model's {@code tokenizer.json}, in the file's order. Each
 * batch is padded to its longest text (or to the model's fixed length) and feeds those of {@code input_ids}, {@code attention_mask}, {@code
 * token_type_ids} and {@code position_ids} that the model takes, as I64 or I32 of shape [batch, length].
 */
public final class TextDataset implements Dataset {
    private static final String FEEDS = "input_ids, attention_mask, token_type_ids, position_ids";

    private final String name;
    private final String digest;
    private final JsonLines lines;
    private final Tokenizer tokenizer;
    private final List<InputSpec> inputs;
    private final OptionalLong fixedLength;

    private TextDataset(
            String name,
            String digest,
            JsonLines lines,
            Tokenizer tokenizer,
            List<InputSpec> inputs,
            OptionalLong fixedLength) {
        this.name = name;
        this.digest = digest;
        this.lines = lines;
        this.tokenizer = tokenizer;
        this.inputs = inputs;
        this.fixedLength = fixedLength;
    }

    /**
     * Opens texts for a model.
     *
     * @param file JSON Lines; opening checks every line
     * @param tokenizerJson the model's tokenizer
     * @param inputs the model's inputs
     * @throws InvalidDataException when text cannot feed these inputs, or a line or the tokenizer is malformed
     * @throws dev.octet.formats.error.UnavailableException when the tokenizer's native library cannot be loaded
     * @throws IOException when a file cannot be read
     */
    public static TextDataset open(Path file, Path tokenizerJson, List<InputSpec> inputs, TextOptions options)
            throws IOException {
        inputs.forEach(i -> check(i, file));
        OptionalLong fixed = inputs.stream()
                .map(i -> i.fixed(1))
                .filter(OptionalLong::isPresent)
                .findFirst()
                .orElse(OptionalLong.empty());
        int maxLength = (int) Math.min(options.maxLength(), fixed.orElse(options.maxLength()));
        JsonLines lines = JsonLines.open(file);
        try {
            Tokenizer tokenizer = Tokenizer.open(tokenizerJson, maxLength);
            String digest = Sha256.of(
                    "text",
                    Sha256.of(file),
                    Sha256.of(tokenizerJson),
                    String.valueOf(maxLength),
                    String.valueOf(fixed.orElse(-1)));
            Path fileName = file.getFileName();
            return new TextDataset(
                    fileName == null ? file.toString() : fileName.toString(),
                    digest,
                    lines,
                    tokenizer,
                    List.copyOf(inputs),
                    fixed);
        } catch (IOException | RuntimeException e) {
            lines.close();
            throw e;
        }
    }

    private static void check(InputSpec input, Path file) {
        switch (input.name()) {
            case "input_ids", Batch.ATTENTION_MASK, "token_type_ids", "position_ids" -> {}
            default ->
                throw new InvalidDataException(
                        "the model wants input '" + input.name() + "', which text cannot feed (it feeds " + FEEDS + ")",
                        file.toString(),
                        "give the data as .npz with one array per input");
        }
        boolean integers = input.dtype() == null || input.dtype() == DType.I64 || input.dtype() == DType.I32;
        if (!integers || (input.dims() != null && input.dims().size() != 2)) {
            throw new InvalidDataException(
                    "the model wants " + input + ", text makes I64 or I32 of shape [batch, length]",
                    file.toString(),
                    "give the data as .npz with one array per input");
        }
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public int count() {
        return lines.count();
    }

    @Override
    public String digest() {
        return digest;
    }

    @Override
    public Batch batch(int from, int size) {
        Objects.checkFromIndexSize(from, size, count());
        List<String> texts = new ArrayList<>(size);
        for (int i = 0; i < size; i++) {
            texts.add(lines.text(from + i));
        }
        List<TokenizedText> rows = tokenizer.encode(texts);
        int length = (int) fixedLength.orElse(rows.getFirst().ids().length);
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        Arena arena = Arena.ofAuto(); // a batch lives as long as it is referenced
        for (InputSpec input : inputs) {
            tensors.put(input.name(), tensor(input, rows, length, arena));
        }
        return new Batch(from, size, tensors);
    }

    private static Tensor tensor(InputSpec input, List<TokenizedText> rows, int length, Arena arena) {
        DType dtype = input.dtype() == DType.I32 ? DType.I32 : DType.I64;
        Tensor t = Tensor.allocate(arena, new TensorSpec(input.name(), dtype, Shape.of(rows.size(), length)));
        for (int row = 0; row < rows.size(); row++) {
            long[] values = values(input.name(), rows.get(row));
            // a batch shorter than the model's fixed length is filled with zeros, which the mask hides
            for (int i = 0; i < Math.min(length, values.length); i++) {
                long at = (long) row * length + i;
                if (dtype == DType.I32) {
                    t.bytes().set(Tensor.I32_LE, at * 4, Math.toIntExact(values[i]));
                } else {
                    t.bytes().set(Tensor.I64_LE, at * 8, values[i]);
                }
            }
        }
        return t;
    }

    private static long[] values(String input, TokenizedText text) {
        return switch (input) {
            case "input_ids" -> text.ids();
            case Batch.ATTENTION_MASK -> text.mask();
            case "token_type_ids" -> text.types();
            default -> positions(text.ids().length);
        };
    }

    private static long[] positions(int n) {
        long[] p = new long[n];
        for (int i = 0; i < n; i++) {
            p[i] = i;
        }
        return p;
    }

    @Override
    public void close() {
        tokenizer.close();
        lines.close();
    }
}
