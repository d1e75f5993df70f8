package dev.octet.spark;

import dev.octet.converter.compare.ModelDiff;
import dev.octet.converter.evaluate.LayerComparison;
import dev.octet.converter.verify.Consumer;
import dev.octet.converter.verify.Finding;
import dev.octet.converter.verify.Verification;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.pipeline.CheckpointOutcome;
import dev.octet.pipeline.Evaluate;
import dev.octet.pipeline.Gates;
import dev.octet.pipeline.Measures;
import dev.octet.quant.statistics.Statistics;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.AccessDeniedException;
import java.util.Comparator;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;

/** {@code spark-submit --class dev.octet.spark.Submit ... octet-spark.jar quantize MODEL -o OUTPUT}: verbs of {@code octet} on a cluster. */
public final class Submit {
    static final int CHECK_FAILED = 1;
    private static final int USAGE = 2;
    private static final int INPUT = 3;
    private static final int IO = 4;
    private static final int UNAVAILABLE = 5;

    /** How often Spark looks for slots of a barrier stage before it gives up, at every 15 s: as long as executors need to come. */
    private static final String BARRIER_LOOKS = "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures";

    private Submit() {}

    /** Runs a verb and ends the process with one of Octet's exit codes if it fails. */
    public static void main(String[] arguments) {
        int code = run(List.of(arguments), System.out, System.err);
        if (code != 0) {
            System.exit(code);
        }
    }

    /**
     * Runs a verb.
     *
     * @return the exit code, as {@code octet} has them: 0 for success, 1 when a check failed
     */
    static int run(List<String> arguments, PrintStream out, PrintStream err) {
        try {
            SubmittedVerb options = SubmittedVerb.parse(arguments);
            SparkConf conf = new SparkConf();
            conf.setIfMissing("spark.app.name", "octet " + options.verb());
            conf.setIfMissing(BARRIER_LOOKS, "4");
            try (JavaSparkContext spark = new JavaSparkContext(conf)) {
                Answer answer = run(options, arguments, spark);
                out.print(answer.page());
                err.print(answer.errors());
                return answer.code();
            }
        } catch (OctetException | IOException e) {
            return told(e, err);
        }
    }

    /**
     * Tells why something ended, in three lines.
     *
     * @return the exit code that goes with it
     * @throws RuntimeException what Octet did not foresee
     */
    static int told(Exception thrown, PrintStream err) {
        return switch (thrown) {
            case OctetException e -> {
                tell(err, e.what(), e.where(), e.fix());
                yield switch (e) {
                    case InvalidOptionException _ -> USAGE;
                    case MalformedModelException _, UnsupportedModelException _, InvalidDataException _ -> INPUT;
                    case UnavailableException _ -> UNAVAILABLE;
                };
            }
            case AccessDeniedException e -> {
                tell(
                        err,
                        "permission denied: "
                                + Optional.ofNullable(e.getReason()).orElse("the file system refuses it"),
                        String.valueOf(e.getFile()),
                        "give the user of driver and executors the right, or choose another place");
                yield IO;
            }
            case IOException e -> {
                tell(
                        err,
                        String.valueOf(e.getMessage()),
                        "input or output",
                        "mend it and submit again: it goes on where it stopped");
                yield IO;
            }
            case RuntimeException e -> throw e;
            default -> throw new IllegalStateException(thrown);
        };
    }

    private static void tell(PrintStream err, String what, String where, String fix) {
        err.println("error  " + what);
        err.println("  where: " + where);
        err.println("  fix:   " + fix);
    }

    /**
     * How a verb ended.
     *
     * @param page what is printed
     * @param errors what is printed as such
     * @param code the exit code
     */
    private record Answer(String page, String errors, int code) {
        static Answer of(String page) {
            return new Answer(page, "", 0);
        }

        static Answer of(String page, boolean passed) {
            return new Answer(page, "", passed ? 0 : CHECK_FAILED);
        }
    }

    private static Answer run(SubmittedVerb options, List<String> arguments, JavaSparkContext spark)
            throws IOException {
        return switch (options.verb()) {
            case "calibrate" -> Answer.of(calibrate(options, spark));
            case "diff" -> Answer.of(diff(options, spark));
            case "verify" -> verify(options, spark);
            case "evaluate" -> evaluate(options, spark);
            case "train" -> train(arguments.subList(1, arguments.size()), spark);
            default -> Answer.of(shards(options, arguments, spark));
        };
    }

