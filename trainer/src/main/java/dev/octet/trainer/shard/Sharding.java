package dev.octet.trainer.shard;

import dev.octet.formats.file.Sha256;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.optimizer.UpdateProgram;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.state.StateForms;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;

/**
 * The programs of a run, cut into the shares of its ranks. Who owns what, and what travels together in which order, follows from the first training program; it is the same
 * on all ranks and for all shapes of micro-batches.
 */
public final class Sharding {
    /** Digits of a digest. */
    private static final int SHOWN = 16;

    private final ZeroStage stage;
    private final boolean accumulates;
    private final UpdateProgram whole;
    private final StateForms states;
    private final UpdateFacts facts;
    private final Partition partition;
    private final List<List<String>> gradientBuckets;
    private final List<List<String>> weightBuckets;

    /**
     * The shares of a run.
     *
     * @param training a training program of the run, not cut
     * @param whole the update that belongs to it, not cut
     * @param states how parameters are kept
     */
    public Sharding(
            Program training, UpdateProgram whole, StateForms states, ShardSettings settings, int ranks) {
        this.stage = settings.zero();
        this.accumulates = settings.microBatches() > 1;
        this.whole = whole;
        this.states = states;
        this.facts = UpdateFacts.of(training, whole);
        this.partition = Partition.of(ranks, facts.parameters());
        Map<String, Integer> ends = GradientLives.of(training).last();
        gradientBuckets = buckets(
                ends.keySet().stream().sorted(Comparator.comparing(ends::get)).toList(),
                training.gradients(),
                settings.bucketBytes());
        weightBuckets =
                buckets(List.copyOf(partition.owners().keySet()), training.gradients(), settings.bucketBytes());
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
        String all = partition.owners() + " " + gradientBuckets + " " + weightBuckets;
        return Sha256.of(all.getBytes(StandardCharsets.UTF_8)).substring(0, SHOWN);
    }

    /**
     * The update on one rank: of the parameters it owns, whose new weights all ranks then get.
     *
     * @param world the ranks; not used before the program runs
     */
    public UpdateProgram update(int rank, Collectives world) {
        ShardedUpdate pass = new ShardedUpdate(this, rank, world);
        return whole.with(pass.program());
    }

    /**
     * A training program on one rank: with shares of gradients, those of other ranks live only as long as they are computed.
     *
     * @param training not cut
     * @param world the ranks; not used before the program runs
     */
    public Program training(Program training, int rank, Collectives world) {
        return stage.cutsGradients() ? new ShardedTraining(training, this, rank, world).program() : training;
    }

    /** Whether a rank has only its own averaged gradients. */
    boolean cutsGradients() {
        return stage.cutsGradients();
    }

    /** Whether a rank adds up the gradients of several micro-batches before they are averaged. */
    boolean accumulates() {
        return accumulates;
    }

    UpdateProgram whole() {
        return whole;
    }

    StateForms states() {
        return states;
    }

    UpdateFacts facts() {
        return facts;
    }

    /** Gradients that are averaged together, in the order in which backward completes them. */
    List<List<String>> gradientBuckets() {
        return gradientBuckets;
    }

    /** Parameters that are gathered together. */
    List<List<String>> weightBuckets() {
        return weightBuckets;
    }
}
