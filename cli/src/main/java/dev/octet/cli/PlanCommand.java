package dev.octet.cli;

import dev.octet.pipeline.ConversionPlan;
import dev.octet.pipeline.Quantize;
import dev.octet.pipeline.TaskListener;
import dev.octet.pipeline.TrainingPlan;
import dev.octet.pipeline.plan.Accelerator;
import dev.octet.pipeline.plan.Accelerator.ProductType;
import dev.octet.pipeline.plan.Hardware;
import dev.octet.pipeline.plan.MeshRules;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.commons.cli.Option;

/** {@code octet plan MODEL}: what training takes, or quantising, before it starts. */
final class PlanCommand implements Command {
    private static final PathOption CONFIG =
            PathOption.read("config", "FILE", "of the run, as train takes it (default: Adam, Linears in --precision)");
    private static final Option SET =
            Flags.repeatable("set", "KEY=VALUE", "another value for a key of the configuration, as batch_size=4");
    private static final Option HARDWARE = Flags.value(
            "hardware",
            "NxNAME|this",
            "what to train on, as 64xH100 (default: this machine); names: " + Accelerator.names());
    private static final Option MESH = Flags.value(
            "mesh",
            "KEY=N,...",
            "what of the mesh is given: " + String.join(", ", MeshRules.KEYS)
                    + ", recompute=all|none (default: all are tried)");
    private static final Option SEQUENCE = Flags.value(
            "sequence",
            "N",
            "tokens of a sample (default: of the configuration; else the model's context, 8192 at most)");
    private static final Option BATCH = Flags.value(
            "batch",
            "N",
            "samples of a step on all devices (default: batch_size x gradient_accumulation of the configuration; else"
                    + " about 4 million tokens)");
    private static final Option PRECISION =
            Flags.value("precision", "bf16|fp8|fp32", "of Linears, without a configuration (default: bf16)");
    private static final Option TOKENS = Flags.value(
            "tokens", "N", "of the whole training, as 15e12, for its days (default: the steps of the configuration)");
    private static final Option PRICE =
            Flags.value("price", "N", "of a device for an hour, for the cost of the training, or of a step");

    private static final Option RECIPE = ChoiceOption.of(
            "recipe",
            "NAME",
            CheckpointFlags.RECIPES.keySet(),
            "plan quantising the checkpoint on this machine instead: " + Recipes.names(Recipes.CHECKPOINT)
                    + " (default: none, training is planned)");
    private static final Option TARGET = ChoiceOption.of(
            "target",
            "NAME",
            CheckpointFlags.TARGETS.keySet(),
            "with --recipe: the layout, as quantize takes it (default: as there)");
    private static final PathOption STATISTICS =
            PathOption.read("statistics", "FILE", "with --recipe: scales of inputs, as quantize takes them");
    /** No file is written there: it is asked how much room there is. */
    private static final Option OUTPUT = Option.builder("o")
            .longOpt("output")
            .hasArg()
            .argName("FOLDER")
            .desc("with --recipe: where the result would be written, for the room there (default: beside the model)")
            .get();

    /** What is asked of training alone. */
    private static final List<Option> OF_TRAINING =
            List.of(CONFIG, SET, HARDWARE, MESH, SEQUENCE, BATCH, PRECISION, TOKENS, PRICE);

    private static final double MOST = 1e18;

    @Override
    public String name() {
        return "plan";
    }

    @Override
    public String summary() {
        return "Say what training or quantising takes before it starts: memory, disk, time, cost, and how to share"
                + " training among GPUs.";
    }

    @Override
    public List<String> operands() {
        return List.of("MODEL");
    }

