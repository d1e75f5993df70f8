package dev.octet.pipeline;

import dev.octet.converter.checkpoint.AuxiliaryFiles;
import dev.octet.converter.checkpoint.CheckpointPlan;
import dev.octet.converter.checkpoint.CheckpointResult;
import dev.octet.converter.checkpoint.MergeMeasure;
import dev.octet.converter.checkpoint.RoundedError;
import dev.octet.converter.checkpoint.ShardPlan;
import dev.octet.converter.checkpoint.SharedScale;
import dev.octet.converter.checkpoint.WrittenShard;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * quantize, dequantize and convert, file by file: for clusters, whose processes each open the same request and write some of the files. All
 * of them come to the same plan, so the files are those that one process would write.
 *
 * <pre>{@code
 * try (CheckpointShards shards = CheckpointShards.of(request, job)) {
 *     WrittenShard first = shards.write(shards.plans().getFirst().name(), file); // elsewhere: the others
 *     AuxiliaryFiles rest = shards.writeRest(folder);
 * }
 * }</pre>
 */
public final class CheckpointShards implements AutoCloseable {
    private final CheckpointGoal goal;
    private final CheckpointPlan plan;
    private final Job job;

    private CheckpointShards(CheckpointGoal goal, Job job) throws IOException {
        this.goal = goal;
        this.job = job;
        try {
            this.plan = goal.plan(job);
        } catch (IOException | RuntimeException e) {
            goal.close();
            throw e;
        }
    }

    /**
     * Opens and plans what {@link Quantize#run(Quantize.CheckpointRequest, Job)} does.
     *
     * @throws dev.octet.formats.error.InvalidOptionException when the request has transforms or searches for NaN, which takes the whole
     *     model, or asks for a report
     * @throws dev.octet.formats.error.OctetException as for one process
     * @throws IOException when something cannot be read
     */
    public static CheckpointShards of(Quantize.CheckpointRequest request, Job job) throws IOException {
        if (!request.transforms().isEmpty()) {
            throw job.invalid(
                    "--transform is solved over the whole model, and here its files are written apart",
                    "write the transformed model with `octet quantize --transform ... --recipe none` first, and"
                            + " quantise that");
        }
        if (request.has(Quantize.Choice.ALLOW_NONFINITE)) {
            throw job.invalid(
                    "--allow-nonfinite searches all weights before the first is written, and here each process would",
                    "find them with `octet quantize --allow-nonfinite --dry-run`, and name them with --keep");
        }
        if (request.report().isPresent()) {
            throw job.invalid(
                    "--report shows the work of one process, and here its files are written apart",
                    "leave it out; `octet verify` and `octet diff` examine the result");
        }
        return new CheckpointShards(CheckpointGoal.of(request, job), job);
    }

    /**
     * Opens and plans what {@link Dequantize#run} does.
     *
     * @throws dev.octet.formats.error.OctetException as for one process
     * @throws IOException when something cannot be read
     */
    public static CheckpointShards of(Dequantize.Request request, Job job) throws IOException {
        return new CheckpointShards(CheckpointGoal.of(request, job), job);
    }

    /**
     * Opens and plans what {@link Convert#run(Convert.ToLayout, Job)} does.
     *
     * @throws dev.octet.formats.error.OctetException as for one process
     * @throws IOException when something cannot be read
     */
    public static CheckpointShards of(Convert.ToLayout request, Job job) throws IOException {
        return new CheckpointShards(CheckpointGoal.of(request), job);
    }

    /** The files to write, in the order of the checkpoint. */
    public List<ShardPlan> plans() {
        return plan.shards();
    }

    /** What the work is called while it goes on, for example {@code quantising}. */
    public String task() {
        return goal.task();
    }

    /**
     * By what an unfinished output is known: requests with equal identities write the same files.
     *
     * @throws IOException when a file of the model has vanished
     */
    public Map<String, String> identity() throws IOException {
        return goal.converter().identity(plan);
    }

    /**
     * Writes one file, by any process, any number of times: always the same bytes.
     *
     * @param name of one of {@link #plans}
     * @param file where, in a folder that is there
     * @throws IllegalArgumentException when no file has this name
     * @throws dev.octet.formats.error.InvalidDataException when a weight holds a NaN or an infinity
     * @throws IOException when reading or writing fails; nothing is left then
     */
    public WrittenShard write(String name, Path file) throws IOException {
        ShardPlan shard = plan.shards().stream()
                .filter(s -> s.name().equals(name))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("no file '" + name + "' is planned"));
        return goal.converter().writeShard(plan, shard, file, job.streaming(goal.task()));
    }

    /**
     * Writes everything but the tensor files; by one process, last, so that no reader takes an unfinished folder for a model.
     *
     * @param folder is there
     * @throws IOException when reading or writing fails
     */
    public AuxiliaryFiles writeRest(Path folder) throws IOException {
        return goal.converter().writeRest(plan, folder);
    }

    /**
     * Refuses a folder to write to that would change the model while it is read.
     *
     * @throws dev.octet.formats.error.InvalidOptionException when it is the model's, lies in it or contains it
     */
    public void requireApart(Path folder) throws IOException {
        job.requireFolderName(folder);
        goal.converter().requireApart(folder);
    }

    /** What would become of the checkpoint. */
    public CheckpointOutcome planned(String output) {
        return CheckpointOutcome.of(goal.converter(), plan, output, null, goal.scales());
    }

    /**
     * What became of the checkpoint.
     *
     * @param output as messages call it
     * @param written the files that this run wrote, each once, in any order
     * @param resumed files that an earlier run had finished
     * @param rest what {@link #writeRest} returned
     * @param seconds wall-clock time
     */
    public CheckpointOutcome outcome(
            String output, List<WrittenShard> written, int resumed, AuxiliaryFiles rest, double seconds) {
        Map<String, Integer> order = new TreeMap<>();
        plan.shards().forEach(s -> order.put(s.name(), order.size()));
        List<WrittenShard> sorted = written.stream()
                .sorted(Comparator.comparing(w -> order.getOrDefault(w.name(), order.size())))
                .toList();
        // weights that share a scale may lie in several files, which then all tell of it
        Map<String, SharedScale> shared = sorted.stream()
                .flatMap(w -> w.sharedScales().stream())
                .collect(Collectors.toMap(SharedScale::group, s -> s, (first, _) -> first, TreeMap::new));
        List<RoundedError> rounded =
                sorted.stream().flatMap(w -> w.rounded().stream()).toList();
        List<MergeMeasure> merges =
                sorted.stream().flatMap(w -> w.merges().stream()).toList();
        CheckpointResult result = new CheckpointResult(
                goal.converter()
                        .checkpoint()
                        .folder(), // stands for the output, which need not be on a disk of this machine
                plan.sourceBytes(),
                plan.targetBytes(),
                seconds,
                resumed,
                shared.values().stream()
                        .sorted(Comparator.comparingDouble(SharedScale::lostDb)
                                .reversed()
                                .thenComparing(SharedScale::group))
                        .toList(),
                merges,
                rounded,
                rest.carried().stream().map(Path::toString).toList(),
                rest.left().stream().map(Path::toString).toList());
        return CheckpointOutcome.of(goal.converter(), plan, output, result, goal.scales());
    }

    /** Closes what the request reads. */
    @Override
    public void close() throws IOException {
        goal.close();
    }
}
