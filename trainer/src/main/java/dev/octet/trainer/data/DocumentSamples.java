package dev.octet.trainer.data;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.TreeMap;

/**
 * Whole texts side by side in samples of one length, none of which sees another: {@link TokenRows#documents} numbers them for attention, and
 * their positions and losses start anew. A text longer than a sample is cut. Texts are put, the longest first, where the least room is left
 * (best fit decreasing, as TRL's packing does), so that little is padding. All tokens are held in memory.
 */
final class DocumentSamples implements Samples {
    private static final int TEXTS_AT_ONCE = 256;

    private final Texts texts;
    private final TokenRows rows;
    private final int sequence;
    private final Optional<Long> end;
    private final List<int[]> tokens = new ArrayList<>();
    private final List<List<Integer>> samples = new ArrayList<>();

    private DocumentSamples(Texts texts, TokenRows rows, int sequence, Optional<Long> end) {
        this.texts = texts;
        this.rows = rows;
        this.sequence = sequence;
        this.end = end;
    }

    /**
     * Packs all texts.
     *
     * @param texts not truncated
     * @param file for messages
     * @param sequence tokens per sample
     * @throws InvalidDataException when tokens cannot feed the model, or a token is outside the model's vocabulary
     * @throws dev.octet.formats.error.InvalidOptionException when the end-of-text token is unknown
     * @throws IOException when the file can no longer be read
     */
    static DocumentSamples of(Texts texts, String file, Feed feed, int sequence) throws IOException {
        DocumentSamples samples =
                new DocumentSamples(texts, new TokenRows(feed, file, "texts"), sequence, PackedSamples.end(texts));
        samples.read(file, feed);
        samples.pack();
        return samples;
    }

    private void read(String file, Feed feed) throws IOException {
        for (long from = 0; from < texts.count(); from += TEXTS_AT_ONCE) {
            long number = from;
            for (long[] ids : texts.tokens(from, (int) Math.min(TEXTS_AT_ONCE, texts.count() - from))) {
                String where = file + ", text " + number + " (from 0)";
                feed.vocabulary().ifPresent(v -> v.require(ids, where));
                Optional<boolean[]> counted = texts.counted(number++);
                boolean ends = end.isPresent() && ids.length > 0 && ids[ids.length - 1] != end.get();
                int[] text = new int[Math.min(sequence, ids.length + (ends ? 1 : 0))];
                for (int i = 0; i < text.length; i++) {
                    boolean own = i < ids.length;
                    int token = Math.toIntExact(own ? ids[i] : end.orElseThrow());
                    text[i] = !own || counted.isEmpty() || counted.get()[i] ? token : ~token;
                }
                tokens.add(text);
            }
        }
        if (end.isPresent() && feed.vocabulary().isPresent()) {
            feed.vocabulary().get().require(end.get(), file + ", end-of-text token");
        }
    }

    private void pack() {
        Integer[] order = new Integer[tokens.size()];
        Arrays.setAll(order, i -> i);
        // a stable sort: texts of one length stay in the order of the file
        Arrays.sort(
                order,
                Comparator.comparingInt((Integer i) -> tokens.get(i).length).reversed());
        NavigableMap<Integer, List<Integer>> byRoom = new TreeMap<>();
        for (int text : order) {
            int length = tokens.get(text).length;
            if (length == 0) {
                continue;
            }
            Map.Entry<Integer, List<Integer>> best = byRoom.ceilingEntry(length);
            int sample;
            int room;
            if (best == null) {
                sample = samples.size();
                samples.add(new ArrayList<>());
                room = sequence;
            } else {
                sample = best.getValue().removeLast();
                room = best.getKey();
                if (best.getValue().isEmpty()) {
                    byRoom.remove(room);
                }
            }
            samples.get(sample).add(text);
            byRoom.computeIfAbsent(room - length, _ -> new ArrayList<>()).add(sample);
        }
        if (samples.isEmpty()) {
            throw new InvalidDataException("all texts are empty", texts.name(), "give texts");
        }
    }

    @Override
    public String name() {
        return texts.name();
    }

    @Override
    public long count() {
        return samples.size();
    }

    @Override
    public String digest() {
        return Sha256.of("packed documents", texts.digest(), String.valueOf(sequence), String.valueOf(end.orElse(-1L)));
    }

    @Override
    public Map<String, Tensor> gather(long[] numbers, Arena arena) {
        List<List<int[]>> drawn = new ArrayList<>(numbers.length);
        for (long number : numbers) {
            drawn.add(samples.get(Math.toIntExact(number)).stream()
                    .map(tokens::get)
                    .toList());
        }
        return rows.documents(drawn, sequence, arena);
    }

    @Override
    public void close() throws IOException {
        texts.close();
    }
}