    @Override
    public List<Option> options() {
        List<Option> options = new ArrayList<>(OF_TRAINING);
        options.addAll(List.of(RECIPE, TARGET, STATISTICS, OUTPUT, Flags.THREADS));
        return options;
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet plan model.onnx --config train.yaml",
                "octet plan Llama-3.1-8B/config.json --hardware 8xH100 --price 2.50",
                "octet plan config.json --hardware 2048xH100 --batch 2048 --tokens 15e12",
                "octet plan config.json --hardware 64xH100 --mesh tensor=8,zero=1",
                "octet plan Llama-3.1-70B --recipe fp8-dynamic -o /data/Llama-3.1-70B-FP8");
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        if (arguments.has(RECIPE)) {
            return conversion(arguments, screen);
        }
        arguments.refuse(List.of(TARGET, STATISTICS, OUTPUT), "is for quantising", "add --recipe NAME, as fp8-dynamic");
        TrainingPlan.Request request = request(arguments);
        arguments.requireInputs();
        TrainingPlan.Result result = TrainingPlan.run(request, arguments.job(TaskListener.NONE));
        screen.answer(arguments, result, () -> PlanPage.of(result));
        boolean fits = result.cluster() == null || result.cluster().best() != null;
        return fits && (result.machine() == null || result.machine().fits()) ? ExitCode.OK : ExitCode.CHECK_FAILED;
    }

    private static ExitCode conversion(Arguments arguments, Screen screen) throws IOException {
        arguments.refuse(OF_TRAINING, "is for training", "leave --recipe out, or this");
        Path model = arguments.operand(0);
        Path name = model.toAbsolutePath().normalize().getFileName();
        Path beside = model.toAbsolutePath()
                .normalize()
                .resolveSibling(name + "-" + arguments.text(RECIPE).orElse(""));
        Quantize.CheckpointRequest request = Quantize.CheckpointRequest.of(
                model,
                arguments.text(OUTPUT).map(Path::of).orElse(beside),
                arguments.choice(RECIPE, CheckpointFlags.RECIPES, Recipes.FP8_DYNAMIC));
        request = request.withTarget(arguments.choice(TARGET, CheckpointFlags.TARGETS, request.target()));
        Optional<Path> statistics = arguments.path(STATISTICS);
        if (statistics.isPresent()) {
            request = request.withStatistics(statistics.get());
        }
        arguments.requireInputs();
        ConversionPlan.Result result = ConversionPlan.run(request, arguments.job(TaskListener.NONE));
        screen.answer(arguments, result, () -> PlanPage.of(result));
        return result.fits() ? ExitCode.OK : ExitCode.CHECK_FAILED;
    }

    private static TrainingPlan.Request request(Arguments arguments) {
        TrainingPlan.Request request = TrainingPlan.Request.of(arguments.operand(0))
                .withBatch(
                        arguments.integer(BATCH, 0, 1, Integer.MAX_VALUE), arguments.integer(SEQUENCE, 0, 1, 1 << 24))
                .withPrecision(arguments.choice(
                        PRECISION, Flags.byName(List.of(ProductType.values()), ProductType::text), ProductType.BF16))
                .withTokens(arguments.number(TOKENS, 1, MOST).orElse(0.0))
                .withPrice(arguments.number(PRICE, 0, MOST).orElse(0.0));
        Optional<Path> config = arguments.path(CONFIG);
        if (config.isPresent()) {
            arguments.refuse(
                    List.of(PRECISION), "is for a plan without --config", "write --set precision.mode=bf16 instead");
            request = request.withConfig(config.get(), arguments.texts(SET));
        } else {
            arguments.refuse(List.of(SET), "is for keys of --config", "add --config FILE");
        }
        Optional<String> hardware = arguments.text(HARDWARE).filter(h -> !h.equals("this"));
        if (hardware.isPresent()) {
            request = request.withHardware(Hardware.parse(hardware.get(), "--hardware " + hardware.get()));
            Optional<String> mesh = arguments.text(MESH);
            return mesh.isPresent() ? request.withRules(MeshRules.parse(mesh.get(), "--mesh " + mesh.get())) : request;
        }
        arguments.refuse(List.of(MESH, PRICE), "is for accelerators", "add --hardware, as 8xH100");
        if (config.isPresent()) {
            arguments.refuse(
                    List.of(SEQUENCE, BATCH),
                    "is for accelerators: on this machine the configuration and its data say it",
                    "use --set, as in --set batch_size=4");
        }
        return request;
    }
}
