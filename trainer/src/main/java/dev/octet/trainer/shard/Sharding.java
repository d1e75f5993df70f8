package dev.octet.trainer.shard;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.optimizer.UpdateProgram;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import dev.octet.trainer.state.StateForms;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeMap;

/**
 * The programs of a run, cut into the shares of its ranks. Who owns what, and what travels together in which order, follows from the first training program; it is the same
 * on all ranks and for all shapes of micro-batches.
 */
public final class Sharding {
    /** Digits of a digest. */
    private static final int SHOWN = 16;

    private static final String FORWARD = "forward ";
    private static final String TRAINING = "training ";

    /** A gradient and two moments. */
    private static final long F32_BUFFERS = 3;

    private final ZeroStage stage;
    private final boolean accumulates;
    private final boolean showsWeights;
    private final Set<String> uncut;
    private final UpdateProgram whole;
    private final StateForms states;
    private final UpdateFacts facts;
    private final Partition partition;
    private final List<List<String>> gradientBuckets;
    private final List<List<String>> weightBuckets;
    private final Map<String, Shape> weights;
    private final Map<String, Integer> weightOwners;
    private final long bucketBytes;

    /** In which order the weights travel of the programs of each chunk that train, and of others. */
    private final Map<String, List<String>> orders = new TreeMap<>();

    /**
     * The shares of a run.
     *
     * @param training a training program of the run, not cut
     * @param whole the update that belongs to it, not cut
     * @param states how parameters are kept
     */
    public Sharding(Program training, UpdateProgram whole, StateForms states, ShardSettings settings, int ranks) {
        this(training, whole, states, settings, ranks, settings.microBatches() > 1, Set.of());
    }

    /**
     * The shares of the data-parallel ranks of a stage. Parameters that other stages read, too, are whole on all of them, with their gradients.
     *
     * @param own the update of the stage
     */
    public static Sharding ofStage(
            Stages stages, int stage, UpdateProgram own, StateForms states, ShardSettings settings, int ranks) {
        return new Sharding(stages.owned(stage), own, states, settings, ranks, true, stages.shared(stage));
    }

    private Sharding(
            Program training,
            UpdateProgram whole,
            StateForms states,
            ShardSettings settings,
            int ranks,
            boolean accumulates,
            Set<String> uncut) {
        this.stage = settings.zero();
        this.showsWeights = settings.showsWeights();
        this.accumulates = accumulates;
        this.uncut = Set.copyOf(uncut);
        this.whole = whole;
        this.states = states;
        this.facts = UpdateFacts.of(training, whole);
        this.bucketBytes = settings.bucketBytes();
        Map<String, Shape> shared = new LinkedHashMap<>();
        Map<String, Long> bytes = new LinkedHashMap<>(facts.parameters());
        if (stage.cutsWeights()) {
            shared.putAll(weights(training, settings.keepsTrained()));
            shared.forEach((name, shape) ->
                    bytes.merge(name, states.parameter(name, shape).bytes(shape.elementCount()), Long::sum));
        }
        // ranks that have parts of different sizes must have the same owners: together they update a tensor
        whole.shared().forEach((name, parts) -> {
            if (parts.isUneven()) {
                bytes.replace(name, F32_BUFFERS * Float.BYTES * parts.largest());
            }
        });
        Partition all = Partition.of(ranks, bytes);
        this.weightOwners = new HashMap<>();
        this.weights = Collections.unmodifiableMap(shared);
        shared.forEach((name, shape) -> states.parameter(name, shape)
                .names(name, shape)
                .forEach(part -> weightOwners.put(part, all.owner(name))));
        this.partition = all.of(facts.parameters().keySet());
        Map<String, Integer> ends = GradientLives.of(training).last();
        gradientBuckets = buckets(
                partition.owners().keySet().stream()
                        .filter(this::cutsGradient)
                        .sorted(Comparator.comparing((String name) -> ends.getOrDefault(name, 0)))
                        .toList(),
                training.gradients(),
                settings.bucketBytes());
        List<String> gathered = new ArrayList<>(partition.owners().keySet());
        gathered.removeAll(weightOwners.keySet());
        weightBuckets = buckets(gathered, training.gradients(), settings.bucketBytes());
    }

    /** Weights of which each rank keeps its own alone, with their shapes. */
    private static Map<String, Shape> weights(Program training, boolean keepsTrained) {
        Map<String, Shape> weights = new LinkedHashMap<>();
        for (Value v : training.values()) {
            Value g = training.gradients().get(v.name());
            if (v.role() == ValueRole.PARAMETER && !(keepsTrained && g != null)) {
                weights.put(v.name(), g == null ? v.type().shape() : g.type().shape());
            }
        }
        return weights;
    }

