package dev.octet.spark;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnavailableException;
import dev.octet.spark.hadoop.HadoopPaths;
import dev.octet.trainer.launch.PlacedRanks;
import dev.octet.trainer.launch.RankCommand;
import dev.octet.trainer.launch.RankOutput;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.net.URISyntaxException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.stream.IntStream;
import org.apache.commons.cli.Option;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.BarrierTaskContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.jspecify.annotations.Nullable;
import scala.Function1;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;

/**
 * train on Spark: a barrier stage, whose tasks start together, with a task for each rank. Executors run {@code mpirun}'s daemons, which start the ranks as processes of their
 * own; MPI joins them.
 *
 * <pre>{@code
 * TrainJob.Ended ended = new TrainJob(spark, List.of("model.onnx", "--config", "train.yaml", "-o", "runs/four"), 4).run();
 * }</pre>
 *
 * @param arguments what stands after {@code octet train}, as far as {@link SubmittedVerb#VERBS} has it; files that all executors and the driver see
 * @param ranks processes that train together
 */
public record TrainJob(JavaSparkContext spark, List<String> arguments, int ranks) {
    /** Spark's setting for the number of ranks, where {@code spark-submit} starts the job. */
    public static final String RANKS = "spark.octet.ranks";

    /** Options whose values are names of files. */
    private static final Set<String> FILES = Set.of("output", "config", "deepspeed", "accelerate", "hf-args", "model");

    /** What the driver gets of what ranks print. */
    private static final int LINES = 40;

    /** Spark's numbers of what it says: too few slots; dynamic allocation. */
    private static final String TOO_FEW_SLOTS = "SPARK-24819";

    private static final String DYNAMIC = "SPARK-24942";

    /** What Spark says of a barrier stage that a task or its executor has left; it does not repeat one whose tasks give results. */
    private static final String BROKEN = "failed barrier ResultStage";

    private static final String LOST = "ExecutorLostFailure";

    public TrainJob {
        arguments = List.copyOf(arguments);
        if (ranks < 1) {
            throw new IllegalArgumentException(ranks + " ranks");
        }
    }

    /**
     * How the ranks ended.
     *
     * @param code exit code, as {@code octet train} has them: 0 for success; another one may be that of a rank that was killed
     * @param printed the last lines of the first rank
     * @param errors the last lines that ranks and mpirun wrote to standard error
     */
    public record Ended(int code, List<String> printed, List<String> errors) implements Serializable {}

    /**
     * Trains.
     *
     * @throws OctetException when the arguments are wrong, executors have no MPI, Spark has too few slots, or an executor is gone
     * @throws IOException when the job fails otherwise
     */
    public Ended run() throws IOException {
        Task task = new Task(words(), spark.getConf().getInt("spark.task.cpus", 1));
        List<Integer> numbers = IntStream.range(0, ranks).boxed().toList();
        spark.setJobGroup(UUID.randomUUID().toString(), "training by " + ranks + " ranks", true);
        try {
            List<Answer> answers = spark.parallelize(numbers, ranks)
                    .rdd()
                    .barrier()
                    .mapPartitions(task, false, ClassTag.apply(Answer.class))
                    .toJavaRDD()
                    .collect();
            for (Answer answer : answers) {
                if (answer.refused() != null) {
                    throw answer.refused();
                }
            }
            return Objects.requireNonNull(answers.getFirst().ended());
        } catch (Exception e) { // Scala's methods declare none and throw any
            throw failure(e);
        } finally {
            spark.clearJobGroup();
        }
    }

    private IOException failure(Exception e) {
        for (Throwable cause = e; cause != null; cause = cause.getCause()) {
            String said = String.valueOf(cause.getMessage());
            if (said.contains(TOO_FEW_SLOTS)) {
                throw new UnavailableException(
                        ranks + " ranks take " + ranks + " tasks at once, and Spark has fewer slots",
                        RANKS + "=" + ranks + "; spark.executor.cores, spark.executor.instances, spark.task.cpus",
                        "give it more or larger executors, or take fewer ranks",
                        e);
            }
            if (said.contains(BROKEN) && said.contains(LOST)) {
                throw lost(e);
            }
            if (said.contains(DYNAMIC)) {
                throw new UnavailableException(
                        "ranks must start together, which Spark does not do with dynamic allocation",
                        "spark.dynamicAllocation.enabled=true",
                        "switch it off, and say how many executors there are: spark.executor.instances",
                        e);
            }
        }
        return JobFailure.of(e);
    }

    private static UnavailableException lost(@Nullable Exception cause) {
        return new UnavailableException(
                "an executor was lost, and with it its ranks; the others were ended",
                "the barrier stage",
                "see what ended it: ranks take memory besides the executor's heap (spark.executor.memoryOverhead);"
                        + " train --resume goes on from the last checkpoint",
                cause);
    }

