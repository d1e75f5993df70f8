package dev.octet.spark;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.OctetException;
import dev.octet.pipeline.DeviceName;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.Train;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankEnvironment;
import dev.octet.trainer.collective.RankProcesses;
import dev.octet.trainer.dialect.Dialect;
import dev.octet.trainer.dialect.DialectFiles;
import dev.octet.trainer.hook.RunControl;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.hook.RunPlan;
import dev.octet.trainer.hook.StepReport;
import dev.octet.trainer.hook.TrainingHook;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/** A rank that an executor starts, in a process of its own: {@code train} with the options of {@link SubmittedVerb}. The first rank speaks for all. */
final class TrainingRank {
    private static final int BUG = 70;

    private TrainingRank() {}

    /** Words: threads of a rank that does not say itself, {@code train}, its arguments. */
    public static void main(String... words) {
        Map<String, String> variables = System.getenv();
        int code;
        try {
            Optional<RankEnvironment> environment = RankEnvironment.of(variables);
            Collectives world =
                    environment.isPresent() ? RankProcesses.join(environment.get(), variables) : Collectives.alone();
            code = run(Arrays.asList(words), environment, world);
        } catch (OctetException e) {
            code = Submit.told(e, System.err);
        }
        System.exit(code);
    }

    private static int run(List<String> words, Optional<RankEnvironment> environment, Collectives world) {
        int code;
        try {
            SubmittedVerb options = SubmittedVerb.parse(words.subList(1, words.size()));
            int threads = options.number("threads", Integer.parseInt(words.getFirst()));
            Train.Request request = request(options);
            DeviceName device = request.device()
                    .ofProcess(environment.map(RankEnvironment::local).orElse(0));
            Job job = Job.named("octet train on Spark").withThreads(threads);
            RunEnd end = Train.run(
                    request.withDevice(world.isAlone() ? request.device() : device),
                    setup -> world.isFirst() ? List.of(new Said(setup, System.out)) : List.of(),
                    job,
                    world);
            code = switch (end.reason()) {
                case COMPLETED, INTERRUPTED -> 0;
                case DIVERGED, NON_FINITE, FAILED -> Submit.CHECK_FAILED;
            };
            world.close();
        } catch (IOException | OctetException e) {
            tellWhose(world);
            code = Submit.told(e, System.err);
            world.abandon(code);
        } catch (RuntimeException | Error e) {
            tellWhose(world);
            e.printStackTrace(System.err);
            code = BUG;
            world.abandon(code);
        }
        return code;
    }

    private static void tellWhose(Collectives world) {
        if (!world.isAlone()) {
            System.err.println("octet: " + world.name() + " failed, and ends the others:");
        }
    }

    /** As the command line of {@code octet train} makes it. */
    private static Train.Request request(SubmittedVerb options) throws IOException {
        Path operand = Path.of(options.operands(1, "MODEL").getFirst());
        DialectFiles dialects = dialects(options);
        Optional<Path> config = options.text("config")
                .map(Path::of)
                .or(() -> dialects.files().values().stream().findFirst());
        Train.Request request = options.has("resume") && !options.has("config")
                ? Train.Request.ofRun(operand, options.text("model").map(Path::of))
                : Train.Request.of(
                                operand,
                                config.orElseGet(() -> Path.of(options.required("config"))),
                                Path.of(options.required("output")))
                        .withDialects(dialects);
        if (options.has("resume")) {
            request = request.resumingFrom(options.has("from-step") ? options.number("from-step", 1) : 0);
        }
        String device = options.text("device").orElse(DeviceName.CPU.text());
        if (!DeviceName.isValid(device)) {
            throw new InvalidOptionException(
                    "unknown device '" + device + "'", "option --device", "valid: cpu, cuda, cuda:N, reference");
        }
        if (options.has("no-memory-check")) {
            request = request.withMemory(Train.MemoryCheck.OFF);
        }
        return request.withSettings(options.texts("set"))
                .withSteps(options.number("steps", Integer.MAX_VALUE))
                .withDevice(new DeviceName(device));
    }

    private static DialectFiles dialects(SubmittedVerb options) {
        DialectFiles files = DialectFiles.NONE;
        Map<String, Dialect> names = Map.of(
                "deepspeed", Dialect.DEEPSPEED, "accelerate", Dialect.ACCELERATE, "hf-args", Dialect.TRANSFORMERS);
        for (Map.Entry<String, Dialect> name : names.entrySet()) {
            Optional<String> file = options.text(name.getKey());
            if (file.isPresent()) {
                files = files.with(name.getValue(), Path.of(file.get()));
            }
        }
        Optional<String> version = options.text("deepspeed-version");
        return version.isPresent() ? files.withVersion(version.get()) : files;
    }

    /** A line every few seconds, which an executor's log has, and one at the end, which the driver prints. */
    private static final class Said implements TrainingHook {
        private static final long PAUSE = TimeUnit.SECONDS.toNanos(10);

        private final Train.Setup setup;
        private final PrintStream out;
        private long last;
        private long said;

        Said(Train.Setup setup, PrintStream out) {
            this.setup = setup;
            this.out = out;
        }

        @Override
        public void runStarted(RunStart start, RunControl control) {
            RunPlan plan = start.plan();
            setup.notes().forEach(n -> out.println("note  " + n));
            plan.notes().forEach(n -> out.println("note  " + n));
            last = start.lastStep();
            said = System.nanoTime();
        }

        @Override
        public void afterStep(StepReport report) {
            if (System.nanoTime() - said > PAUSE) {
                said = System.nanoTime();
                out.printf(Locale.ROOT, "step %,d of %,d, loss %.4f%n", report.step(), last, report.loss());
            }
        }

        @Override
        public void evaluated(EvaluationReport report) {
            out.printf(Locale.ROOT, "evaluation after step %,d: loss %.4f%n", report.step(), report.loss());
        }

        @Override
        public void runEnded(RunEnd end) {
            out.printf(
                    Locale.ROOT,
                    "%s at step %,d%s; run: %s%n",
                    end.reason().name().toLowerCase(Locale.ROOT).replace('_', ' '),
                    end.step(),
                    end.message().isEmpty() ? "" : ": " + end.message(),
                    setup.request().folder());
        }
    }
}