    /** Tensors that travel together, in F32: as many as fit, at least one. */
    private static List<List<String>> buckets(List<String> names, Map<String, Value> gradients, long most) {
        List<List<String>> all = new ArrayList<>();
        long bytes = 0;
        for (String name : names) {
            Value g = gradients.get(name);
            long own = g == null ? 0 : g.type().count() * Float.BYTES;
            if (all.isEmpty() || bytes + own > most) {
                all.add(new ArrayList<>());
                bytes = 0;
            }
            all.getLast().add(name);
            bytes += own;
        }
        return all;
    }

    /** Who owns which parameter. */
    public Partition partition() {
        return partition;
    }

    /** The rank that has a state in a checkpoint, and most often alone; empty for what all ranks keep, of which the first one has it. */
    public OptionalInt owner(String state) {
        String parameter = facts.parameterOf().get(state);
        return parameter == null ? OptionalInt.empty() : OptionalInt.of(partition.owner(parameter));
    }

    /** What all ranks must agree on, as a digest of names in their order. */
    public String text() {
        String all = partition.owners() + " " + gradientBuckets + " " + weightBuckets + " "
                + new TreeMap<>(weightOwners) + " "
                + orders.entrySet().stream()
                        .filter(e -> e.getKey().startsWith(TRAINING))
                        .flatMap(e -> e.getValue().stream())
                        .toList();
        return Sha256.of(all.getBytes(StandardCharsets.UTF_8)).substring(0, SHOWN);
    }

    /**
     * The update on one rank: of the parameters it owns, whose new weights all ranks then get.
     *
     * @param world the ranks; not used before the program runs
     */
    public UpdateProgram update(int rank, Collectives world) {
        UpdateCut cut = new UpdateCut(
                whole,
                facts,
                partition,
                stage.cutsGradients(),
                stage.cutsGradients() && accumulates ? gradientBuckets : List.of(),
                weightBuckets,
                states);
        return whole.with(new ShardedUpdate(cut, rank, world).program());
    }

    /**
     * A program of forward and backward, or of forward alone, on one rank. Gradients of other ranks live only as long as they are computed, weights of other ranks only as
     * long as they are read.
     *
     * @param plain not cut
     * @param world the ranks; not used before the program runs
     * @throws InvalidOptionException when its weights are read in another order than those of the first such program
     */
    public Program program(Program plain, int rank, Collectives world) {
        return program(plain, 0, rank, world);
    }

    /**
     * The same of a chunk of a stage.
     *
     * @param chunk its number
     */
    public Program program(Program plain, int chunk, int rank, Collectives world) {
        Program cut = stage.cutsGradients() && !plain.gradients().isEmpty()
                ? new ShardedTraining(plain, this, rank, world).program()
                : plain;
        if (!stage.cutsWeights()) {
            return cut;
        }
        boolean trains = !plain.gradients().isEmpty();
        ShardedWeights pass = new ShardedWeights(
                cut, new ShardedWeights.Lending(weightOwners, bucketBytes, showsWeights && trains), rank, world);
        Program made = pass.program();
        String which = (trains ? TRAINING : FORWARD) + chunk;
        List<String> before = orders.putIfAbsent(which, pass.order());
        if (before != null && !before.equals(pass.order())) {
            throw new InvalidOptionException(
                    "samples of different shapes have the weights read in another order, and ranks would wait for"
                            + " different ones",
                    "distributed.zero: " + stage.number(),
                    "set distributed: {zero: 2}, pad samples to one length, or leave gradient_checkpointing: {budget:"
                            + " ...} out");
        }
        return made;
    }

    /** Programs of another precision follow, on all ranks: they may read the weights in another order. */
    public void precisionChanges() {
        orders.clear();
    }

    /** The rank that alone keeps a weight between its uses; empty for one that all ranks keep. */
    public OptionalInt weightOwner(String parameter) {
        Integer owner = weightOwners.get(parameter);
        return owner == null ? OptionalInt.empty() : OptionalInt.of(owner);
    }

    /** Names of the weights that ranks share out, with their shapes. */
    public Map<String, Shape> weights() {
        return weights;
    }

    /** Whether only its owner has the averaged gradient of a parameter. */
    boolean cutsGradient(String parameter) {
        return partition.owners().containsKey(parameter) && !uncut.contains(parameter);
    }

    /** Whether a rank adds up the gradients of several micro-batches before they are averaged. */
    boolean accumulates() {
        return accumulates;
    }

    /** Gradients that are averaged together, in the order in which backward completes them. */
    List<List<String>> gradientBuckets() {
        return gradientBuckets;
    }
}
