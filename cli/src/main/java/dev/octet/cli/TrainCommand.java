package dev.octet.cli;

import dev.octet.pipeline.DeviceName;
import dev.octet.pipeline.ExampleConfig;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.Report;
import dev.octet.pipeline.Train;
import dev.octet.pipeline.run.RunFolder;
import dev.octet.trainer.RunManifest;
import dev.octet.trainer.dialect.Dialect;
import dev.octet.trainer.dialect.DialectFiles;
import dev.octet.trainer.reduction.RankSettings;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.apache.commons.cli.Option;

/** {@code octet train MODEL --config C.yaml -o RUN}: continues training. */
final class TrainCommand implements Command {
    private static final PathOption CONFIG =
            PathOption.read("config", "FILE", "what to do, as YAML; --example-config prints one to start from");
    private static final PathOption RUN = PathOption.outputIn(
            "RUN", "folder of the run: checkpoints, metrics.jsonl, tensorboard, run.json", RunFolder.WRITTEN);
    private static final PathOption REPORT = PathOption.written(
            "report", "PAGE.html", "at the end draw the run as one page; octet report RUN does it at any time");
    private static final Option RESUME = Flags.flag(
            "resume",
            "continue a run from its newest checkpoint: octet train --resume RUN, which knows its model and"
                    + " configuration");
    private static final PathOption MODEL = PathOption.read(
            "model",
            "MODEL",
            "with --resume RUN: where the model lies now (default: where it lay when the run started)");
    private static final Option SET = Flags.repeatable(
            "set", "KEY=VALUE", "another value for a key of the configuration, as optimizer.lr=1e-4; the run keeps it");
    private static final PathOption DEEPSPEED = PathOption.read(
            "deepspeed", "FILE", "a DeepSpeed JSON to follow; --config or --set give data, loss and steps");
    private static final PathOption ACCELERATE =
            PathOption.read("accelerate", "FILE", "the YAML of accelerate config to follow");
    static final PathOption HF_ARGS = PathOption.read(
            "hf-args", "FILE", "TrainingArguments as JSON to follow; they fill \"auto\" of a DeepSpeed JSON");
    static final Option DEEPSPEED_VERSION = Flags.value(
            "deepspeed-version",
            "X.Y.Z",
            "the DeepSpeed whose defaults count for a DeepSpeed JSON (default: the newest)");
    private static final Option FROM_STEP = Flags.value(
            "from-step", "N", "with --resume: continue from the checkpoint of step N (default: the newest)");
    private static final Option STEPS = Flags.value(
            "steps", "N", "do at most N steps now; the schedule stays that of the configuration (default: all)");
    private static final Option LOG_EVERY = Flags.value(
            "log-every",
            "N|Ns",
            "a line every N steps or N seconds (default: on a terminal one line that is rewritten; elsewhere every 3"
                    + " seconds at first, every minute after 20 minutes)");
    private static final Option SIMULATE = Flags.value(
            "simulate-ranks",
            "N",
            "one process plays N data-parallel ranks, with the rounding of their collectives"
                    + " (precision.gradient_reduction); the numbers of mpirun -n N");
    private static final Option EXAMPLE = Flags.value(
            "example-config",
            "TASK",
            "print a configuration to start from: " + String.join(", ", ExampleConfig.names()));
    private static final Option NO_MEMORY_CHECK = Flags.flag(
            "no-memory-check",
            "start a run that needs more than this machine's memory (default: it is refused, with the smallest change"
                    + " that fits)");
    static final Option DEVICE = Flags.value(
            "device", "cpu|cuda[:N]|reference", "where to compute (default: cpu); docs/cuda.md says which GPUs");

    @Override
    public String name() {
        return "train";
    }

    @Override
    public String summary() {
        return "Continue training a model; Ctrl-C ends it with a checkpoint.";
    }

    @Override
    public List<String> operands() {
        return List.of("MODEL");
    }

