package dev.octet.spark;

import dev.octet.converter.compare.ModelDiff;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.pipeline.CheckpointOutcome;
import dev.octet.quant.statistics.Statistics;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.AccessDeniedException;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;

/** {@code spark-submit --class dev.octet.spark.Submit ... octet-spark.jar quantize MODEL -o OUTPUT}: verbs of {@code octet} on a cluster. */
public final class Submit {
    private static final int USAGE = 2;
    private static final int INPUT = 3;
    private static final int IO = 4;
    private static final int UNAVAILABLE = 5;

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
     * @return the exit code: 0 for success, as {@code octet} has them
     */
    static int run(List<String> arguments, PrintStream out, PrintStream err) {
        try {
            SubmittedVerb options = SubmittedVerb.parse(arguments);
            SparkConf conf = new SparkConf();
            if (!conf.contains("spark.app.name")) {
                conf.setAppName("octet " + options.verb());
            }
            try (JavaSparkContext spark = new JavaSparkContext(conf)) {
                out.print(run(options, arguments, spark));
            }
            return 0;
        } catch (OctetException e) {
            tell(err, e.what(), e.where(), e.fix());
            return switch (e) {
                case InvalidOptionException _ -> USAGE;
                case MalformedModelException _, UnsupportedModelException _, InvalidDataException _ -> INPUT;
                case UnavailableException _ -> UNAVAILABLE;
            };
        } catch (AccessDeniedException e) {
            tell(
                    err,
                    "permission denied: " + Optional.ofNullable(e.getReason()).orElse("the file system refuses it"),
                    String.valueOf(e.getFile()),
                    "give the user of driver and executors the right, or choose another place");
            return IO;
        } catch (IOException e) {
            tell(
                    err,
                    String.valueOf(e.getMessage()),
                    "input or output",
                    "mend it and submit again: it goes on where it stopped");
            return IO;
        }
    }

    private static void tell(PrintStream err, String what, String where, String fix) {
        err.println("error  " + what);
        err.println("  where: " + where);
        err.println("  fix:   " + fix);
    }

    /** What is printed about a verb that was run. */
    static String run(SubmittedVerb options, List<String> arguments, JavaSparkContext spark) throws IOException {
        return switch (options.verb()) {
            case "calibrate" -> calibrate(options, spark);
            case "diff" -> diff(options, spark);
            default -> shards(options, arguments, spark);
        };
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
