package dev.octet.converter.data;

import dev.octet.converter.data.RowOptions.Purpose;
import dev.octet.converter.data.RowOptions.TrainOn;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.Sha256;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The rows of a data set as token sequences: texts, conversations, prompts with completions, pairs of answers, or tokens. Each row's kind
 * follows from its columns ({@link SampleKind}), and all rows are of one. Opening renders and tokenises all of them; the tokens are held in
 * memory, four bytes each, and one byte more where not all of a sequence counts. Not thread-safe.
 */
public final class TokenizedRows implements AutoCloseable {
    private static final int ROWS_AT_ONCE = 256;
    private static final Set<String> ALSO_READ =
            Set.of("prompt", "tools", "documents", "chat_template_kwargs", "labels");

    private final DataFiles files;
    private final Path tokenizerJson;
    private final RowOptions options;
    private final List<SampleKind> kinds;
    private final Tokenizer tokenizer;
    private final List<int[]> tokens = new ArrayList<>();
    private final List<boolean @Nullable []> counted = new ArrayList<>();
    private final List<String> withoutCounted = new ArrayList<>();
    private @Nullable SampleKind kind;
    private @Nullable ChatTemplate template;
    private @Nullable TokenizerVocabulary vocabulary;
    private String digest = "";

    private TokenizedRows(DataFiles files, Path tokenizerJson, RowOptions options, Tokenizer tokenizer) {
        this.files = files;
        this.tokenizerJson = tokenizerJson;
        this.options = options;
        this.kinds = options.purpose() == Purpose.PREFERENCES ? List.of(SampleKind.PREFERENCE) : SampleKind.TRAINED;
        this.tokenizer = tokenizer;
    }

    /**
     * Reads a data set.
     *
     * @throws InvalidDataException when a row is malformed, of another kind than the first, refused by the chat template, or cut before
     *     anything counts; the message has its line or row
     * @throws dev.octet.formats.error.InvalidOptionException when a template or token is needed that no file has
     * @throws dev.octet.formats.error.UnavailableException when the tokenizer's native library cannot be loaded
     * @throws IOException when a file cannot be read
     */
    public static TokenizedRows open(DataFiles files, Path tokenizerJson, RowOptions options) throws IOException {
        Tokenizer tokenizer = Tokenizer.unpadded(tokenizerJson, OptionalInt.empty());
        TokenizedRows rows = new TokenizedRows(files, tokenizerJson, options, tokenizer);
        boolean opened = false;
        try {
            rows.read();
            opened = true;
            return rows;
        } finally {
            if (!opened) {
                tokenizer.close();
            }
        }
    }

    /** Whether a data set's first row is read by {@link TokenizedTexts}: a text in a single file of lines. */
    public static boolean isTextLines(DataFiles files) throws IOException {
        if (files.files().size() != 1 || !files.files().getFirst().toString().endsWith(".jsonl")) {
            return false;
        }
        boolean[] other = {false};
        try {
            files.read(Set.of(), row -> {
                other[0] = !row.has("text")
                        && SampleKind.of(row, List.of(SampleKind.values())).isPresent();
                return false;
            });
        } catch (InvalidDataException _) {
            return true; // which says what lines of texts look like
        }
        return !other[0];
    }

    private void read() throws IOException {
        Set<String> columns = new LinkedHashSet<>(ALSO_READ);
        kinds.forEach(k -> columns.addAll(k.columns()));
        List<Row> chunk = new ArrayList<>(ROWS_AT_ONCE);
        files.read(columns, row -> {
            chunk.add(row);
            if (chunk.size() == ROWS_AT_ONCE) {
                add(chunk);
                chunk.clear();
            }
            return true;
        });
        add(chunk);
        String where = files.path().toString();
        if (tokens.isEmpty()) {
            throw new InvalidDataException("the data has no samples", where, "give at least one row");
        }
        if (!withoutCounted.isEmpty()) {
            throw new InvalidDataException(
                    withoutCounted.size() + " of " + tokens.size() + " samples are cut to "
                            + options.maxLength().orElse(0) + " tokens before anything of them counts",
                    withoutCounted.getFirst(),
                    "raise data: {max_length}, or remove them");
        }
        digest = Sha256.of(
                "tokens of rows",
                files.digest(),
                Sha256.of(tokenizerJson),
                template == null ? "" : template.digest(),
                options.purpose().name(),
                options.trainOn().name(),
                options.end().orElse(""),
                String.valueOf(options.maxLength().orElse(-1)));
    }

    /** A sequence, and what of it counts; null for all. */
    @SuppressWarnings("ArrayRecordComponent") // read once, never compared
    private record Sequence(int[] ids, boolean @Nullable [] counted, String where) {}

