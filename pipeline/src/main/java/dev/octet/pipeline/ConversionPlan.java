package dev.octet.pipeline;

import dev.octet.converter.checkpoint.ShardPlan;
import dev.octet.converter.checkpoint.TensorStep;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.file.TemporaryFolder;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * {@code octet plan MODEL --recipe RECIPE}: what quantising a checkpoint takes on this machine, before it starts: disk to the byte, memory, and time from a trial on some of its weights.
 *
 * <pre>{@code
 * ConversionPlan.Result plan = ConversionPlan.run(Quantize.CheckpointRequest.of(model, output, Recipes.FP8_DYNAMIC), Job.defaults());
 * }</pre>
 */
public final class ConversionPlan {
    /** Weights of a trial: enough that a run of it is mostly casting, few enough that it ends soon. */
    private static final long TRIAL_BYTES = 96L << 20;

    /** Weights of a smaller one, whose time is taken off: what a run takes whatever its size. */
    private static final long SMALL_TRIAL_BYTES = 24L << 20;

    /** Read of a file of the model, to see how fast its disk gives it. */
    private static final long READ_BYTES = 128L << 20;

    private static final int PIECE_BYTES = 4 << 20;

    /** How long a trial is repeated: its first runs are compiled while they run. */
    private static final double TRIAL_SECONDS = 2;

    /** What a process that streams takes on Linux, with one thread; measured with bench/run-plan. */
    private static final long PROCESS_BYTES = 89_500_000;

    /** Tiles of a thread: bytes in, codes and scales out. */
    private static final long THREAD_BYTES = 2_000_000;

    /** A tensor's headers, on both sides, its step, and its line in the journal. */
    private static final long TENSOR_BYTES = 3_000;

    /** From the start of a process to the first tile, and what of compiling a trial does not show. */
    private static final double START = 0.8;

    private ConversionPlan() {}

    /**
     * What a conversion takes.
     *
     * @param weights that are quantised
     * @param sourceBytes that are read
     * @param targetBytes that are written; unfinished files lie in the same folder, so nothing is needed besides
     * @param freeBytes of the disk of the output
     * @param memoryBytes of the process at its peak, the page cache not counted
     * @param readPerSecond bytes a second that the model's disk gave, or memory for what the system has there
     * @param convertedPerSecond bytes of the model a second that the trial converted and wrote
     * @param seconds of the whole run
     */
    public record Result(
            String model,
            String output,
            String recipe,
            String target,
            int weights,
            int files,
            long sourceBytes,
            long targetBytes,
            long freeBytes,
            long memoryBytes,
            double readPerSecond,
            double convertedPerSecond,
            double seconds) {
        /** Whether the disk has room. */
        public boolean fits() {
            return targetBytes <= freeBytes;
        }
    }

    /**
     * Plans, and tries some of the weights in a folder of its own beside the output, which is removed.
     *
     * @param request its output need not be there
     * @throws OctetException as for {@link Quantize#run(Quantize.CheckpointRequest, Job)}
     * @throws IOException when a file cannot be read, or the disk of the output not be written to
     */
    public static Result run(Quantize.CheckpointRequest request, Job job) throws IOException {
        CheckpointOutcome outcome = Quantize.run(request, job.dry());
        Path disk = existing(request.output());
        try (CheckpointShards shards = CheckpointShards.of(request, job.dry());
                Checkpoint checkpoint = Checkpoint.open(request.model());
                TemporaryFolder folder = TemporaryFolder.create("plan", disk)) {
            Trial trial = new Trial(folder.path(), checkpoint, shards.plans());
            double converted = trial.bytesPerSecond(request, job);
            double read = readPerSecond(checkpoint);
            double again = readPerSecond(checkpoint); // from memory, as a trial reads
            int files = shards.plans().size();
            double seconds = START
                    + files * syncSeconds(folder.path())
                    + outcome.sourceBytes() / converted
                    + outcome.sourceBytes() * Math.max(0, 1 / read - 1 / again);
            long memory = PROCESS_BYTES
                    + job.threads() * THREAD_BYTES
                    + checkpoint.tensors().size() * TENSOR_BYTES;
            return new Result(
                    request.model().toString(),
                    request.output().toString(),
                    request.recipe().name(),
                    outcome.target(),
                    outcome.weights().size(),
                    files,
                    outcome.sourceBytes(),
                    outcome.targetBytes(),
                    Files.getFileStore(disk).getUsableSpace(),
                    memory,
                    read,
                    converted,
                    seconds);
        }
    }

    /** The folder that is there, of those above a path. */
    private static Path existing(Path path) {
        Path folder = path.toAbsolutePath().getParent();
        while (folder != null && !Files.isDirectory(folder)) {
            folder = folder.getParent();
        }
        return folder == null ? path.toAbsolutePath().getRoot() : folder;
    }

