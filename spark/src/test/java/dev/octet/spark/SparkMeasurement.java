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
import java.nio.file.Files;
import java.nio.file.Path;
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
    private static final int NULL_TASKS = 200;
    private static final double GB = 1e9;

    private final StringBuilder page = new StringBuilder();
    private final Map<String, Double> terms = new LinkedHashMap<>();
    private final Path work;
    private final Path model;
    private final int shards;
    private final int rounds;

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
        make(gigabytes);
        long bytes = 0;
        try (Stream<Path> files = Files.list(model)) {
            for (Path file :
                    files.filter(f -> f.toString().endsWith(".safetensors")).toList()) {
                bytes += Files.size(file);
            }
        }
        say(String.format(
                Locale.ROOT,
                "%.2f GB of BF16 in %d files, to fp8-dynamic; %d cores, Java %s; medians of %d rounds, seconds%n",
                bytes / GB,
                shards,
                Runtime.getRuntime().availableProcessors(),
                System.getProperty("java.version"),
                rounds));
        alone(1); // warms the page cache
        Map<String, List<Double>> times = new TreeMap<>();
        List<Double> starts = new ArrayList<>();
        for (int round = 0; round < rounds; round++) { // in turns, so that what the machine does meanwhile meets all
            add(times, "one process, 1 thread", alone(1));
            for (int executors = 1; executors <= 3; executors++) {
                long start = System.nanoTime();
                try (JavaSparkContext spark = SparkContexts.cluster(executors)) {
                    starts.add((System.nanoTime() - start) / 1e9);
                    spark.parallelize(IntStream.range(0, 8 * executors).boxed().toList(), 8 * executors)
                            .map(i -> i + 1)
                            .collect(); // executors are up, and have loaded Spark
                    if (executors == 1 && round == 0) {
                        measureTasks(spark);
                    }
                    add(times, "Spark, " + executors + " executors, first job", job(spark));
                    add(times, "Spark, " + executors + " executors, second job", job(spark));
                }
            }
        }
        terms.put("start of the context", median(starts));
        times.forEach(
                (name, all) -> say(String.format(Locale.ROOT, "%-38s %8.2f   %s%n", name, median(all), text(all))));
        double alone = median(of(times, "one process, 1 thread"));
        double one = median(of(times, "Spark, 1 executors, second job"));
        say(String.format(
                Locale.ROOT,
                "overhead of Spark with one core against one thread: %+.2f s, %+.1f %%%n",
                one - alone,
                100 * (one / alone - 1)));
        measureParts();
        model(bytes, alone, times);
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

    private double job(JavaSparkContext spark) throws IOException {
        Path output = work.resolve("together");
        delete(output);
        double seconds = seconds(() -> new ShardJob(spark, model.toString(), output.toString()).run(request()));
        delete(output);
        return seconds;
    }

    /** What Spark takes for a task that does nothing. */
    private void measureTasks(JavaSparkContext spark) throws IOException {
        List<Integer> numbers = IntStream.range(0, NULL_TASKS).boxed().toList();
        double all =
                seconds(() -> spark.parallelize(numbers, NULL_TASKS).map(i -> i).collect());
        terms.put("a task of Spark", all / NULL_TASKS);
    }

    /** What the driver does before and after the tasks, and what each process does once. */
    private void measureParts() throws IOException {
        List<Double> plans = new ArrayList<>();
        List<Double> rests = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            Path rest = Files.createDirectories(work.resolve("rest"));
            long start = System.nanoTime();
            try (CheckpointShards opened = CheckpointShards.of(
                    Quantize.CheckpointRequest.of(model, work.resolve("none"), Recipes.FP8_DYNAMIC), Job.defaults())) {
                plans.add((System.nanoTime() - start) / 1e9);
                rests.add(seconds(() -> opened.writeRest(rest)));
            }
            delete(rest);
        }
        terms.put("plan", median(plans));
        terms.put("index and configuration", median(rests));
    }

    private double predicted(long bytes, int files, int cores, double rate, double storage) {
        double waves = Math.ceil((double) files / cores);
        double perFile = (double) bytes / files;
        double busy = Math.min(cores, files);
        double speed = Math.min(rate, storage / busy);
        return 2 * term("plan") + waves * (perFile / speed + term("a task of Spark")) + term("index and configuration");
    }

    private double term(String name) {
        return terms.getOrDefault(name, 0.0);
    }

    private void model(long bytes, double alone, Map<String, List<Double>> times) {
        double one = median(of(times, "Spark, 1 executors, second job"));
        double fixed = 2 * term("plan") + term("index and configuration") + shards * term("a task of Spark");
        double rate = bytes / Math.max(1e-3, one - fixed);
        say(String.format(Locale.ROOT, "%nterms, measured:%n"));
        terms.forEach((name, value) -> say(String.format(Locale.ROOT, "  %-28s %8.4f s%n", name, value)));
        say(String.format(
                Locale.ROOT,
                "  %-28s %8.3f GB/s read, with what is written of it (one process: %.3f)%n",
                "a core",
                rate / GB,
                bytes / alone / GB));
        say(String.format(
                Locale.ROOT,
                "%nmodel: 2 plans (driver, executor) + waves x (file / core + task) + index; waves ="
                        + " ceil(files / cores)%n"));
        for (int executors = 1; executors <= 3; executors++) {
            double measured = median(of(times, "Spark, " + executors + " executors, second job"));
            int cores = Math.min(executors, Runtime.getRuntime().availableProcessors());
            double said = predicted(bytes, shards, cores, rate, Double.POSITIVE_INFINITY);
            say(String.format(
                    Locale.ROOT,
                    "  %d executors: measured %.2f, the model says %.2f with %d cores (%+.0f %%)%s%n",
                    executors,
                    measured,
                    said,
                    cores,
                    100 * (said / measured - 1),
                    executors == 1 ? "; its rate is from this run" : ""));
        }
        say(String.format(
                Locale.ROOT,
                "%na model of 1400 GB in 280 files, executors of 8 cores, the start of executors not"
                        + " counted;%nassumed, not measured: cores of this speed each, plans that grow with the"
                        + " files, a file system that gives all of them together%n"));
        say(String.format(Locale.ROOT, "  %9s %16s %16s %16s%n", "executors", "20 GB/s", "100 GB/s", "no limit"));
        double scale = 280.0 / shards;
        double plan = term("plan");
        terms.put("plan", plan * scale);
        for (int executors : List.of(1, 2, 5, 10, 20, 50, 100)) {
            say(String.format(Locale.ROOT, "  %9d", executors));
            for (double storage : new double[] {20 * GB, 100 * GB, Double.POSITIVE_INFINITY}) {
                say(String.format(
                        Locale.ROOT, " %14.0f s", predicted((long) (1400 * GB), 280, 8 * executors, rate, storage)));
            }
            say(String.format(Locale.ROOT, "%n"));
        }
        terms.put("plan", plan);
        say(String.format(
                Locale.ROOT,
                "  beyond 35 executors there are more cores than files: a file is the smallest share of the work%n"));
    }

    private void make(double gigabytes) throws IOException {
        Path done = model.resolve("config.json");
        if (Files.exists(done)) {
            return;
        }
        Files.createDirectories(model);
        Map<String, String> index = new LinkedHashMap<>();
        long rows = Math.max(1, Math.round(gigabytes * GB / shards / 4 / ROW / 2));
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
            SafetensorsWriter.write(model.resolve(file), specs, Map.of("format", "pt"), (spec, sink) -> {
                try (Arena arena = Arena.ofConfined()) {
                    MemorySegment chunk = arena.allocate(noise.length);
                    MemorySegment.copy(noise, 0, chunk, ValueLayout.JAVA_BYTE, 0, noise.length);
                    for (long from = 0; from < spec.byteSize(); from += noise.length) {
                        sink.write(chunk.asSlice(0, Math.min(noise.length, spec.byteSize() - from)));
                    }
                }
            });
        }
        new ShardIndex(index, OptionalLong.empty()).write(model.resolve(ShardIndex.FILE_NAME));
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