    private void add(List<Row> rows) throws IOException {
        for (Row row : rows) {
            requireKind(row);
        }
        if (kind == SampleKind.TOKENS) {
            rows.forEach(row -> add(tokens(row)));
            return;
        }
        boolean ended = kind == SampleKind.COMPLETION || kind == SampleKind.PREFERENCE;
        int end = ended
                        && rows.stream()
                                .anyMatch(r -> r.get("prompt") instanceof String || r.get("chosen") instanceof String)
                ? Math.toIntExact(endOfText())
                : -1;
        List<List<Sequence>> made = rows.parallelStream()
                .map(row -> texts(row).stream()
                        .map(t -> sequence(t, end, row.where()))
                        .toList())
                .toList();
        made.forEach(sequences -> sequences.forEach(this::add));
    }

    private void add(Sequence made) {
        int length = Math.min(made.ids.length, options.maxLength().orElse(Integer.MAX_VALUE));
        int[] ids = length < made.ids.length ? Arrays.copyOf(made.ids, length) : made.ids;
        boolean[] counts = made.counted == null ? null : Arrays.copyOf(made.counted, length);
        if (counts != null) {
            int n = 0;
            for (boolean c : counts) {
                n += c ? 1 : 0;
            }
            if (n == 0) {
                withoutCounted.add(made.where);
            }
            counts = n == length ? null : counts;
        }
        tokens.add(ids);
        counted.add(counts);
    }

    private void requireKind(Row row) throws IOException {
        if (kind == null) {
            kind = SampleKind.of(row, kinds)
                    .orElseThrow(() -> new InvalidDataException(
                            "the row has " + row.values().keySet() + ", none of which is what is trained on",
                            row.where(),
                            "give "
                                    + String.join(
                                            ", or ",
                                            kinds.stream()
                                                    .map(SampleKind::toString)
                                                    .toList())));
        }
        if (!kind.fits(row)) {
            String other = SampleKind.of(row, kinds).map(k -> ", but " + k).orElse("");
            throw new InvalidDataException(
                    "the row has no " + kind + ", which the rows before have" + other,
                    row.where(),
                    "give every row the same, or put the others into a data set of their own");
        }
        boolean messages = kind == SampleKind.MESSAGES
                || kind == SampleKind.CONVERSATIONS
                || kind.columns().stream().anyMatch(c -> row.get(c) instanceof List && kind != SampleKind.TOKENS);
        if (messages && template == null) {
            template = ChatTemplate.open(
                    tokenizerJson, options.chatTemplate(), options.date(), "data: {chat_template: FILE}");
        }
    }

    private List<ChatText> texts(Row row) {
        boolean all = options.trainOn() == TrainOn.ALL;
        return switch (Objects.requireNonNull(kind)) {
            case TEXT -> List.of(ChatText.plain(text(row, "text")));
            case MESSAGES -> List.of(conversation(row, "messages", all));
            case CONVERSATIONS -> List.of(conversation(row, "conversations", all));
            case COMPLETION -> List.of(completion(row, all));
            case PREFERENCE -> preference(row);
            case TOKENS -> throw new IllegalStateException("tokens have no text");
        };
    }

    private ChatTemplate template() {
        return Objects.requireNonNull(template);
    }

    private ChatText conversation(Row row, String column, boolean all) {
        Conversation conversation = Conversation.of(row, Conversation.messages(row, column));
        return all
                ? ChatText.whole(template(), conversation, row.where())
                : ChatText.assistant(template(), conversation, row.where());
    }

    private ChatText completion(Row row, boolean all) {
        if (row.get("prompt") instanceof String prompt) {
            return ChatText.completion(prompt, text(row, "completion"), all);
        }
        List<Map<String, @Nullable Object>> prompt = Conversation.messages(row, "prompt");
        return answered(row, prompt, Conversation.messages(row, "completion"), all);
    }

    private ChatText answered(
            Row row,
            List<Map<String, @Nullable Object>> prompt,
            List<Map<String, @Nullable Object>> answer,
            boolean all) {
        List<Map<String, @Nullable Object>> messages = new ArrayList<>(prompt);
        messages.addAll(answer);
        Conversation conversation = Conversation.of(row, messages);
        return all
                ? ChatText.whole(template(), conversation, row.where())
                : ChatText.from(template(), conversation, prompt.size(), row.where());
    }

    /** The preferred and the refused answer, each with the prompt in front; messages that both begin with are the prompt, as in TRL. */
    private List<ChatText> preference(Row row) {
        if (row.get("chosen") instanceof String chosen) {
            String prompt = row.has("prompt") ? text(row, "prompt") : "";
            return List.of(
                    ChatText.completion(prompt, chosen, false),
                    ChatText.completion(prompt, text(row, "rejected"), false));
        }
        List<Map<String, @Nullable Object>> chosen = Conversation.messages(row, "chosen");
        List<Map<String, @Nullable Object>> rejected = Conversation.messages(row, "rejected");
        List<Map<String, @Nullable Object>> prompt;
        if (row.get("prompt") instanceof List) {
            prompt = Conversation.messages(row, "prompt");
        } else {
            int common = 0;
            int most = Math.min(chosen.size(), rejected.size()) - 1;
            while (common < most && chosen.get(common).equals(rejected.get(common))) {
                common++;
            }
            prompt = chosen.subList(0, common);
            chosen = chosen.subList(common, chosen.size());
            rejected = rejected.subList(common, rejected.size());
        }
        if (prompt.isEmpty()) {
            throw new InvalidDataException(
                    "the two answers have no prompt: their first messages differ",
                    row.where(),
                    "give \"prompt\", or begin both with the same messages");
        }
        return List.of(answered(row, prompt, chosen, false), answered(row, prompt, rejected, false));
    }