    /** The arguments with names of files that hold on any machine. */
    private List<String> words() throws IOException {
        List<String> line = new ArrayList<>(List.of("train"));
        line.addAll(arguments);
        SubmittedVerb options = SubmittedVerb.parse(line);
        Configuration hadoop = spark.hadoopConfiguration();
        List<String> words = new ArrayList<>();
        for (Option option : options.line().getOptions()) {
            String name = option.getLongOpt();
            words.add("--" + name);
            if (option.hasArg()) {
                words.add(FILES.contains(name) ? shared(option.getValue(), hadoop) : option.getValue());
            }
        }
        String operand =
                options.operands(1, options.has("resume") ? "RUN" : "MODEL").getFirst();
        words.add(shared(operand, hadoop));
        return words;
    }

    private static String shared(String name, Configuration hadoop) throws IOException {
        org.apache.hadoop.fs.Path path = HadoopPaths.absolute(name, hadoop);
        if (!HadoopPaths.isLocal(path.toUri())) {
            throw new InvalidOptionException(
                    "ranks read and write files of their machines, and this is not one",
                    path.toString(),
                    "put it into a folder that all machines see, and name it file:/...");
        }
        return path.toUri().getPath();
    }

    /**
     * What a task says.
     *
     * @param ended of the first relay
     * @param refused why the ranks could not run, with which every attempt would end
     */
    private record Answer(@Nullable Ended ended, @Nullable OctetException refused) implements Serializable {}

    /**
     * A task: one rank.
     *
     * @param threads of a rank, unless the words say
     */
    private record Task(List<String> words, int threads)
            implements Function1<Iterator<Integer>, Iterator<Answer>>, Serializable {
        Task {
            words = List.copyOf(words);
        }

        @Override
        public Iterator<Answer> apply(Iterator<Integer> number) {
            BarrierTaskContext context = BarrierTaskContext.get();
            Answer answer = context.stageAttemptNumber() > 0 ? new Answer(null, lost(null)) : ranks(context);
            return CollectionConverters.asScala(List.of(answer).iterator());
        }

        private Answer ranks(BarrierTaskContext context) {
            BarrierRendezvous tasks = BarrierRendezvous.of(context);
            if (!tasks.isRelay()) {
                tasks.standBy();
                return new Answer(null, null);
            }
            LastLines printed = new LastLines(new FileOutputStream(FileDescriptor.out), LINES);
            LastLines errors = new LastLines(new FileOutputStream(FileDescriptor.err), LINES);
            Answer answer;
            try {
                int code = PlacedRanks.run(
                        tasks, RankCommand.of(command(), System.getenv()), new RankOutput(printed, errors));
                answer = new Answer(new Ended(code, printed.lines(), errors.lines()), null);
            } catch (OctetException e) {
                answer = new Answer(null, e);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            } catch (InterruptedException e) { // the job was cancelled, or a task of another executor failed
                Thread.currentThread().interrupt();
                throw new IllegalStateException("the task was killed", e);
            }
            tasks.standBy();
            return answer;
        }

        /** A rank on this executor's Java, with the classes of its task; options of the JVM as the launcher of {@code octet train} gives them. */
        private List<String> command() {
            List<String> command = new ArrayList<>(List.of(
                    Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                    "--add-modules",
                    "jdk.incubator.vector",
                    "--enable-native-access=ALL-UNNAMED",
                    "--sun-misc-unsafe-memory-access=allow",
                    "-XX:+UseSerialGC",
                    "-Xmn8m"));
            String own = System.getenv().getOrDefault("OCTET_JAVA_OPTIONS", "").strip();
            if (!own.isEmpty()) {
                command.addAll(Arrays.asList(own.split("\\s+", -1)));
            }
            command.addAll(List.of("-cp", classPath(), TrainingRank.class.getName(), String.valueOf(threads), "train"));
            command.addAll(words);
            return command;
        }

        /** Jars that came with the job, before those of Spark. */
        private static String classPath() {
            Set<String> entries = new LinkedHashSet<>();
            for (ClassLoader loader = Thread.currentThread().getContextClassLoader();
                    loader != null;
                    loader = loader.getParent()) {
                if (loader instanceof URLClassLoader urls) {
                    for (URL url : urls.getURLs()) {
                        if (url.getProtocol().equals("file")) {
                            entries.add(file(url));
                        }
                    }
                }
            }
            entries.addAll(Arrays.asList(System.getProperty("java.class.path").split(java.io.File.pathSeparator, -1)));
            return String.join(java.io.File.pathSeparator, entries);
        }

        private static String file(URL url) {
            try {
                return Path.of(url.toURI()).toString();
            } catch (URISyntaxException e) {
                throw new IllegalStateException("Spark's class loader has an entry that is no file: " + url, e);
            }
        }
    }
}
