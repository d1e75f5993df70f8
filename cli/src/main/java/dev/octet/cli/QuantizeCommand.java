package dev.octet.cli;

import dev.octet.converter.ConversionOptions;
import dev.octet.converter.plan.LayerKind;
import dev.octet.converter.verify.Consumer;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.pipeline.Calibrate;
import dev.octet.pipeline.CheckpointOutcome;
import dev.octet.pipeline.LayerCount;
import dev.octet.pipeline.Quantize;
import dev.octet.pipeline.Schemes;
import dev.octet.pipeline.Serving;
import dev.octet.pipeline.Target;
import dev.octet.quant.calibrate.Absmax;
import dev.octet.quant.calibrate.Calibrator;
import dev.octet.quant.layout.AttentionScheme;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.transform.Transform;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.commons.cli.Option;

/** {@code octet quantize MODEL -o OUT}: the main job. */
final class QuantizeCommand implements Command {
    private static final int KEPT_SHOWN = 20;

    private static final Map<String, Recipe> RECIPES = Recipes.byName(Recipes.GRAPH);
    private static final Map<String, Target.Graph> TARGETS = Flags.byName(Target.GRAPHS, Target::label);
    private static final Map<String, AttentionScheme> KV_CACHES =
            schemes(AttentionScheme.NONE, AttentionScheme.CACHE, AttentionScheme.CACHE_PER_HEAD);
    private static final Map<String, AttentionScheme> ATTENTIONS =
            schemes(AttentionScheme.NONE, AttentionScheme.ALL, AttentionScheme.ALL_PER_HEAD);

    private static final Option RECIPE = ChoiceOption.of(
            "recipe",
            "NAME",
            Flags.all(RECIPES, CheckpointFlags.RECIPES),
            "ONNX: " + Recipes.names(Recipes.GRAPH) + " (default: " + Recipes.GRAPH_FP8.name() + "); checkpoints: "
                    + Recipes.names(Recipes.CHECKPOINT) + " (default: "
                    + Recipes.FP8_DYNAMIC.name() + "), none with --transform to write floats");
    private static final PathOption STATISTICS =
            PathOption.read("statistics", "FILE", "scales from a file of 'octet calibrate', instead of --calibration");
    private static final Option CALIBRATOR = Flags.value(
            "calibrator",
            "NAME",
            "how clips follow from statistics: " + Calibrator.SYNTAX
                    + " (default: absmax; mse for inputs of ONNX models in integers)");
    private static final Option TARGET = ChoiceOption.of(
            "target",
            "NAME",
            Flags.all(TARGETS, CheckpointFlags.TARGETS),
            "ONNX: " + String.join(", ", TARGETS.keySet()) + " (default: "
                    + Target.GRAPHS.getFirst().label()
                    + "); checkpoints: a layout, " + String.join(", ", CheckpointFlags.TARGETS.keySet())
                    + " (default: compressed-tensors, for fp8-block fp8), or who loads it, "
                    + String.join(", ", Serving.CONSUMERS.keySet()) + ": the best layout for it and the recipe");
    private static final Option EMBEDDINGS = Flags.value(
            "embeddings",
            "none|int8",
            "ONNX Runtime: store embeddings as 8-bit integers with one scale per row, a quarter of the size (default:"
                    + " none)");
    private static final Option CONVOLUTIONS = Flags.value(
            "convolutions",
            "none|int8|fp8",
            "ONNX Runtime: convolutions in 8-bit integers, one scale per output channel, their inputs by their ranges"
                    + " in each run (int8), or their weights alone in 8-bit floats (fp8) (default: none)");
    private static final Option ATTENTION = Flags.value(
            "attention",
            "none|int8|fp8|fp8-per-head",
            "ONNX: the two products of attention in 8-bit integers for ONNX Runtime, by the ranges of each run (int8),"
                + " or in 8-bit floats by calibrated scales (fp8); checkpoints, with --statistics: write scales of"
                + " queries, keys and values, one for all heads (fp8) or one for each (fp8-per-head) (default: none)");
    private static final List<Option> OTHERS = List.of(EMBEDDINGS, CONVOLUTIONS, ATTENTION);
    private static final PathOption REPORT = PathOption.written(
            "report",
            "FILE.html",
            "write a report; of a checkpoint it compares the result with the original, which reads both again (default:"
                    + " none)");