    private static String text(Row row, String column) {
        if (row.get(column) instanceof String text) {
            return text;
        }
        throw new InvalidDataException(
                "\"" + column + "\" is not text", row.where(), "give text there, as other columns of the row have it");
    }

    private Sequence sequence(ChatText text, int end, String where) {
        PlacedTokens placed = tokenizer.place(text.text(), text.special());
        int[] ids = placed.ids();
        boolean[] counts = text.counted() == null ? null : placed.within(text.text(), text.counted());
        if (text.ended()) {
            boolean there = ids.length > 0 && ids[ids.length - 1] == end;
            int length = there ? ids.length : ids.length + 1;
            ids = Arrays.copyOf(ids, length);
            ids[length - 1] = end;
            if (counts != null) {
                counts = Arrays.copyOf(counts, length);
                counts[length - 1] = true;
            }
        }
        return new Sequence(ids, counts, where);
    }

    private static Sequence tokens(Row row) {
        int[] ids = numbers(row, "input_ids");
        boolean[] counts = null;
        if (row.has("labels")) {
            int[] labels = numbers(row, "labels");
            counts = new boolean[ids.length];
            for (int i = 0; i < ids.length; i++) {
                boolean fits = labels.length == ids.length && (labels[i] == ids[i] || labels[i] < 0);
                if (!fits) {
                    throw new InvalidDataException(
                            "\"labels\" is neither the tokens nor negative at every place of \"input_ids\"",
                            row.where(),
                            "give as many labels as tokens, unshifted, with -100 where a token does not count");
                }
                counts[i] = labels[i] >= 0;
            }
        }
        return new Sequence(ids, counts, row.where());
    }

    private static int[] numbers(Row row, String column) {
        if (row.get(column) instanceof List<?> list && !list.isEmpty()) {
            int[] numbers = new int[list.size()];
            boolean fits = true;
            for (int i = 0; i < numbers.length && fits; i++) {
                fits = list.get(i) instanceof Number n
                        && !(n instanceof Double)
                        && n.longValue() == n.intValue()
                        && (column.equals("labels") || n.intValue() >= 0);
                numbers[i] = fits && list.get(i) instanceof Number n ? n.intValue() : 0;
            }
            if (fits) {
                return numbers;
            }
        }
        throw new InvalidDataException(
                "\"" + column + "\" is not a list of token numbers", row.where(), "give whole numbers from 0");
    }

    /** Whether the rows are texts, which do not have their end yet. */
    public boolean areTexts() {
        return kind == SampleKind.TEXT;
    }

    /** The name of the file or folder. */
    public String name() {
        return files.name();
    }

    /** Number of sequences: two for each pair, the preferred answer first. */
    public int count() {
        return tokens.size();
    }

    /** SHA-256 over rows, tokenizer, template and options, lower-case hexadecimal. */
    public String digest() {
        return digest;
    }

    /** Tokens of a sequence. */
    public long[] tokens(int sequence) {
        return Arrays.stream(tokens.get(sequence)).asLongStream().toArray();
    }

    /** Which tokens of a sequence count; empty when all do. */
    public Optional<boolean[]> counted(int sequence) {
        return Optional.ofNullable(counted.get(sequence)).map(boolean[]::clone);
    }

    /**
     * The labels of all rows under a column other than those of tokens; empty when no row has it.
     *
     * @throws InvalidDataException when a row has none although others do, or one that is not made of numbers
     * @throws IOException when a file cannot be read
     */
    public Optional<LineLabels> labels(String column) throws IOException {
        return LineLabels.of(files, column);
    }

    /**
     * The token that ends a text; as {@link TokenizedTexts#endOfText}.
     *
     * @throws IOException when a file cannot be read
     */
    public long endOfText() throws IOException {
        return EndOfText.of(tokenizerJson, vocabulary(), options.end());
    }

    /**
     * The largest token id of the tokenizer, or of tokens that are given.
     *
     * @throws IOException when reading the tokenizer fails
     */
    public long largestToken() throws IOException {
        long largest = vocabulary().largest();
        if (kind == SampleKind.TOKENS) {
            for (int[] ids : tokens) {
                largest = Math.max(largest, Arrays.stream(ids).max().orElse(0));
            }
        }
        return largest;
    }

    private TokenizerVocabulary vocabulary() throws IOException {
        TokenizerVocabulary known = vocabulary;
        if (known == null) {
            known = TokenizerVocabulary.read(tokenizerJson);
            vocabulary = known;
        }
        return known;
    }

    @Override
    public void close() {
        tokenizer.close();
    }
}