    private static Answer verify(SubmittedVerb options, JavaSparkContext spark) throws IOException {
        VerifyJob job = new VerifyJob(spark, options.operands(1, "MODEL").getFirst()).withDeep(options.has("deep"));
        Optional<String> original = options.text("against");
        if (original.isPresent()) {
            job = job.withOriginal(original.get());
        }
        Map<String, Consumer> consumers = new LinkedHashMap<>();
        Consumer.OF_CHECKPOINTS.forEach(c -> consumers.put(c.text(), c));
        Set<Consumer> asked = EnumSet.noneOf(Consumer.class);
        options.list("for").forEach(name -> asked.add(SubmittedVerb.choice("for", name, consumers)));
        List<Integer> devices = options.list("tp").stream()
                .map(n -> SubmittedVerb.number("tp", n, 1))
                .toList();
        Verification found =
                job.withConsumers(asked).withTensorParallel(devices).run();
        StringBuilder page = new StringBuilder();
        for (Finding finding : found.findings()) {
            page.append(String.format(
                    "%s  %s%s%n  what:  %s%n  where: %s%n  fix:   %s%n",
                    finding.severity().text(),
                    finding.rule(),
                    finding.count() > 1 ? " x" + finding.count() : "",
                    finding.what(),
                    finding.places().isEmpty()
                            ? found.model()
                            : finding.places().getFirst(),
                    finding.fix()));
        }
        found.notes().forEach(n -> page.append("note  ").append(n).append('\n'));
        page.append(String.format(
                Locale.ROOT,
                "%d errors, %d warnings, %d advice; %d rules for %s%n",
                found.errors(),
                found.warnings(),
                found.advice(),
                found.rulesRun().size(),
                String.join(", ", found.consumers())));
        return Answer.of(page.toString(), found.passed());
    }

    private static Answer evaluate(SubmittedVerb options, JavaSparkContext spark) throws IOException {
        List<String> models = options.operands(2, "REFERENCE CANDIDATE");
        EvaluationJob job = new EvaluationJob(spark, models.getFirst(), models.getLast(), options.required("data"));
        job = job.withMaxLength(options.number("max-length", job.maxLength()))
                .withGates(Gates.parse(options.texts("gate"), Measures.NAMES, "cosine=0.997"));
        Optional<String> tokenizer = options.text("tokenizer");
        if (tokenizer.isPresent()) {
            job = job.withTokenizer(tokenizer.get());
        }
        Set<Evaluate.Part> parts = EnumSet.noneOf(Evaluate.Part.class);
        if (!options.has("no-layers")) {
            parts.add(Evaluate.Part.LAYERS);
        }
        if (options.has("perplexity")) {
            parts.add(Evaluate.Part.PERPLEXITY);
        }
        Evaluate.Result result = job.withParts(parts).run();
        StringBuilder page = new StringBuilder();
        page.append(String.format(
                Locale.ROOT,
                "%,d samples of %s in %.1f s%n",
                result.comparison().samples(),
                result.data(),
                result.seconds()));
        Measures measures = new Measures(result.comparison());
        for (String name : Measures.NAMES) {
            Gates.Measure measure = measures.of(name);
            if (!Double.isNaN(measure.value())) {
                page.append(String.format(
                        Locale.ROOT,
                        "%s %.5f%s%n",
                        name,
                        measure.value(),
                        measure.of().isEmpty() ? "" : " (" + measure.of() + ")"));
            }
        }
        result.layers().stream()
                .min(Comparator.comparingDouble(LayerComparison::sqnrDb))
                .ifPresent(l -> page.append(
                        String.format(Locale.ROOT, "worst layer: %.1f dB (%s)%n", l.sqnrDb(), l.reference())));
        result.notes().forEach(n -> page.append("note  ").append(n).append('\n'));
        for (Gates.Result gate : result.gates()) {
            page.append(String.format(
                    Locale.ROOT,
                    "gate %s: %.5f, wanted %s %s: %s%n",
                    gate.measure(),
                    gate.value(),
                    Gates.isAtMost(gate.measure()) ? "at most" : "at least",
                    gate.limit(),
                    gate.passed() ? "passed" : "FAILED"));
        }
        return Answer.of(page.toString(), result.gates().stream().allMatch(Gates.Result::passed));
    }