    private static final Option KEEP_SCALES = Flags.flag(
            "keep-scales",
            "checkpoints: use the scales again that 'octet dequantize --keep-scales' kept next to the model");
    private static final Option TRAINING_SCALES = Flags.flag(
            "training-scales",
            "checkpoints: static scales of inputs from the amax histories that FP8 training by Transformer Engine left"
                    + " in the checkpoint, instead of --statistics");
    private static final Option KV_CACHE = Flags.value(
            "kv-cache",
            "none|fp8|fp8-per-head",
            "checkpoints, with --statistics: write scales of the KV cache, which engines then keep in FP8: one for all"
                    + " heads of a layer, or one for each (default: none)");

    private static final Option COMPARE = Flags.flag(
            "compare",
            "with --dry-run and --statistics that have second moments: every recipe with its size and the error of the"
                    + " Linears' outputs that the statistics foretell, the best first (default: the chosen recipe)");
    private static final Option TRANSFORM = Flags.repeatable(
            "transform",
            "NAME",
            "change the weights first, so that they lose less and the model computes the same: " + Transform.SYNTAX
                    + " (ALPHA by default 0.5, of ONNX models 0.75); of checkpoints, all but rotate need --statistics;"
                    + " of ONNX models smoothquant alone, with --calibration or --statistics");
    private static final Option WEIGHT_ONLY = Flags.repeatable(
            "weight-only",
            "REGEX",
            "ONNX: quantise the weight alone, not the input, of Linears whose name contains a match");
    private static final Option REDUCE_RANGE = Flags.flag(
            "reduce-range",
            "ONNX, recipes int8 and int8-dynamic: weights whose products cannot saturate on processors without VNNI:"
                    + " pairs that are too large together give way");
    private static final String NO_RECIPE = "none";

    /** Those that only checkpoints have a use for. */
    private static final List<Option> CHECKPOINT_ONLY = List.of(
            CheckpointFlags.ONLY,
            CheckpointFlags.INCLUDE,
            CheckpointFlags.SCALE_FORMAT,
            CheckpointFlags.SCALE_TYPE,
            CheckpointFlags.GROUP_SIZE,
            CheckpointFlags.ALLOW_NONFINITE,
            CheckpointFlags.EXACT_ONLY,
            KEEP_SCALES,
            TRAINING_SCALES,
            KV_CACHE,
            RoundingFlags.SCALE_SEARCH,
            RoundingFlags.GPTQ_DAMPING,
            RoundingFlags.GPTQ_ORDER);

    /** What {@code --target} may be for checkpoints: layouts, and programs that load them. */
    private static final Map<String, String> CHECKPOINT_TARGETS = Flags.byName(
            Stream.concat(CheckpointFlags.TARGETS.keySet().stream(), Serving.CONSUMERS.keySet().stream())
                    .toList(),
            name -> name);

    @Override
    public String name() {
        return "quantize";
    }

    @Override
    public String summary() {
        return "Rewrite a model to FP8, INT8 or four bits with calibrated scales.";
    }

    @Override
    public List<String> operands() {
        return List.of("MODEL");
    }

