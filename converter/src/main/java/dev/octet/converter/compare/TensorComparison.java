package dev.octet.converter.compare;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.measure.CastError;
import dev.octet.quant.work.Workers;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.regex.Pattern;

/**
 * Compares two models tensor by tensor: dequantises both and measures the differences, across number formats, layouts, names and sharding.
 * Streams with a few tiles of memory for each thread. Results do not depend on the number of threads.
 */
public final class TensorComparison {
    /** Pairs in one batch of work; threads wait for each other between batches. */
    private static final int PAIRS_AT_A_TIME = 256;

    private final CompareOptions options;
    private final long totalElements;
    private long doneElements;

    private TensorComparison(CompareOptions options, long totalElements) {
        this.options = options;
        this.totalElements = totalElements;
    }

    /**
     * Compares two models, each a safetensors file, an index of shards, a folder with either, or an ONNX file.
     *
     * @throws NoSuchFileException when a path does not exist
     * @throws dev.octet.formats.error.OctetException when a file is not a model, or breaks a rule of its format
     * @throws InvalidOptionException when {@code only} matches no weight
     * @throws InvalidDataException when the models have no weight in common
     * @throws IOException when a file cannot be read
     */
    public static ModelDiff compare(Path a, Path b, CompareOptions options) throws IOException {
        try (WeightSource first = open(a);
                WeightSource second = open(b)) {
            return compare(a.toString(), b.toString(), first, second, options);
        }
    }

    /**
     * Compares two opened checkpoints, which stay open. If they have no weight in common, all weights are listed as unmatched.
     *
     * @param storedB the recognised weights of {@code b}
     * @throws IOException when a file cannot be read
     */
    public static ModelDiff compare(Checkpoint a, Checkpoint b, StoredCheckpoint storedB, CompareOptions options)
            throws IOException {
        // not closed: the checkpoints belong to the caller
        WeightSource first = CheckpointSource.of(a);
        WeightSource second = CheckpointSource.of(b, storedB);
        return compare(
                a.folder().toString(),
                b.folder().toString(),
                first,
                second,
                options,
                Pairing.of(first.weights(), second.weights()));
    }

    /**
     * Compares every {@code parts}-th pair of weights, where several processes share the work.
     *
     * @param part which, 0 to {@code parts - 1}
     * @throws IOException when a file cannot be read
     */
    public static ComparedPairs part(Path a, Path b, CompareOptions options, int part, int parts) throws IOException {
        try (WeightSource first = open(a);
                WeightSource second = open(b)) {
            List<Pairing.Pair> all = paired(first, second, options).pairs();
            List<Integer> indexes = new ArrayList<>();
            List<Pairing.Pair> own = new ArrayList<>();
            for (int i = part; i < all.size(); i += parts) {
                indexes.add(i);
                own.add(all.get(i));
            }
            List<PairWork> works =
                    new TensorComparison(options, elements(own)).run(own, DeclaredRounding.of(first, second));
            List<ComparedPairs.Pair> compared = new ArrayList<>();
            for (int i = 0; i < works.size(); i++) {
                compared.add(ComparedPairs.Pair.of(indexes.get(i), works.get(i)));
            }
            return ComparedPairs.of(compared);
        }
    }

    /**
     * How many pairs there are to share out.
     *
     * @throws InvalidOptionException when {@code only} matches no weight
     * @throws InvalidDataException when the models have no weight in common
     * @throws IOException when a file cannot be read
     */
    public static int pairs(Path a, Path b, CompareOptions options) throws IOException {
        try (WeightSource first = open(a);
                WeightSource second = open(b)) {
            Pairing.Result paired = paired(first, second, options);
            requirePairs(a.toString(), b.toString(), first, second, options, paired);
            return paired.pairs().size();
        }
    }

    /**
     * The comparison of two models from all parts of it: what {@link #compare(Path, Path, CompareOptions)} returns.
     *
     * @param parts in any order, each once
     * @throws IllegalArgumentException when a part is missing
     * @throws IOException when a header cannot be read
     */
    public static ModelDiff joined(Path a, Path b, CompareOptions options, List<ComparedPairs> parts)
            throws IOException {
        try (WeightSource first = open(a);
                WeightSource second = open(b)) {
            Pairing.Result paired = paired(first, second, options);
            List<ComparedPairs.Pair> compared = parts.stream()
                    .flatMap(p -> p.pairs().stream())
                    .sorted(Comparator.comparingInt(ComparedPairs.Pair::index))
                    .toList();
            if (compared.size() != paired.pairs().size()) {
                throw new IllegalArgumentException(
                        compared.size() + " of " + paired.pairs().size() + " pairs");
            }
            return joined(a.toString(), b.toString(), first, second, options, paired, compared);
        }
    }

    private static Pairing.Result paired(WeightSource first, WeightSource second, CompareOptions options)
            throws IOException {
        return Pairing.of(first.weights(), second.weights()).limitedTo(options.only());
    }