    /** Reads the middle of the largest file, of which the system may have more in memory, as it will for the run. */
    private static double readPerSecond(Checkpoint checkpoint) throws IOException {
        Path largest = null;
        long size = 0;
        for (Path file :
                new TreeSet<>(checkpoint.shards().stream().map(s -> s.path()).toList())) {
            if (Files.size(file) > size) {
                largest = file;
                size = Files.size(file);
            }
        }
        if (largest == null) {
            return Double.POSITIVE_INFINITY;
        }
        long bytes = Math.min(READ_BYTES, size);
        ByteBuffer piece = ByteBuffer.allocateDirect(PIECE_BYTES);
        long start = System.nanoTime();
        try (FileChannel channel = FileChannel.open(largest, StandardOpenOption.READ)) {
            long at = (size - bytes) / 2;
            for (long end = at + bytes; at < end; ) {
                piece.clear().limit((int) Math.min(PIECE_BYTES, end - at));
                int got = channel.read(piece, at);
                if (got < 0) {
                    break;
                }
                at += got;
            }
        }
        return bytes / seconds(start);
    }

    /** Time to make a small file last. */
    private static double syncSeconds(Path folder) throws IOException {
        Path file = folder.resolve("sync");
        long start = System.nanoTime();
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
            channel.write(ByteBuffer.allocate(1));
            channel.force(true);
        }
        return seconds(start);
    }

    private static double seconds(long start) {
        return (System.nanoTime() - start) / 1e9;
    }

    /** Some of the weights, in a checkpoint of their own. */
    private record Trial(Path folder, Checkpoint checkpoint, List<ShardPlan> plans) {
        /** From the difference of two trials, in turn. */
        double bytesPerSecond(Quantize.CheckpointRequest request, Job job) throws IOException {
            Sample large = sample(TRIAL_BYTES, "large");
            Sample small = sample(SMALL_TRIAL_BYTES, "small");
            if (large.bytes == 0) {
                return Double.POSITIVE_INFINITY;
            }
            List<Double> longer = new ArrayList<>();
            List<Double> shorter = new ArrayList<>();
            long begun = System.nanoTime();
            while (longer.isEmpty() || seconds(begun) < TRIAL_SECONDS) {
                longer.add(convert(large, request, job));
                shorter.add(convert(small, request, job));
            }
            double most = median(longer);
            double least = median(shorter);
            long apart = large.bytes - small.bytes;
            return apart > 0 && most > least ? apart / (most - least) : large.bytes / most;
        }

        /** Not the least: a run of many tiles meets slow ones, too. */
        private static double median(List<Double> seconds) {
            return seconds.stream().sorted().toList().get(seconds.size() / 2);
        }

        /** A model of some of the weights. */
        private record Sample(Path model, long bytes) {}

        private Sample sample(long most, String name) throws IOException {
            Set<String> chosen = chosen(most);
            Path model = Files.createDirectory(folder.resolve(name));
            long bytes = chosen.isEmpty() ? 0 : write(chosen, model.resolve("model.safetensors"));
            Path config = checkpoint.folder().resolve(ModelConfig.FILE_NAME);
            if (Files.exists(config)) {
                Files.copy(config, model.resolve(ModelConfig.FILE_NAME), StandardCopyOption.REPLACE_EXISTING);
            }
            return new Sample(model, bytes);
        }

        private double convert(Sample sample, Quantize.CheckpointRequest request, Job job) throws IOException {
            long start = System.nanoTime();
            Quantize.run(request.between(sample.model, folder.resolve("converted")), job.overwriting());
            return seconds(start);
        }

        /** The first weights that fit, and those of scales that they bring along; at least one. */
        private Set<String> chosen(long most) {
            Set<String> chosen = new TreeSet<>();
            long bytes = 0;
            for (ShardPlan plan : plans) {
                for (TensorStep step : plan.steps()) {
                    StoredTensor stored = checkpoint.tensor(step.name());
                    if (!step.isOfWeight() || stored == null) {
                        continue;
                    }
                    long own = stored.spec().byteSize();
                    if (chosen.isEmpty() || bytes + own <= most) {
                        chosen.add(step.name());
                        bytes += own;
                    }
                }
            }
            return chosen;
        }

        private long write(Set<String> chosen, Path file) throws IOException {
            try (Arena arena = Arena.ofConfined()) {
                Map<String, Tensor> tensors = new LinkedHashMap<>();
                long bytes = 0;
                List<StoredTensor> all = checkpoint.tensors().values().stream()
                        .filter(t -> chosen.contains(t.name()) || chosen.contains(weightOf(t.name())))
                        .sorted(Comparator.comparing(StoredTensor::name))
                        .toList();
                for (StoredTensor t : all) {
                    MemorySegment data = checkpoint.read(t, arena);
                    tensors.put(t.name(), new Tensor(t.spec(), data));
                    bytes += data.byteSize();
                }
                SafetensorsWriter.write(file, tensors, Map.of("format", "pt"));
                return bytes;
            }
        }

        /** The weight next to which a scale lies, as most layouts name it. */
        private static String weightOf(String tensor) {
            int dot = tensor.lastIndexOf('.');
            return dot < 0 ? tensor : tensor.substring(0, dot) + ".weight";
        }
    }
}
