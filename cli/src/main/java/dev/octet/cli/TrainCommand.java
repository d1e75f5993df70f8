package dev.octet.cli;

import dev.octet.pipeline.DeviceName;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.TaskListener;
import dev.octet.pipeline.Train;
import dev.octet.pipeline.run.RunFolder;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.apache.commons.cli.Option;

/** {@code octet train MODEL --config C.yaml -o RUN}: continues training. */
final class TrainCommand implements Command {
    private static final PathOption CONFIG =
            PathOption.read("config", "FILE", "what to do, as YAML; docs/training.md has every key");
    private static final PathOption RUN = PathOption.outputIn(
            "RUN", "folder of the run: checkpoints, metrics.jsonl, tensorboard, run.json", RunFolder.WRITTEN);
    private static final Option RESUME = Flags.flag("resume", "continue from the newest checkpoint in RUN");
    private static final Option FROM_STEP = Flags.value(
            "from-step", "N", "with --resume: continue from the checkpoint of step N (default: the newest)");
    private static final Option STEPS = Flags.value(
            "steps", "N", "do at most N steps now; the schedule stays that of the configuration (default: all)");
    static final Option DEVICE = Flags.value("device", "cpu|cuda[:N]|reference", "where to compute (default: cpu); cuda has run on no GPU yet, see docs/cuda.md");

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
        return List.of(CONFIG, RUN, RESUME, FROM_STEP, STEPS, DEVICE, Flags.THREADS, Flags.DRY_RUN);
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet train model.onnx --config train.yaml -o runs/first",
                "octet train model.onnx --config train.yaml -o runs/first --resume --steps 500");
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        Path config = arguments
                .path(CONFIG)
                .orElseThrow(
                        () -> arguments.usage("missing --config FILE", "docs/training.md shows one to start from"));
        Path folder = arguments.requiredPath(RUN);
        if (arguments.has(FROM_STEP) && !arguments.has(RESUME)) {
            throw arguments.usage("--from-step without --resume", "add --resume");
        }
        Train.Request request = Train.Request.of(arguments.operand(0), config, folder)
                .withSteps(arguments.integer(STEPS, Integer.MAX_VALUE, 1, Integer.MAX_VALUE))
                .withDevice(device(arguments));
        if (arguments.has(RESUME)) {
            request = request.resumingFrom(arguments.integer(FROM_STEP, 0, 1, Integer.MAX_VALUE));
        }
        Job job = arguments.job(TaskListener.NONE);
        if (arguments.has(Flags.DRY_RUN)) {
            Train.Planned planned = Train.plan(request, job);
            TrainPage.of(planned.setup(), arguments, screen).plan(planned.plan(), planned.firstStep());
            return ExitCode.OK;
        }
        try (TrainSession session = new TrainSession(setup -> TrainPage.of(setup, arguments, screen))) {
            return session.end(Train.run(request, session, job));
        }
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