    private static long elements(List<Pairing.Pair> pairs) {
        return pairs.stream().mapToLong(p -> p.a().shape().elementCount()).sum();
    }

    private static WeightSource open(Path path) throws IOException {
        if (!Files.exists(path)) {
            throw new NoSuchFileException(path.toString());
        }
        boolean checkpoint =
                Files.isDirectory(path) || path.toString().endsWith(".json") || Checkpoint.isCheckpoint(path);
        return checkpoint ? CheckpointSource.open(path) : OnnxSource.open(path);
    }

    /** Compares two opened models. */
    static ModelDiff compare(String a, String b, WeightSource first, WeightSource second, CompareOptions options)
            throws IOException {
        Pairing.Result paired = paired(first, second, options);
        requirePairs(a, b, first, second, options, paired);
        return compare(a, b, first, second, options, paired);
    }

    private static void requirePairs(
            String a,
            String b,
            WeightSource first,
            WeightSource second,
            CompareOptions options,
            Pairing.Result paired) {
        if (paired.pairs().isEmpty()) {
            List<ModelDiff.Uncomparable> uncomparable = uncomparable(first, second, options, paired);
            requireAny(options, paired, uncomparable);
            throw nothingMatches(a, b, options, uncomparable);
        }
    }

    private static List<ModelDiff.Uncomparable> uncomparable(
            WeightSource first, WeightSource second, CompareOptions options, Pairing.Result paired) {
        List<ModelDiff.Uncomparable> uncomparable = new ArrayList<>(paired.uncomparable());
        problems(first.problems(), second.problems(), first.weights(), second.weights()).stream()
                .filter(u -> Pairing.isEither(options.only(), u.a(), u.b()))
                .forEach(uncomparable::add);
        return uncomparable;
    }

    private static ModelDiff compare(
            String a, String b, WeightSource first, WeightSource second, CompareOptions options, Pairing.Result paired)
            throws IOException {
        List<PairWork> works = new TensorComparison(options, elements(paired.pairs()))
                .run(paired.pairs(), DeclaredRounding.of(first, second));
        List<ComparedPairs.Pair> compared = new ArrayList<>();
        for (int i = 0; i < works.size(); i++) {
            compared.add(ComparedPairs.Pair.of(i, works.get(i)));
        }
        return joined(a, b, first, second, options, paired, compared);
    }

    private static ModelDiff joined(
            String a,
            String b,
            WeightSource first,
            WeightSource second,
            CompareOptions options,
            Pairing.Result paired,
            List<ComparedPairs.Pair> compared) {
        List<ModelDiff.Uncomparable> uncomparable = uncomparable(first, second, options, paired);
        DeclaredRounding declared = DeclaredRounding.of(first, second);
        List<TensorDiff> tensors = new ArrayList<>();
        PairSums all = new PairSums();
        for (int i = 0; i < compared.size(); i++) {
            Pairing.Pair pair = paired.pairs().get(i);
            String failure = compared.get(i).failure();
            if (failure != null) {
                uncomparable.add(
                        new ModelDiff.Uncomparable(pair.a().name(), pair.b().name(), failure));
            }
            TensorDiff diff = compared.get(i).diff();
            if (diff != null) {
                tensors.add(diff);
                all.plus(compared.get(i).sums());
            }
        }
        tensors.sort(WORST_FIRST);
        List<String> onlyA = unmatched(first, paired.onlyA(), second.problems());
        List<String> onlyB = unmatched(second, paired.onlyB(), first.problems());
        List<String> notes = new ArrayList<>(declared.notes(tensors));
        first.notes().forEach(n -> notes.add("A: " + n));
        second.notes().forEach(n -> notes.add("B: " + n));
        int weights = tensors.size() + uncomparable.size() + onlyA.size();
        return new ModelDiff(
                a,
                b,
                first.format(),
                second.format(),
                summary(tensors, all, weights),
                tensors,
                uncomparable,
                onlyA,
                onlyB,
                notes);
    }

    private static void requireAny(
            CompareOptions options, Pairing.Result paired, List<ModelDiff.Uncomparable> uncomparable) {
        boolean none = uncomparable.isEmpty()
                && paired.onlyA().isEmpty()
                && paired.onlyB().isEmpty();
        if (options.only().isPresent() && none) {
            throw new InvalidOptionException(
                    "no weight of either model has a name that '"
                            + options.only().map(Pattern::pattern).orElse("") + "' matches",
                    "--only",
                    "`octet inspect --tensors MODEL` lists the names");
        }
    }

