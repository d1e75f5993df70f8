package dev.octet.spark;

import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.safetensors.ShardIndex;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.pipeline.CheckpointShards;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.Quantize;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalLong;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.spark.api.java.JavaSparkContext;

/**
 * What {@code bench/run-spark} runs: one process beside Spark with 1, 2 and 3 executors of a core each on the same checkpoint, the terms of a model of
 * how that scales, and what the model says of the measured runs and of larger clusters.
 */
final class SparkMeasurement {
    private static final long ROW = 4096;
    private static final int SYNCS = 3;
    private static final double GB = 1e9;

    private final StringBuilder page = new StringBuilder();
    private final Map<String, Double> terms = new LinkedHashMap<>();
    private final Path work;
    private final Path model;
    private final int shards;
    private final int rounds;
    private long measuredBytes;

    private SparkMeasurement(Path work, int shards, int rounds) {
        this.work = work;
        this.model = work.resolve("model");
        this.shards = shards;
        this.rounds = rounds;
    }

    public static void main(String[] arguments) throws IOException {
        double gigabytes = Double.parseDouble(arguments[1]);
        SparkMeasurement m = new SparkMeasurement(
                Path.of(arguments[4]), Integer.parseInt(arguments[2]), Integer.parseInt(arguments[3]));
        m.run(gigabytes);
        Files.writeString(Path.of(arguments[0]), m.page.toString());
    }

    private interface Timed {
        void run() throws IOException;
    }

    private static double seconds(Timed work) throws IOException {
        long start = System.nanoTime();
        work.run();
        return (System.nanoTime() - start) / 1e9;
    }

    private static double median(List<Double> values) {
        double[] sorted =
                values.stream().mapToDouble(Double::doubleValue).sorted().toArray();
        return sorted[sorted.length / 2];
    }

    private void run(double gigabytes) throws IOException {
        make(model, Math.max(1, Math.round(gigabytes * GB / shards / 4 / ROW / 2)));
        make(work.resolve("small"), 1);
        try (Stream<Path> files = Files.list(model)) {
            for (Path file :
                    files.filter(f -> f.toString().endsWith(".safetensors")).toList()) {
                measuredBytes += Files.size(file);
            }
        }
        say(String.format(
                Locale.ROOT,
                "%.2f GB of BF16 in %d files, to fp8-dynamic; %d cores, Java %s; medians of %d rounds, seconds%n",
                measuredBytes / GB,
                shards,
                Runtime.getRuntime().availableProcessors(),
                System.getProperty("java.version"),
                rounds));
        alone(1); // warms the page cache
        Map<String, List<Double>> times = new TreeMap<>();
        List<Double> starts = new ArrayList<>();
        List<Double> small = new ArrayList<>();
        for (int round = 0; round < rounds; round++) { // in turns, so that what the machine does meanwhile meets all
            add(times, "one process, 1 thread", alone(1));
            for (int executors = 1; executors <= 3; executors++) {
                long start = System.nanoTime();
                try (JavaSparkContext spark = SparkContexts.cluster(executors)) {
                    starts.add((System.nanoTime() - start) / 1e9);
                    spark.parallelize(IntStream.range(0, 8 * executors).boxed().toList(), 8 * executors)
                            .map(i -> i + 1)
                            .collect(); // executors are up, and have loaded Spark
                    add(times, "Spark, " + executors + " executors, first job", job(spark, model));
                    add(times, "Spark, " + executors + " executors, second job", job(spark, model));
                    if (executors == 1) {
                        small.add(job(spark, work.resolve("small")));
                    }
                }
            }
        }
        terms.put("start of the context", median(starts));
        terms.put("a job on small files", median(small));
        measureSync(measuredBytes / 2); // FP8 has half the bytes of BF16
        times.forEach(
                (name, all) -> say(String.format(Locale.ROOT, "%-38s %8.2f   %s%n", name, median(all), text(all))));
        double alone = median(of(times, "one process, 1 thread"));
        double one = median(of(times, "Spark, 1 executors, second job"));
        say(String.format(
                Locale.ROOT,
                "overhead of Spark with one core against one thread: %+.2f s, %+.1f %%%n",
                one - alone,
                100 * (one / alone - 1)));
        model(alone, times);
    }

    private static String text(List<Double> values) {
        return String.join(
                " ",
                values.stream().map(v -> String.format(Locale.ROOT, "%.2f", v)).toList());
    }

    private static void add(Map<String, List<Double>> times, String name, double seconds) {
        times.computeIfAbsent(name, _ -> new ArrayList<>()).add(seconds);
    }

    private static List<Double> of(Map<String, List<Double>> times, String name) {
        return times.getOrDefault(name, List.of());
    }

    private void say(String text) {
        page.append(text);
        System.out.print(text);
    }

    private double alone(int threads) throws IOException {
        Path output = work.resolve("alone");
        delete(output);
        double seconds = seconds(() -> Quantize.run(
                Quantize.CheckpointRequest.of(model, output, Recipes.FP8_DYNAMIC),
                Job.defaults().withThreads(threads)));
        delete(output);
        return seconds;
    }

    private static ShardRequest request() {
        return (m, o, job) -> CheckpointShards.of(Quantize.CheckpointRequest.of(m, o, Recipes.FP8_DYNAMIC), job);
    }

    private double job(JavaSparkContext spark, Path source) throws IOException {
        Path output = work.resolve("together");
        delete(output);
        double seconds = seconds(() -> new ShardJob(spark, source.toString(), output.toString()).run(request()));
        delete(output);
        return seconds;
    }