    @Override
    public List<Option> options() {
        List<Option> options = new ArrayList<>(
                List.of(Flags.OUTPUT, RECIPE, DataFlags.CALIBRATION, DataFlags.DATA_FOR_CALIBRATION, STATISTICS));
        options.addAll(DataFlags.all());
        options.addAll(List.of(
                CALIBRATOR,
                TARGET,
                RoundingFlags.ROUNDING,
                CheckpointFlags.KEEP,
                WEIGHT_ONLY,
                REDUCE_RANGE,
                TRANSFORM,
                REPORT));
        options.addAll(OTHERS);
        options.addAll(MixFlags.all());
        options.addAll(CHECKPOINT_ONLY);
        options.addAll(List.of(Flags.THREADS, Flags.FORCE, Flags.DRY_RUN, COMPARE));
        return options;
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet quantize model.onnx -o fp8.onnx --calibration texts.jsonl --tokenizer tokenizer.json --report"
                        + " r.html",
                "octet quantize model.onnx -o fp8.onnx --statistics model.stats --calibrator percentile:99.99",
                "octet quantize model.onnx -o fp8.onnx --recipe fp8-weight-only --keep pooler",
                "octet quantize model.onnx -o int8.onnx --recipe int8-dynamic --embeddings int8 --transform smoothquant"
                        + " --calibration texts.jsonl --tokenizer tokenizer.json",
                "octet quantize model.onnx -o fp8.onnx --data texts.jsonl --tokenizer tokenizer.json --mix auto --gate"
                        + " cosine=0.998",
                "octet quantize Qwen3-8B -o Qwen3-8B-mixed --data texts.jsonl --mix auto --bits 6.0",
                "octet quantize Llama-3.1-8B -o Llama-3.1-8B-FP8 --recipe fp8-dynamic --target vllm",
                "octet quantize Llama-3.1-8B -o any --dry-run --compare --statistics llama.stats",
                "octet quantize Llama-3.1-8B -o static --recipe fp8 --target modelopt --statistics llama.stats"
                        + " --kv-cache fp8",
                "octet quantize Qwen3-8B -o Qwen3-8B-block --recipe fp8-block --target fp8 --keep 'layers\\.0\\.'");
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        arguments.requiredPath(Flags.OUTPUT);
        if (arguments.has(COMPARE)) {
            compare(arguments, screen);
            return ExitCode.OK;
        }
        if (arguments.has(MixFlags.MIX)) {
            return mix(arguments, screen);
        }
        MixFlags.refuseWithout(arguments);
        Path model = arguments.operand(0);
        boolean graph = TARGETS.containsKey(arguments.text(TARGET).orElse(""));
        if (!graph && Files.exists(model) && Checkpoint.isCheckpoint(model)) {
            quantizeCheckpoint(arguments, screen);
        } else {
            quantizeGraph(arguments, screen);
        }
        return ExitCode.OK;
    }

    private static void compare(Arguments arguments, Screen screen) throws IOException {
        Optional<Path> statistics = arguments.path(STATISTICS);
        if (statistics.isEmpty() || !arguments.has(Flags.DRY_RUN)) {
            throw arguments.usage(
                    "--compare predicts, and needs --statistics FILE and --dry-run",
                    "octet calibrate MODEL -o FILE --data TEXTS --second-moments makes the file");
        }
        arguments.refuse(
                List.of(RECIPE, RoundingFlags.ROUNDING, TARGET, MixFlags.MIX, REPORT),
                "has no use with --compare",
                "leave it out: every recipe and rounding is compared");
        List<Option> single = new ArrayList<>(
                List.of(RoundingFlags.SCALE_SEARCH, RoundingFlags.GPTQ_DAMPING, RoundingFlags.GPTQ_ORDER));
        single.addAll(List.of(WEIGHT_ONLY, REDUCE_RANGE, TRANSFORM));
        single.addAll(OTHERS);
        arguments.refuse(
                single,
                "has no use with --compare",
                "leave it out, or predict one recipe with it: --recipe NAME in place of --compare");
        Schemes.Request request = new Schemes.Request(
                arguments.operand(0),
                statistics.get(),
                calibrator(arguments, new Absmax()),
                CheckpointFlags.patterns(arguments, CheckpointFlags.KEEP));
        arguments.requireInputs();
        try (Progress progress = arguments.progress(screen)) {
            Schemes.Comparison comparison = Schemes.compare(request, arguments.job(progress));
            progress.end();
            SchemesPage.print(comparison, arguments, screen);
        }
    }

    private static ExitCode mix(Arguments arguments, Screen screen) throws IOException {
        List<Option> refused = new ArrayList<>(CHECKPOINT_ONLY);
        refused.addAll(List.of(STATISTICS, CALIBRATOR, WEIGHT_ONLY, REDUCE_RANGE, TRANSFORM));
        refused.addAll(OTHERS);
        Optional<Quantize.Rounding> rounding = arguments.has(RoundingFlags.ROUNDING)
                ? Optional.of(
                        arguments.choice(RoundingFlags.ROUNDING, RoundingFlags.ROUNDINGS, Quantize.Rounding.NEAREST))
                : Optional.empty();
        return MixFlags.run(arguments, screen, refused, RECIPE, TARGET, REPORT, rounding);
    }

    private static void quantizeCheckpoint(Arguments arguments, Screen screen) throws IOException {
        arguments.refuse(
                List.of(DataFlags.CALIBRATION, DataFlags.DATA_FOR_CALIBRATION),
                "is for ONNX models",
                "let calibrate write statistics of the data first, then give --statistics FILE");
        arguments.refuse(
                List.of(EMBEDDINGS), "is for ONNX models", "leave it out; --include embed quantises embeddings here");
        arguments.refuse(List.of(CONVOLUTIONS), "is for ONNX models", "leave it out: checkpoints have no such form");
        arguments.refuse(
                List.of(WEIGHT_ONLY, REDUCE_RANGE),
                "is for ONNX models",
                "leave it out; recipes for weights alone are int8-asymmetric and int4");
        Quantize.CheckpointRequest request = ofCheckpoint(arguments);
        arguments.requireInputs();
        arguments.outputFile(REPORT);
        Optional<Serving> serving = serving(arguments, request.recipe());
        try (Progress progress = arguments.progress(screen)) {
            CheckpointOutcome outcome = Quantize.run(request, arguments.job(progress));
            progress.end();
            new CheckpointPage(outcome).withServing(serving).print(arguments, screen);
            screen.report(arguments, outcome.dryRun() ? Optional.empty() : request.report());
            if (!outcome.dryRun() && !arguments.has(Flags.JSON)) {
                Optional<Consumer> consumer = serving.map(Serving::consumer)
                        .or(() -> Serving.usual(
                                request.target(),
                                request.recipe(),
                                arguments.has(STATISTICS) || arguments.has(TRAINING_SCALES)));
                consumer.ifPresent(c -> screen.out().print(NextSteps.of(outcome, c)));
            }
        }
    }

    private static void quantizeGraph(Arguments arguments, Screen screen) throws IOException {
        arguments.refuse(CHECKPOINT_ONLY, "is for checkpoint layouts", "leave it out: an ONNX model is written");
        Quantize.GraphRequest request = ofGraph(arguments);
        arguments.requireInputs();
        arguments.outputFile(REPORT);
        try (Progress progress = arguments.progress(screen)) {
            Quantize.GraphResult result = Quantize.run(request, arguments.job(progress));
            progress.end();
            print(result, arguments, screen);
            if (!result.dryRun() && !arguments.has(Flags.JSON)) {
                screen.out().print(NextSteps.of(request));
            }
        }
    }

    private static Quantize.GraphRequest ofGraph(Arguments arguments) throws IOException {
        Quantize.GraphRequest request =
                Quantize.GraphRequest.of(arguments.operand(0), arguments.requiredPath(Flags.OUTPUT));
        Optional<Path> report = arguments.path(REPORT);
        if (report.isPresent()) {
            request = request.withReport(report.get());
        }
        refuseOther(
                arguments, RECIPE, CheckpointFlags.RECIPES.keySet(), RECIPES.keySet(), "checkpoints", "ONNX models");
        refuseOther(arguments, TARGET, CHECKPOINT_TARGETS.keySet(), TARGETS.keySet(), "checkpoints", "ONNX models");
        request = request.withRecipe(arguments.choice(RECIPE, RECIPES, request.recipe()))
                .withTarget(arguments.choice(TARGET, TARGETS, request.target()))
                .keeping(CheckpointFlags.patterns(arguments, CheckpointFlags.KEEP))
                .withWeightsAlone(CheckpointFlags.patterns(arguments, WEIGHT_ONLY))
                .withTransforms(arguments.texts(TRANSFORM).stream()
                        .map(t -> Transform.parse(t, Transform.SmoothQuant.INTEGERS_ALPHA))
                        .toList());
        if (arguments.has(REDUCE_RANGE)) {
            boolean products = request.recipe().input() != null
                    && request.recipe().weight().type() == QuantType.INT8;
            if (!products) {
                throw arguments.usage(
                        "--reduce-range is for recipes whose products are of integers of 8 bits, and "
                                + request.recipe().name() + " has none",
                        "leave it out, or give --recipe int8 or int8-dynamic");
            }
            request = request.withSaturation(ConversionOptions.Saturation.EXCLUDED);
        }
        Optional<String> calibrator = arguments.text(CALIBRATOR);
        if (calibrator.isPresent()) {
            request = request.withCalibrator(Calibrator.parse(calibrator.get()));
        }
        Optional<Path> data = DataFlags.file(arguments);
        if (data.isPresent()) {
            request = request.withSamples(DataFlags.source(arguments, data.get()));
        }
        Optional<Path> statistics = arguments.path(STATISTICS);
        if (statistics.isPresent()) {
            arguments
                    .paths()
                    .reading("--statistics, its second moments", Calibrate.momentsOf(statistics.get()))
                    .requireApart();
            request = request.withStatistics(statistics.get());
        }
        if (arguments.text(EMBEDDINGS).filter("fp8"::equals).isPresent()) {
            throw arguments.usage(
                    "--embeddings fp8 would not run: ONNX's Gather takes no 8-bit floats",
                    "give --embeddings int8, which loses less: one scale per row, 43 dB against 32");
        }
        refuseOther(
                arguments,
                ATTENTION,
                ATTENTIONS.keySet(),
                forms(LayerKind.ATTENTION).keySet(),
                "checkpoints",
                "ONNX models");
        Map<LayerKind, QuantType> others = new EnumMap<>(LayerKind.class);
        Map.of(EMBEDDINGS, LayerKind.EMBEDDING, CONVOLUTIONS, LayerKind.CONV, ATTENTION, LayerKind.ATTENTION)
                .forEach((option, kind) -> arguments
                        .choice(option, forms(kind), Optional.<QuantType>empty())
                        .ifPresent(type -> others.put(kind, type)));
        request = request.withOthers(others);
        return arguments.has(RoundingFlags.ROUNDING)
                ? request.withRounding(
                        arguments.choice(RoundingFlags.ROUNDING, RoundingFlags.ROUNDINGS, Quantize.Rounding.NEAREST))
                : request;
    }

    private static Quantize.CheckpointRequest ofCheckpoint(Arguments arguments) {
        Path output = arguments.requiredPath(Flags.OUTPUT);
        refuseOther(
                arguments, RECIPE, RECIPES.keySet(), CheckpointFlags.RECIPES.keySet(), "ONNX models", "checkpoints");
        List<Transform> transforms =
                arguments.texts(TRANSFORM).stream().map(Transform::parse).toList();
        boolean floats = arguments.text(RECIPE).filter(NO_RECIPE::equals).isPresent();
        if (floats && transforms.isEmpty()) {
            throw arguments.usage(
                    "--recipe none writes transformed weights as floats, and no --transform is given",
                    "give --transform " + Transform.SYNTAX + ", or a recipe");
        }
        if (floats && transforms.stream().anyMatch(Transform.Awq.class::isInstance)) {
            throw arguments.usage(
                    "--recipe none has no rounding, by whose error AWQ chooses its factors",
                    "give --transform awq with the recipe that the weights are quantised by");
        }
        Recipe recipe = CheckpointFlags.grouped(
                arguments,
                floats ? Recipes.FP8_DYNAMIC : arguments.choice(RECIPE, CheckpointFlags.RECIPES, Recipes.FP8_DYNAMIC));
        Quantize.CheckpointRequest request = Quantize.CheckpointRequest.of(arguments.operand(0), output, recipe);
        arguments.choice(TARGET, CHECKPOINT_TARGETS, "");
        Optional<Serving> serving = serving(arguments, recipe);
        Target.Checkpoint target = serving.isPresent()
                ? serving.get().target()
                : arguments.choice(TARGET, CheckpointFlags.TARGETS, request.target());
        request = request.withTarget(target)
                .withSelection(CheckpointFlags.selection(arguments))
                .withLayout(CheckpointFlags.layoutOptions(arguments))
                .withCalibrator(calibrator(arguments, request.calibrator()));
        Optional<Path> statistics = arguments.path(STATISTICS);
        if (statistics.isPresent()) {
            request = request.withStatistics(statistics.get());
        }
        Optional<Path> report = arguments.path(REPORT);
        if (report.isPresent()) {
            request = request.withReport(report.get());
        }
        request = request.withTransforms(transforms);
        if (floats) {
            request = request.with(Quantize.Choice.FLOATS);
        }
        request = request.withAttention(attention(arguments));
        request = request.withRounding(RoundingFlags.ofCheckpoint(arguments));
        if (arguments.has(CheckpointFlags.ALLOW_NONFINITE)) {
            request = request.with(Quantize.Choice.ALLOW_NONFINITE);
        }
        if (arguments.has(KEEP_SCALES)) {
            request = request.with(Quantize.Choice.KEEP_SCALES);
        }
        if (arguments.has(TRAINING_SCALES)) {
            request = request.with(Quantize.Choice.TRAINING_SCALES);
        }
        return arguments.has(CheckpointFlags.EXACT_ONLY) ? request.with(Quantize.Choice.EXACT_ONLY) : request;
    }

    /** What users can ask for of layers of a kind, by name: integers first. */
    private static Map<String, Optional<QuantType>> forms(LayerKind kind) {
        Map<String, Optional<QuantType>> forms = new LinkedHashMap<>();
        forms.put("none", Optional.empty());
        kind.forms().keySet().stream()
                .sorted(Comparator.comparing(type -> !type.isInteger()))
                .forEach(type -> forms.put(type.family().toLowerCase(Locale.ROOT), Optional.of(type)));
        return forms;
    }

    /** Schemes by what stands behind the option that asks for them. */
    private static Map<String, AttentionScheme> schemes(AttentionScheme... schemes) {
        return Flags.byName(
                List.of(schemes), s -> s.option().substring(s.option().indexOf(' ') + 1));
    }

    /** Queries are quantised as the cache is, so that one option says what the other leaves open. */
    private static AttentionScheme attention(Arguments arguments) {
        refuseOther(
                arguments,
                ATTENTION,
                forms(LayerKind.ATTENTION).keySet(),
                ATTENTIONS.keySet(),
                "ONNX models",
                "checkpoints");
        AttentionScheme cache = arguments.choice(KV_CACHE, KV_CACHES, AttentionScheme.NONE);
        AttentionScheme attention = arguments.choice(ATTENTION, ATTENTIONS, AttentionScheme.NONE);
        if (attention == AttentionScheme.NONE) {
            return cache;
        }
        if (arguments.has(KV_CACHE) && cache != attention.ofCache()) {
            throw arguments.usage(
                    attention.option()
                            + " quantises the KV cache with the queries and in the same way, not as --kv-cache "
                            + arguments.text(KV_CACHE).orElse(""),
                    "leave --kv-cache out");
        }
        return attention;
    }

    /** What a program that loads checkpoints is to get; empty where {@code --target} names no such program. */
    private static Optional<Serving> serving(Arguments arguments, Recipe recipe) {
        return arguments
                .text(TARGET)
                .flatMap(name -> Optional.ofNullable(Serving.CONSUMERS.get(name)))
                .map(c -> Serving.of(c, recipe, arguments.has(STATISTICS) || arguments.has(TRAINING_SCALES)));
    }

    /** Refuses a name that the other kind of model knows, and says so. */
    private static void refuseOther(
            Arguments arguments, Option option, Set<String> others, Set<String> own, String otherKind, String kind) {
        Optional<String> name = arguments.text(option).filter(n -> others.contains(n) && !own.contains(n));
        if (name.isPresent()) {
            throw arguments.usage(
                    option.getLongOpt() + " '" + name.get() + "' is for " + otherKind + ", not for " + kind
                            + " such as " + arguments.operand(0),
                    "for " + kind + ": " + String.join(", ", own)
                            + (kind.startsWith("ONNX")
                                    ? "; 'octet convert --target huggingface' makes a checkpoint of an ONNX model"
                                    : "; --target onnxruntime writes an ONNX model"));
        }
    }

    private static Calibrator calibrator(Arguments arguments, Calibrator usual) {
        return arguments.text(CALIBRATOR).map(Calibrator::parse).orElse(usual);
    }

    private static void print(Quantize.GraphResult answer, Arguments arguments, Screen screen) {
        if (arguments.has(Flags.JSON)) {
            screen.out().println(Json.answer(arguments.verb(), answer));
            return;
        }
        Table table = new Table()
                .row("model", answer.model() + "  " + Quantity.bytes(answer.originalBytes()))
                .row("recipe", answer.recipe() + (answer.calibrator() == null ? "" : ", " + answer.calibrator()))
                .row("rounding", answer.rounding() + " (" + answer.roundingReason() + ")")
                .row("target", answer.target())
                .row(
                        "layers",
                        answer.layers().isEmpty()
                                ? "none found"
                                : answer.layers().stream()
                                        .map(LayerCount::toString)
                                        .collect(Collectors.joining(", ")));
        if (answer.products() != null) {
            table.row("products", answer.products().toString());
        }
        if (!answer.dryRun()) {
            table.row("written", answer.output() + "  " + Quantity.bytes(answer.convertedBytes()));
            table.row("time", Quantity.seconds(answer.seconds()));
        }
        if (answer.report() != null && !answer.dryRun()) {
            table.row("report", answer.report());
        }
        screen.out().print(table.text(0));
        answer.notes().forEach(n -> screen.out().println("note: " + Printable.of(n)));
        SchemesPage.print(answer.predicted(), screen);
        printKept(answer.kept(), screen);
    }

    private static void printKept(List<LayerCount.Kept> kept, Screen screen) {
        if (kept.isEmpty()) {
            return;
        }
        Table table = new Table();
        kept.stream().limit(KEPT_SHOWN).forEach(k -> table.row(k.kind(), k.node(), k.reason()));
        screen.out().print("\n" + TextStyle.heading("kept as they are") + "\n" + table.text(2));
        if (kept.size() > KEPT_SHOWN) {
            screen.out().println("  and " + (kept.size() - KEPT_SHOWN) + " more (--json lists all)");
        }
    }
}
