package dev.octet.converter.compare;

import dev.octet.converter.compare.TensorDiff.Match;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.tensor.Shape;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * Pairs the weights of two models: by name; by name without the prefixes of wrappers; by the end of the name, where one model's names have
 * more outer parts; the output layer with the embedding it is tied to; and matrices by shape and a sample of their elements. Shape and
 * sample also reveal a transposed weight.
 */
final class Pairing {
    /** From this cosine of samples on, two matrices of one name have the same orientation. */
    private static final double ALIKE = 0.9;

    /** Least cosine of a transposed sample; the cosine of unrelated samples of 256 elements is within 0.3 of zero. */
    private static final double TRANSPOSED_ALIKE = 0.5;

    /** Smaller matrices are not paired by content. */
    private static final long LEAST_CONTENT = 256;

    /** With more unpaired matrices than this on a side, none is paired by content, because all are compared with all. */
    private static final int MOST_NAMELESS = 2048;

    private static final Set<String> WRAPPERS = Set.of("model", "module", "_orig_mod");
    private static final Set<String> HEADS = Set.of("lm_head", "embed_out", "output", "head");
    private static final Set<String> EMBEDDINGS =
            Set.of("embed_tokens", "wte", "word_embeddings", "tok_embeddings", "embed_in");

    private final Map<String, Weight> restA;
    private final Map<String, Weight> restB;
    private final Map<String, Weight> allA;
    private final Map<String, Weight> allB;
    private final List<Pair> pairs = new ArrayList<>();
    private final List<ModelDiff.Uncomparable> uncomparable = new ArrayList<>();

    /** Two weights, the second transposed or reshaped to the shape of the first. */
    record Pair(Weight a, Weight b, Match match, boolean transposed) {}

    /**
     * The result.
     *
     * @param pairs in the order of the first model
     * @param uncomparable weights of the same name with incompatible shapes
     */
    record Result(
            List<Pair> pairs,
            List<ModelDiff.Uncomparable> uncomparable,
            Collection<String> onlyA,
            Collection<String> onlyB) {
        /** What of it has a name that {@code only} matches: both weights of a pair count if either name matches. */
        Result limitedTo(Optional<Pattern> only) {
            return new Result(
                    pairs.stream()
                            .filter(p -> isEither(only, p.a().name(), p.b().name()))
                            .toList(),
                    uncomparable.stream()
                            .filter(u -> isEither(only, u.a(), u.b()))
                            .toList(),
                    onlyA.stream().filter(n -> isEither(only, n, "")).toList(),
                    onlyB.stream().filter(n -> isEither(only, "", n)).toList());
        }
    }

    /** Whether {@code only} finds a match in either name; an empty name stands for a missing weight. */
    static boolean isEither(Optional<Pattern> only, String a, String b) {
        return only.isEmpty()
                || Stream.of(a, b)
                        .filter(n -> !n.isEmpty())
                        .anyMatch(n -> only.get().matcher(n).find());
    }

    private Pairing(Map<String, Weight> a, Map<String, Weight> b) {
        this.allA = a;
        this.allB = b;
        this.restA = new LinkedHashMap<>(a);
        this.restB = new LinkedHashMap<>(b);
    }

    /** Pairs the weights of two models. */
    static Result of(Map<String, Weight> a, Map<String, Weight> b) throws IOException {
        Pairing pairing = new Pairing(a, b);
        pairing.byKey(Match.NAME, w -> List.of(w.name()));
        pairing.byKey(Match.PREFIX, Pairing::unwrapped);
        pairing.byEnding();
        pairing.tied();
        pairing.byContent();
        pairing.copies();
        List<String> order = new ArrayList<>(a.keySet());
        Map<String, Integer> place = new HashMap<>();
        order.forEach(name -> place.put(name, place.size()));
        pairing.pairs.sort(Comparator.comparing(p -> place.getOrDefault(p.a().name(), 0)));
        return new Result(pairing.pairs, pairing.uncomparable, pairing.restA.keySet(), pairing.restB.keySet());
    }

    /** Gives the names under which a weight can be found. */
    private interface Keys {
        List<String> of(Weight weight);
    }

    private static List<String> unwrapped(Weight weight) {
        List<String> keys = new ArrayList<>();
        keys.add(unwrapped(weight.name()));
        weight.names().forEach(n -> keys.add(unwrapped(n)));
        return keys;
    }

    /** The name without leading {@code model}, {@code module} and without {@code _orig_mod} anywhere. */
    static String unwrapped(String name) {
        List<String> parts = new ArrayList<>(List.of(name.split("\\.", -1)));
        parts.removeIf(p -> p.equals("_orig_mod"));
        while (parts.size() > 1 && WRAPPERS.contains(parts.getFirst())) {
            parts.removeFirst();
        }
        return String.join(".", parts);
    }