    /** What a task waits for its file to be on the disk, which one process does not. */
    private void measureSync(long targetBytes) throws IOException {
        List<Double> synced = new ArrayList<>();
        ByteBuffer chunk = ByteBuffer.allocateDirect(1 << 20);
        for (int i = 0; i < SYNCS; i++) {
            Path file = work.resolve("synced");
            try (FileChannel channel = FileChannel.open(
                    file, StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE)) {
                for (long done = 0; done < targetBytes / shards; done += chunk.capacity()) {
                    channel.write(chunk.clear());
                }
                synced.add(seconds(() -> channel.force(true)));
            }
            Files.delete(file);
        }
        terms.put("sync of a file", median(synced));
    }

    /** Seconds by the model; all of its terms but {@code speed} were measured. */
    private double predicted(long bytes, int files, int cores, double speed) {
        double waves = Math.ceil((double) files / cores);
        double share = (double) bytes / files;
        double sync = term("sync of a file") * share / ((double) measuredBytes / shards);
        return term("a job on small files") / shards * files + waves * (share / speed + sync);
    }

    private double term(String name) {
        return terms.getOrDefault(name, 0.0);
    }

    private void model(double alone, Map<String, List<Double>> times) {
        double rate = measuredBytes / alone;
        say(String.format(Locale.ROOT, "%nterms, measured:%n"));
        terms.forEach((name, value) -> say(String.format(Locale.ROOT, "  %-28s %8.4f s%n", name, value)));
        say(String.format(Locale.ROOT, "  %-28s %8.3f GB/s read%n", "a core, of one process", rate / GB));
        say(String.format(
                Locale.ROOT,
                "%nmodel: small job x files / %d + waves x (file / core + sync), waves = ceil(files / cores)%n",
                shards));
        for (int executors = 1; executors <= 3; executors++) {
            double measured = median(of(times, "Spark, " + executors + " executors, second job"));
            int cores = Math.min(executors, Runtime.getRuntime().availableProcessors());
            double said = predicted(measuredBytes, shards, cores, rate);
            say(String.format(
                    Locale.ROOT,
                    "  %d executors on %d cores: measured %.2f, the model says %.2f (%+.0f %%)%n",
                    executors,
                    cores,
                    measured,
                    said,
                    100 * (said / measured - 1)));
        }
        say(String.format(
                Locale.ROOT,
                "%n1400 GB in 280 files, executors of 8 cores, their start not counted. Assumed, not measured: cores"
                    + " and disks of executors as here,%nthe driver's share grows with the files, a file system that"
                    + " gives all executors together so much:%n"));
        say(String.format(Locale.ROOT, "  %9s %14s %14s %14s%n", "executors", "20 GB/s", "100 GB/s", "no limit"));
        for (int executors : List.of(1, 2, 5, 10, 20, 50, 100)) {
            say(String.format(Locale.ROOT, "  %9d", executors));
            for (double storage : new double[] {20 * GB, 100 * GB, Double.POSITIVE_INFINITY}) {
                int cores = 8 * executors;
                double speed = Math.min(rate, storage / Math.min(cores, 280));
                say(String.format(Locale.ROOT, " %12.0f s", predicted((long) (1400 * GB), 280, cores, speed)));
            }
            say(String.format(Locale.ROOT, "%n"));
        }
        say("  beyond 35 executors there are more cores than files: a file is the smallest share of the work\n");
    }

    private void make(Path folder, long rows) throws IOException {
        Path done = folder.resolve("config.json");
        if (Files.exists(done)) {
            return;
        }
        Files.createDirectories(folder);
        Map<String, String> index = new LinkedHashMap<>();
        byte[] noise = new byte[1 << 20];
        SplittableRandom random = new SplittableRandom(1);
        for (int i = 0; i + 1 < noise.length; i += 2) { // BF16 between 2^-8 and 2^-4, of either sign
            int exponent = 119 + random.nextInt(5);
            int code = random.nextInt(2) << 15 | exponent << 7 | random.nextInt(128);
            noise[i] = (byte) code;
            noise[i + 1] = (byte) (code >> 8);
        }
        for (int s = 0; s < shards; s++) {
            String file = "model-%05d-of-%05d.safetensors".formatted(s + 1, shards);
            List<TensorSpec> specs = new ArrayList<>();
            for (String name : List.of("gate_proj", "up_proj", "down_proj", "o_proj")) {
                TensorSpec spec = new TensorSpec(
                        "model.layers." + s + (name.equals("o_proj") ? ".self_attn." : ".mlp.") + name + ".weight",
                        DType.BF16,
                        Shape.of(rows, ROW));
                specs.add(spec);
                index.put(spec.name(), file);
            }
            SafetensorsWriter.write(folder.resolve(file), specs, Map.of("format", "pt"), (spec, sink) -> {
                try (Arena arena = Arena.ofConfined()) {
                    MemorySegment chunk = arena.allocate(noise.length);
                    MemorySegment.copy(noise, 0, chunk, ValueLayout.JAVA_BYTE, 0, noise.length);
                    for (long from = 0; from < spec.byteSize(); from += noise.length) {
                        sink.write(chunk.asSlice(0, Math.min(noise.length, spec.byteSize() - from)));
                    }
                }
            });
        }
        new ShardIndex(index, OptionalLong.empty()).write(folder.resolve(ShardIndex.FILE_NAME));
        Files.writeString(
                done,
                "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"torch_dtype\":"
                        + " \"bfloat16\"}\n");
    }

    private static void delete(Path folder) throws IOException {
        if (Files.exists(folder)) {
            try (Stream<Path> all = Files.walk(folder)) {
                for (Path path : all.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(path);
                }
            }
        }
    }
}