    @Override
    public List<Option> options() {
        return List.of(
                CONFIG,
                RUN,
                SET,
                DEEPSPEED,
                ACCELERATE,
                HF_ARGS,
                DEEPSPEED_VERSION,
                RESUME,
                MODEL,
                FROM_STEP,
                STEPS,
                LOG_EVERY,
                SIMULATE,
                DEVICE,
                NO_MEMORY_CHECK,
                REPORT,
                EXAMPLE,
                Flags.THREADS,
                Flags.DRY_RUN);
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet train --example-config lm > train.yaml",
                "octet train model.onnx --config train.yaml -o runs/first",
                "octet train model.onnx --config train.yaml -o runs/second --set optimizer.lr=5e-5",
                "octet train gpt2 --deepspeed ds.json --hf-args args.json --config data.yaml -o runs/third",
                "octet train --resume runs/first --steps 500",
                "mpirun -n 2 octet train model.onnx --config train.yaml -o runs/fourth",
                "torchrun --no-python --nproc-per-node 2 octet train model.onnx --config train.yaml -o runs/fourth",
                "octet train model.onnx --config train.yaml -o runs/fifth --simulate-ranks 64"
                        + " --set gradient_accumulation=64 --set precision.gradient_reduction=legacy");
    }

    @Override
    public void checkOperands(Arguments arguments) {
        if (!arguments.has(EXAMPLE)) {
            arguments.requireOperands();
        }
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        if (arguments.has(EXAMPLE)) {
            screen.out().print(example(arguments).text());
            return ExitCode.OK;
        }
        Train.Request request = request(arguments)
                .withSettings(arguments.texts(SET))
                .withSteps(arguments.integer(STEPS, Integer.MAX_VALUE, 1, Integer.MAX_VALUE));
        if (arguments.has(RESUME)) {
            request = request.resumingFrom(arguments.integer(FROM_STEP, 0, 1, Integer.MAX_VALUE));
        }
        if (arguments.has(NO_MEMORY_CHECK)) {
            request = request.withMemory(Train.MemoryCheck.OFF);
        }
        if (arguments.has(SIMULATE)) {
            request = request.withSimulatedRanks(arguments.integer(SIMULATE, 1, 1, RankSettings.MOST));
        }
        Train.Request all = request;
        DeviceName device = device(arguments);
        Optional<ExitCode> started = StartedRanks.run(arguments, screen);
        if (started.isPresent()) {
            return started.get();
        }
        return RankSession.join(arguments, screen)
                .run(rank -> run(all.withDevice(rank.device(device)), arguments, rank));
    }

    private static ExitCode run(Train.Request request, Arguments arguments, RankSession rank) throws IOException {
        Screen screen = rank.screen();
        Optional<LogCadence> lines = lines(arguments);
        Optional<Path> report = rank.isFirst() ? report(arguments) : Optional.empty();
        Job job = rank.job();
        if (arguments.has(Flags.DRY_RUN)) {
            Train.Planned planned = Train.plan(request, job, rank.world());
            TrainPage.of(planned.setup(), arguments, lines, screen).plan(planned);
            return ExitCode.OK;
        }
        try (TrainSession session = new TrainSession(setup -> TrainPage.of(setup, arguments, lines, screen))) {
            ExitCode code = session.end(Train.run(request, session, job, rank.world()));
            if (report.isPresent()) {
                List<Path> runs = List.of(request.folder());
                Report.Result _ = Report.run(new Report.Request(runs, report.get()), job);
                screen.report(arguments, report);
            }
            return code;
        }
    }

    /** Where the page is to lie; one that is there already is refused before any step. */
    private static Optional<Path> report(Arguments arguments) {
        Optional<Path> report = arguments.path(REPORT);
        if (report.filter(Files::exists).isPresent()) {
            throw arguments.usage(
                    "'" + report.get() + "' exists", "choose another name; octet report RUN --force replaces a page");
        }
        return report;
    }

    private static ExampleConfig example(Arguments arguments) {
        return arguments.choice(
                EXAMPLE, Flags.byName(ExampleConfig.all(), ExampleConfig::key), ExampleConfig.LANGUAGE_MODEL);
    }

    /** What to train: a model and a configuration; or a run, which knows both. */
    private static Train.Request request(Arguments arguments) throws IOException {
        if (arguments.has(FROM_STEP) && !arguments.has(RESUME)) {
            throw arguments.usage("--from-step without --resume", "add --resume");
        }
        boolean alone = arguments.has(RESUME) && !arguments.has(CONFIG);
        if (arguments.has(MODEL) && (!alone || arguments.has(RUN))) {
            throw arguments.usage(
                    "--model is for --resume RUN alone", "give the model as MODEL, or leave out --config and --output");
        }
        if (alone) {
            arguments.refuse(
                    List.of(DEEPSPEED, ACCELERATE, HF_ARGS, DEEPSPEED_VERSION),
                    "is for a new run",
                    "leave it out: the run keeps its configuration");
            return arguments.has(RUN)
                    ? Train.Request.ofRun(arguments.requiredPath(RUN), Optional.of(arguments.operand(0)))
                    : Train.Request.ofRun(arguments.operand(0), arguments.path(MODEL));
        }
        DialectFiles dialects = dialects(arguments);
        Path config = arguments
                .path(CONFIG)
                .or(() -> dialects.files().values().stream().findFirst())
                .orElseThrow(() -> arguments.usage("missing --config FILE", howToStart(arguments.operand(0))));
        return Train.Request.of(arguments.operand(0), config, arguments.requiredPath(RUN))
                .withDialects(dialects);
    }

    /** Configurations of other libraries that a command line gives. */
    private static DialectFiles dialects(Arguments arguments) {
        DialectFiles files = DialectFiles.NONE;
        if (arguments.has(DEEPSPEED)) {
            files = files.with(Dialect.DEEPSPEED, arguments.requiredPath(DEEPSPEED));
        }
        if (arguments.has(ACCELERATE)) {
            files = files.with(Dialect.ACCELERATE, arguments.requiredPath(ACCELERATE));
        }
        if (arguments.has(HF_ARGS)) {
            files = files.with(Dialect.TRANSFORMERS, arguments.requiredPath(HF_ARGS));
        }
        Optional<String> version = arguments.text(DEEPSPEED_VERSION);
        return version.isPresent() ? files.withVersion(version.get()) : files;
    }

    private static String howToStart(Path operand) {
        return Files.exists(operand.resolve(RunManifest.NAME))
                ? "octet train --resume " + operand + " goes on with the run in this folder"
                : "octet train --example-config lm prints one to start from";
    }

    private static Optional<LogCadence> lines(Arguments arguments) {
        Optional<String> text = arguments.text(LOG_EVERY);
        if (text.isPresent() && LogCadence.of(text.get()).isEmpty()) {
            throw arguments.usage(
                    "--log-every needs steps or seconds, got '" + text.get() + "'", "for example 100, or 30s");
        }
        return text.flatMap(LogCadence::of);
    }

    /** The device that a command line names. */
    static DeviceName device(Arguments arguments) {
        String name = arguments.text(DEVICE).orElse(DeviceName.CPU.text());
        if (!DeviceName.isValid(name)) {
            throw arguments.usage("unknown device '" + name + "'", "valid: cpu, cuda, cuda:N, reference");
        }
        return new DeviceName(name);
    }
}
