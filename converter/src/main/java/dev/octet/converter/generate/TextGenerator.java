package dev.octet.converter.generate;

import dev.octet.converter.data.Batch;
import dev.octet.converter.data.TokenLimits;
import dev.octet.converter.hf.KeyValueCache;
import dev.octet.converter.runtime.OnnxRuntimeSession;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalInt;
import java.util.Set;
import java.util.function.LongConsumer;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;

/**
 * A model in ONNX Runtime that continues texts: the prompt in one run, then a token a run, with the keys and values of those before it.
 *
 * <p>Not for several threads at once.
 */
public final class TextGenerator implements AutoCloseable {
    private static final String LOGITS = "logits";

    private final OnnxRuntimeSession session;
    private final String name;
    private final TokenLimits limits;
    /** Elements of each token in the cache, by input. */
    private final Map<String, Long> widths = new LinkedHashMap<>();

    private final OptionalInt turnedAnew;

    private TextGenerator(OnnxRuntimeSession session, GraphModel graph, String name, TokenLimits limits) {
        this.session = session;
        this.name = name;
        this.limits = limits;
        this.turnedAnew = KeyValueCache.limit(graph);
        for (ValueInfo input : graph.graph().inputs()) {
            if (KeyValueCache.isPast(input.name()) && input.type() instanceof ValueType.TensorType t) {
                widths.put(
                        input.name(),
                        Objects.requireNonNull(t.dims(), name).getLast().size());
            }
        }
    }

    /**
     * What is asked for.
     *
     * @param most tokens that follow
     * @param sampling how each is chosen
     * @param ends tokens that end a text
     */
    public record Settings(int most, Sampling sampling, Set<Long> ends) {
        public Settings {
            ends = Set.copyOf(ends);
            if (most < 1) {
                throw new IllegalArgumentException(most + " tokens");
            }
        }
    }

    /**
     * A loaded model.
     *
     * @param session closed with this
     * @param graph that it computes, with a {@link KeyValueCache}
     * @param name of the model, for messages
     * @param limits of its tokens
     */
    public static TextGenerator of(OnnxRuntimeSession session, GraphModel graph, String name, TokenLimits limits) {
        return new TextGenerator(session, graph, name, limits);
    }

    /**
     * Continues a prompt.
     *
     * @param prompt tokens, at least one
     * @param random what sampling draws from
     * @param heard hears each token when it is chosen
     * @throws InvalidDataException when a token is none of the vocabulary, the prompt has more tokens than the model has positions, or logits
     *     are not finite
     */
    public GeneratedTokens generate(List<Long> prompt, Settings settings, RandomGenerator random, LongConsumer heard) {
        requireFit(prompt);
        List<Long> all = new ArrayList<>(prompt);
        List<Long> made = new ArrayList<>();
        Step step = run(all, 0, null);
        try {
            while (true) {
                long next = settings.sampling().choose(step.logits(name), random);
                made.add(next);
                all.add(next);
                heard.accept(next);
                if (settings.ends().contains(next)) {
                    return new GeneratedTokens(made, GeneratedTokens.End.END_OF_TEXT);
                }
                if (made.size() == settings.most()) {
                    return new GeneratedTokens(made, GeneratedTokens.End.LENGTH);
                }
                if (all.size() > limits.positions().orElse(Long.MAX_VALUE)) {
                    return new GeneratedTokens(made, GeneratedTokens.End.POSITIONS);
                }
                Step before = step;
                step = isTurnedAnew(all.size()) ? run(all, 0, null) : run(all, all.size() - 1, before);
                before.close();
            }
        } finally {
            step.close();
        }
    }

    /** Whether the keys of the cache were rotated by angles that hold for shorter texts only, and this length is the first beyond. */
    private boolean isTurnedAnew(int length) {
        return turnedAnew.isPresent() && length == turnedAnew.getAsInt() + 1;
    }

    private void requireFit(List<Long> prompt) {
        if (prompt.isEmpty()) {
            throw new InvalidDataException("the prompt has no tokens", name, "give a prompt with at least one");
        }
        long vocabulary = limits.vocabulary().orElse(Long.MAX_VALUE);
        for (long token : prompt) {
            if (token < 0 || token >= vocabulary) {
                throw new InvalidDataException(
                        "token " + token + " of the prompt is none of the model's " + vocabulary,
                        name,
                        "give the tokenizer.json that belongs to the model");
            }
        }
        long positions = limits.positions().orElse(Long.MAX_VALUE);
        if (prompt.size() > positions) {
            throw new InvalidDataException(
                    "the prompt has " + prompt.size() + " tokens, the model has " + positions + " positions",
                    name,
                    "give a shorter prompt");
        }
    }

    /** One run's outputs, and the memory of its inputs. */
    private record Step(OnnxRuntimeSession.Outputs outputs, Arena arena) implements AutoCloseable {
        float[] logits(String name) {
            float[] all = outputs.read(LOGITS).toFloats();
            for (int i = 0; i < all.length; i++) {
                if (!Float.isFinite(all[i])) {
                    throw new InvalidDataException(
                            "the logit of token " + i + " is " + all[i],
                            name,
                            "compare the model with its original: `octet evaluate ORIGINAL MODEL`");
                }
            }
            return all;
        }

        @Override
        public void close() {
            outputs.close();
            arena.close();
        }
    }

    /** Runs the tokens from {@code first} on, behind those that {@code before} holds. */
    private Step run(List<Long> all, int first, @Nullable Step before) {
        Arena arena = Arena.ofShared();
        boolean done = false;
        try {
            int count = all.size() - first;
            Map<String, Tensor> fed = new LinkedHashMap<>();
            long[] ids = all.stream().skip(first).mapToLong(t -> t).toArray();
            long[] mask = all.stream().mapToLong(t -> 1).toArray();
            fed.put("input_ids", Tensor.ofLongs(arena, "input_ids", Shape.of(1, count), ids));
            fed.put(Batch.ATTENTION_MASK, Tensor.ofLongs(arena, Batch.ATTENTION_MASK, Shape.of(1, all.size()), mask));
            OnnxRuntimeSession.Outputs outputs;
            if (before == null) {
                widths.forEach((input, width) -> fed.put(
                        input, Tensor.allocate(arena, new TensorSpec(input, DType.F32, Shape.of(1, 0, width)))));
                outputs = session.run(new Batch(0, 1, fed));
            } else {
                Map<String, String> carried = new LinkedHashMap<>();
                before.outputs().names().stream()
                        .filter(KeyValueCache::isPresent)
                        .forEach(output -> carried.put(KeyValueCache.past(output), output));
                outputs = session.run(new Batch(0, 1, fed), before.outputs(), carried);
            }
            done = true;
            return new Step(outputs, arena);
        } finally {
            if (!done) {
                arena.close();
            }
        }
    }

    @Override
    public void close() {
        session.close();
    }
}