    private void byKey(Match match, Keys keys) throws IOException {
        Map<String, Optional<Weight>> found = new HashMap<>();
        for (Weight b : restB.values()) {
            keys.of(b).forEach(key -> note(found, key, b));
        }
        Map<String, Integer> uses = new HashMap<>();
        restA.values().forEach(a -> keys.of(a).stream().distinct().forEach(k -> uses.merge(k, 1, Integer::sum)));
        for (Weight a : List.copyOf(restA.values())) {
            for (String key : keys.of(a)) {
                Optional<Weight> b = only(found, key).filter(w -> restB.containsKey(w.name()));
                if (b.isPresent() && uses.getOrDefault(key, 0) == 1) {
                    join(a, b.get(), match);
                    break;
                }
            }
        }
    }

    /** Pairs names of which one has more outer parts: {@code m.bert.encoder.weight} and {@code encoder.weight}. */
    private void byEnding() throws IOException {
        Map<String, Optional<Weight>> endingsA = endings(restA.values());
        Map<String, Optional<Weight>> endingsB = endings(restB.values());
        Map<String, Optional<Weight>> wholeB = new HashMap<>();
        for (Weight b : restB.values()) {
            unwrapped(b).forEach(key -> note(wholeB, key, b));
        }
        for (Weight a : List.copyOf(restA.values())) {
            // one full name must be the end of the other, and of no second name
            List<Weight> found = new ArrayList<>();
            unwrapped(a).forEach(key -> only(endingsB, key).ifPresent(found::add));
            eachEnding(
                    a,
                    key -> only(wholeB, key)
                            .filter(b -> only(endingsA, key).isPresent())
                            .ifPresent(found::add));
            Optional<Weight> b =
                    found.stream().filter(w -> restB.containsKey(w.name())).findFirst();
            if (b.isPresent()) {
                join(a, b.get(), Match.PREFIX);
            }
        }
    }

    private static Map<String, Optional<Weight>> endings(Collection<Weight> weights) {
        Map<String, Optional<Weight>> endings = new HashMap<>();
        weights.forEach(w -> eachEnding(w, key -> note(endings, key, w)));
        return endings;
    }

    /** Records a key; a key of two weights identifies neither. */
    private static void note(Map<String, Optional<Weight>> byKey, String key, Weight weight) {
        byKey.merge(key, Optional.of(weight), (x, y) -> x.equals(y) ? x : Optional.empty());
    }

    private static Optional<Weight> only(Map<String, Optional<Weight>> byKey, String key) {
        return byKey.getOrDefault(key, Optional.empty());
    }

    private interface KeyTaker {
        void take(String key);
    }

    /** All endings of a weight's names that contain a dot, so not {@code weight} alone. */
    private static void eachEnding(Weight weight, KeyTaker taker) {
        for (String name : unwrapped(weight)) {
            String rest = name;
            while (rest.contains(".")) {
                taker.take(rest);
                rest = rest.substring(rest.indexOf('.') + 1);
            }
        }
    }

    private void tied() throws IOException {
        for (Weight a : List.copyOf(restA.values())) {
            Optional<Weight> b = partner(a, allB);
            if (b.isPresent()) {
                joinTied(a, b.get());
                restA.remove(a.name());
            }
        }
        for (Weight b : List.copyOf(restB.values())) {
            Optional<Weight> a = partner(b, allA);
            if (a.isPresent()) {
                joinTied(a.get(), b);
                restB.remove(b.name());
            }
        }
    }

    private void joinTied(Weight a, Weight b) {
        pairs.add(new Pair(a, b, Match.TIED, false));
    }

    /** The embedding that an unpaired output layer is tied to, or the output layer of an unpaired embedding. */
    private static Optional<Weight> partner(Weight weight, Map<String, Weight> others) {
        Set<String> wanted = isOf(weight, HEADS) ? EMBEDDINGS : isOf(weight, EMBEDDINGS) ? HEADS : Set.of();
        return others.values().stream()
                .filter(w -> isOf(w, wanted) && w.shape().equals(weight.shape()))
                .findFirst();
    }

    private static boolean isOf(Weight weight, Set<String> modules) {
        String[] parts = weight.name().split("\\.", -1);
        return parts.length >= 2
                && parts[parts.length - 1].equals("weight")
                && modules.contains(parts[parts.length - 2]);
    }

    private void join(Weight a, Weight b, Match match) throws IOException {
        restA.remove(a.name());
        restB.remove(b.name());
        boolean matrices = a.shape().rank() == 2 && b.shape().rank() == 2;
        boolean same = a.shape().equals(b.shape());
        boolean exchanged = matrices
                && a.shape().dim(0) == b.shape().dim(1)
                && a.shape().dim(1) == b.shape().dim(0);
        if (same && (!exchanged || direct(a, b))) {
            pairs.add(new Pair(a, b, match, false));
        } else if (exchanged && transposed(a, b)) {
            pairs.add(new Pair(a, b.transposed(), match, true));
        } else if (same) {
            pairs.add(new Pair(a, b, match, false));
        } else if (a.shape().elementCount() == 1 && b.shape().elementCount() == 1) {
            pairs.add(new Pair(a, b, match, false)); // [] and [1]
        } else {
            uncomparable.add(new ModelDiff.Uncomparable(
                    a.name(), b.name(), "shapes differ: " + a.shape() + " and " + b.shape()));
        }
    }