    private static Answer train(List<String> arguments, JavaSparkContext spark) throws IOException {
        String ranks = spark.getConf().get(TrainJob.RANKS, "");
        if (!ranks.matches("[1-9]\\d{0,5}")) {
            throw new InvalidOptionException(
                    ranks.isEmpty() ? "it is not said how many ranks train" : "'" + ranks + "' is no number of ranks",
                    "Spark's setting " + TrainJob.RANKS,
                    "give it: --conf " + TrainJob.RANKS + "=4");
        }
        TrainJob.Ended ended = new TrainJob(spark, arguments, Integer.parseInt(ranks)).run();
        return new Answer(lines(ended.printed()), ended.code() == 0 ? "" : lines(ended.errors()), ended.code());
    }

    private static String lines(List<String> lines) {
        return lines.stream().map(l -> l + "\n").collect(Collectors.joining());
    }

    private static String shards(SubmittedVerb options, List<String> arguments, JavaSparkContext spark)
            throws IOException {
        String model = options.operands(1, "MODEL").getFirst();
        ShardJob job = new ShardJob(spark, model, options.required("output"), options.has("force"));
        ShardRequest request = new SubmittedRequest(
                arguments,
                options.text("statistics").map(f -> brought(f, spark)).orElse(""));
        return page(options.has("dry-run") ? job.plan(request) : job.run(request));
    }

    private static String calibrate(SubmittedVerb options, JavaSparkContext spark) throws IOException {
        String model = options.operands(1, "MODEL").getFirst();
        CalibrationJob job = new CalibrationJob(spark, model, options.required("data"));
        job = job.withMaxLength(options.number("max-length", job.maxLength()));
        Optional<String> tokenizer = options.text("tokenizer");
        if (tokenizer.isPresent()) {
            job = job.withTokenizer(tokenizer.get());
        }
        String output = options.required("output");
        Statistics statistics = (options.has("force") ? job.overwriting() : job).run(output);
        return String.format(
                Locale.ROOT,
                "wrote %s: %,d tensors over %,d samples%n",
                output,
                statistics.tensors().size(),
                statistics.samplesDone());
    }

    private static String diff(SubmittedVerb options, JavaSparkContext spark) throws IOException {
        List<String> models = options.operands(2, "A B");
        ModelDiff diff = new DiffJob(spark, models.getFirst(), models.getLast(), options.text("only")).run();
        ModelDiff.Summary summary = diff.summary();
        StringBuilder page = new StringBuilder(String.format(
                Locale.ROOT,
                "%,d tensors, %,d elements, %,d differ; SQNR %.2f dB, cosine %.7f; worst tensor %.2f dB, %.7f%n",
                summary.pairs(),
                summary.elements(),
                summary.differing(),
                summary.sqnrDb(),
                summary.cosine(),
                summary.sqnrDbMin(),
                summary.cosineMin()));
        diff.uncomparable()
                .forEach(u -> page.append("cannot be compared: ")
                        .append(u.a().isEmpty() ? u.b() : u.a())
                        .append(": ")
                        .append(u.reason())
                        .append('\n'));
        diff.onlyA().forEach(n -> page.append("only in A: ").append(n).append('\n'));
        diff.onlyB().forEach(n -> page.append("only in B: ").append(n).append('\n'));
        diff.notes().forEach(n -> page.append("note  ").append(n).append('\n'));
        return page.toString();
    }

    /** The name under which each machine has a file. */
    private static String brought(String file, JavaSparkContext spark) {
        spark.addFile(file);
        return file.substring(file.lastIndexOf('/') + 1);
    }

    private static String page(CheckpointOutcome outcome) {
        StringBuilder page = new StringBuilder();
        page.append(String.format(
                Locale.ROOT,
                "%s%s: %,d weights, %,d bytes -> %,d bytes%s%n",
                outcome.dryRun() ? "would write " : "wrote ",
                outcome.output(),
                outcome.weights().size(),
                outcome.sourceBytes(),
                outcome.targetBytes(),
                outcome.dryRun() ? "" : String.format(Locale.ROOT, " in %.1f s", outcome.seconds())));
        if (outcome.resumedFiles() > 0) {
            page.append(outcome.resumedFiles()).append(" files were finished by an earlier run\n");
        }
        outcome.exactness()
                .forEach((label, count) -> page.append("  ")
                        .append(label)
                        .append(": ")
                        .append(count)
                        .append('\n'));
        outcome.notes().forEach(n -> page.append("note  ").append(n).append('\n'));
        return page.toString();
    }
}