    /** Weights that cannot be read as numbers, each with its counterpart of the same name. */
    private static List<ModelDiff.Uncomparable> problems(
            Map<String, String> problemsA,
            Map<String, String> problemsB,
            Map<String, Weight> weightsA,
            Map<String, Weight> weightsB) {
        List<ModelDiff.Uncomparable> found = new ArrayList<>();
        problemsA.forEach((name, reason) -> {
            boolean there = weightsB.containsKey(name) || problemsB.containsKey(name);
            String other = problemsB.get(name);
            String both = other == null ? "A has " + reason : "A has " + reason + ", B has " + other;
            found.add(new ModelDiff.Uncomparable(name, there ? name : "", both));
        });
        problemsB.forEach((name, reason) -> {
            if (!problemsA.containsKey(name)) {
                found.add(new ModelDiff.Uncomparable(weightsA.containsKey(name) ? name : "", name, "B has " + reason));
            }
        });
        return found;
    }

    private static InvalidDataException nothingMatches(
            String a, String b, CompareOptions options, List<ModelDiff.Uncomparable> uncomparable) {
        String first = uncomparable.isEmpty()
                ? options.only().isPresent()
                        ? "each that it matches is in one of them only"
                        : "they share no name, and no two matrices are alike"
                : uncomparable.size() + " tensors cannot be compared; the first, '"
                        + (uncomparable.getFirst().a() + uncomparable.getFirst().b()) + "': "
                        + uncomparable.getFirst().reason();
        return new InvalidDataException(
                "the two models have no weight in common"
                        + options.only().map(p -> " that '" + p + "' matches").orElse("") + ": " + first,
                a + " and " + b,
                "give two forms of one model; `octet inspect` shows what each holds");
    }

    private static List<String> unmatched(WeightSource source, Collection<String> names, Map<String, String> problems) {
        return names.stream()
                .filter(n -> !problems.containsKey(n)) // listed as uncomparable
                .filter(n ->
                        source.listed(Objects.requireNonNull(source.weights().get(n))))
                .toList();
    }

    /** Worst first. */
    private static final Comparator<TensorDiff> WORST_FIRST = Comparator.comparing(TensorDiff::closeness)
            .reversed()
            .thenComparing(t -> t.notFiniteApart() == 0)
            .thenComparingDouble(t -> Double.isNaN(t.sqnrDb()) ? Double.NEGATIVE_INFINITY : t.sqnrDb())
            .thenComparingDouble(t -> -t.maxUlpError())
            .thenComparing(TensorDiff::a);

    private List<PairWork> run(List<Pairing.Pair> pairs, DeclaredRounding declared) throws IOException {
        List<PairWork> works = new ArrayList<>();
        try (TileBuffers.Pool buffers = new TileBuffers.Pool()) {
            for (int start = 0; start < pairs.size(); start += PAIRS_AT_A_TIME) {
                List<PairWork> some = new ArrayList<>();
                for (Pairing.Pair pair : pairs.subList(start, Math.min(pairs.size(), start + PAIRS_AT_A_TIME))) {
                    some.add(new PairWork(pair, declared));
                }
                runTiles(some, buffers);
                works.addAll(some);
            }
        }
        return works;
    }

    private void runTiles(List<PairWork> works, TileBuffers.Pool buffers) throws IOException {
        int[] starts = new int[works.size() + 1];
        for (int i = 0; i < works.size(); i++) {
            starts[i + 1] = Math.addExact(starts[i], works.get(i).tileCount());
        }
        try {
            Workers.run(starts[works.size()], options.threads(), piece -> {
                int found = Arrays.binarySearch(starts, piece);
                int index = found >= 0 ? found : -found - 2;
                PairWork work = works.get(index);
                TileBuffers own = buffers.take();
                try {
                    tell(work.measure(piece - starts[index], own));
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                } finally {
                    buffers.giveBack(own);
                }
            });
        } catch (UncheckedIOException e) {
            throw e.getCause();
        }
    }

    private synchronized void tell(long elements) {
        doneElements += elements;
        options.progress().elements(doneElements, totalElements);
    }

    private static ModelDiff.Summary summary(List<TensorDiff> tensors, PairSums all, int weights) {
        Map<Closeness, Integer> byCloseness = new EnumMap<>(Closeness.class);
        for (Closeness closeness : Closeness.values()) {
            byCloseness.put(closeness, 0);
        }
        tensors.forEach(t -> byCloseness.merge(t.closeness(), 1, Integer::sum));
        CastError measures = all.measures();
        return new ModelDiff.Summary(
                tensors.size(),
                tensors.stream().mapToLong(TensorDiff::elements).sum(),
                tensors.stream().mapToLong(TensorDiff::differing).sum(),
                byCloseness,
                measures.cosine(),
                measures.sqnrDb(),
                // the min of a stream is NaN if one element is
                tensors.stream().mapToDouble(TensorDiff::cosine).min().orElse(Double.NaN),
                tensors.stream().mapToDouble(TensorDiff::sqnrDb).min().orElse(Double.NaN),
                tensors.stream().mapToDouble(TensorDiff::maxUlpError).max().orElse(Double.NaN),
                (int) tensors.stream().filter(t -> t.rounding().isDouble()).count(),
                weights == 0 ? 1 : (double) tensors.size() / weights);
    }
}