    private static boolean direct(Weight a, Weight b) throws IOException {
        return ContentSample.cosine(sampleOrNothing(a, false), sampleOrNothing(b, false)) >= ALIKE;
    }

    private static boolean transposed(Weight a, Weight b) throws IOException {
        return alikeTransposed(a, b) >= TRANSPOSED_ALIKE;
    }

    private static double alikeTransposed(Weight a, Weight b) throws IOException {
        return ContentSample.cosine(sampleOrNothing(a, false), sampleOrNothing(b, true));
    }

    private static boolean isExchanged(Weight a, Weight b) {
        return a.shape().dim(0) == b.shape().dim(1)
                && a.shape().dim(1) == b.shape().dim(0);
    }

    /** Pairs matrices whose names do not correspond. */
    private void byContent() throws IOException {
        List<Weight> candidates =
                restB.values().stream().filter(Pairing::isMatrix).toList();
        if (restA.size() > MOST_NAMELESS || candidates.size() > MOST_NAMELESS || candidates.isEmpty()) {
            return;
        }
        Map<Shape, List<Candidate>> byShape = new HashMap<>();
        for (Weight b : candidates) {
            add(byShape, b, false);
            add(byShape, b, true);
        }
        for (Weight a : List.copyOf(restA.values())) {
            List<Candidate> alike = isMatrix(a) ? byShape.getOrDefault(a.shape(), List.of()) : List.of();
            if (alike.isEmpty()) {
                continue;
            }
            float[] sample = sampleOrNothing(a, false);
            Optional<Candidate> best = alike.stream()
                    .filter(c -> restB.containsKey(c.weight.name()))
                    .max(Comparator.comparingDouble(c -> ContentSample.cosine(sample, c.sample)));
            if (best.isPresent() && ContentSample.cosine(sample, best.get().sample) >= ALIKE) {
                Weight b = best.get().weight;
                boolean transposed = best.get().transposed;
                restA.remove(a.name());
                restB.remove(b.name());
                pairs.add(new Pair(a, transposed ? b.transposed() : b, Match.CONTENT, transposed));
            }
        }
    }

    /** Pairs leftover matrices that are copies of another weight of the same model: exporters write tied weights twice. */
    private void copies() throws IOException {
        if (restA.size() > MOST_NAMELESS || restB.size() > MOST_NAMELESS) {
            return;
        }
        for (Weight b : List.copyOf(restB.values())) {
            for (Weight a : isMatrix(b) ? List.copyOf(allA.values()) : List.<Weight>of()) {
                boolean same = isMatrix(a) && a.shape().equals(b.shape());
                boolean exchanged = isMatrix(a) && isExchanged(a, b);
                if ((same && direct(a, b)) || (exchanged && alikeTransposed(a, b) >= ALIKE)) {
                    boolean transposed = !(same && direct(a, b));
                    pairs.add(new Pair(a, transposed ? b.transposed() : b, Match.TIED, transposed));
                    restB.remove(b.name());
                    restA.remove(a.name());
                    break;
                }
            }
        }
    }

    /** A matrix of the second model in a possible orientation. */
    private static final class Candidate {
        final Weight weight;
        final boolean transposed;
        final float[] sample;

        Candidate(Weight weight, boolean transposed, float[] sample) {
            this.weight = weight;
            this.transposed = transposed;
            this.sample = sample;
        }
    }

    private static boolean isMatrix(Weight w) {
        return w.shape().rank() == 2 && w.shape().elementCount() >= LEAST_CONTENT;
    }

    private void add(Map<Shape, List<Candidate>> byShape, Weight b, boolean transposed) throws IOException {
        Shape shape = transposed ? Shape.of(b.shape().dim(1), b.shape().dim(0)) : b.shape();
        boolean wanted =
                restA.values().stream().anyMatch(a -> isMatrix(a) && a.shape().equals(shape));
        if (wanted) {
            byShape.computeIfAbsent(shape, s -> new ArrayList<>())
                    .add(new Candidate(b, transposed, sampleOrNothing(b, transposed)));
        }
    }

    /** The sample of a weight; an empty sample, which matches nothing, if its scales are invalid. The comparison reports the reason. */
    private static float[] sampleOrNothing(Weight weight, boolean transposed) throws IOException {
        try {
            return ContentSample.of(weight, transposed);
        } catch (OctetException e) {
            return new float[0];
        }
    }
}
