package dev.octet.pipeline;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.checkpoint.CheckpointPlan;
import dev.octet.converter.checkpoint.ConversionRequest;
import dev.octet.converter.checkpoint.Selection;
import dev.octet.converter.checkpoint.StreamOptions;
import dev.octet.converter.checkpoint.WeightDecision;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.inspect.Inspection;
import dev.octet.converter.runtime.OnnxRuntimeSession;
import dev.octet.converter.sensitivity.LayerLoss;
import dev.octet.converter.sensitivity.LinearFormat;
import dev.octet.converter.sensitivity.LinearLayer;
import dev.octet.converter.sensitivity.LinearLayers;
import dev.octet.converter.sensitivity.Losses;
import dev.octet.converter.sensitivity.Mix;
import dev.octet.converter.sensitivity.MixFront;
import dev.octet.converter.sensitivity.MixGroup;
import dev.octet.converter.sensitivity.OutputLoss;
import dev.octet.converter.sensitivity.SensitivityOptions;
import dev.octet.converter.sensitivity.SensitivityRun;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.function.ToDoubleFunction;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * {@code octet quantize --mix auto}: measures every Linear in every format, gives each the format with which the whole loses least within a
 * size, or is smallest within a loss, writes that and measures it.
 */
public final class AutoMix {
    /** Measures that {@link Goal.Gate} takes: those that losses of Linears add up to. */
    public static final List<String> GATES = List.of("cosine", Measures.PERPLEXITY_CHANGE);

    /** Most mixes that are written and measured for one goal. */
    static final int MAX_ATTEMPTS = 4;

    /** Part of the loss allowed that the next attempt aims at when one missed: a little less than in proportion. */
    private static final double TIGHTENED = 0.95;

    private AutoMix() {}

    /** What the mix must reach. */
    public sealed interface Goal {
        /** The least loss with at most so many bits per element of the Linears' weights on average, scales included. */
        record Bits(double average) implements Goal {}

        /** The least loss with a model of at most so many bytes. */
        record Size(long bytes) implements Goal {}

        /** The smallest model whose measure is at least {@code limit}, or at most for a change of perplexity; one of {@link #GATES}. */
        record Gate(String measure, double limit) implements Goal {}

        /** As on a command line. */
        default String text() {
            return switch (this) {
                case Bits(double average) -> "at most " + average + " bits";
                case Size(long bytes) -> "at most " + bytes + " bytes";
                case Gate(String measure, double limit) ->
                    measure + (Gates.isAtMost(measure) ? " at most " : " at least ") + limit;
            };
        }
    }

    /**
     * What to do.
     *
     * @param model an ONNX file, or a checkpoint whose graph follows from its configuration
     * @param output an ONNX file for a graph's target, a folder for a layout
     * @param samples what losses are measured on, and scales calibrated
     * @param formats to choose from; empty for the usual ones of the target
     * @param target who reads what is written
     * @param keep Linears whose names contain a match stay as they are
     * @param rounding of an ONNX model's weights; empty for the usual one
     * @param report where a report is written; empty for none
     */
    public record Request(
            Path model,
            Path output,
            SampleSource samples,
            List<LinearFormat> formats,
            Goal goal,
            Target target,
            List<Pattern> keep,
            Optional<Quantize.Rounding> rounding,
            Optional<Path> report) {
        public Request {
            formats = List.copyOf(formats);
            keep = List.copyOf(keep);
        }

        /** The usual formats and rounding of the target, all Linears, no report. */
        public static Request of(Path model, Path output, SampleSource samples, Goal goal, Target target) {
            return new Request(
                    model, output, samples, List.of(), goal, target, List.of(), Optional.empty(), Optional.empty());
        }

        /** The same with other formats to choose from. */
        public Request withFormats(List<LinearFormat> newFormats) {
            return new Request(model, output, samples, newFormats, goal, target, keep, rounding, report);
        }

        /** The same without the Linears whose names contain a match. */
        public Request keeping(List<Pattern> patterns) {
            return new Request(model, output, samples, formats, goal, target, patterns, rounding, report);
        }

        /** The same with the weights of an ONNX model rounded so. */
        public Request withRounding(Quantize.Rounding newRounding) {
            return new Request(model, output, samples, formats, goal, target, keep, Optional.of(newRounding), report);
        }

        /** The same with a report. */
        public Request withReport(Path file) {
            return new Request(model, output, samples, formats, goal, target, keep, rounding, Optional.of(file));
        }
    }

    /**
     * What became of it.
     *
     * @param goal in words
     * @param loss what the losses are: {@code kl} or {@code cosine}, as in {@link Sensitivity.Result}
     * @param exact whether no mix was left out of the search
     * @param attempts how many mixes were written and measured
     * @param bits average bits of an element of the Linears' weights, scales included
     * @param originalBytes of the model
     * @param bytes of what was written, predicted where nothing was
     * @param predicted loss of the mix; a NaN where the model has no such measure
     * @param measured the same of what was written; null where nothing was
     * @param gate whether the goal was reached, where it is a measure; null for sizes
     * @param counts how many Linears have each format
     * @param formats the format of each Linear, by its weight, in the order of the graph
     * @param exclusion the Linears that stay as they are, in the words of those who can leave them out
     * @param notes what a user should know
     */
    public record Result(
            String model,
            String output,
            @Nullable String report,
            String data,
            int samples,
            String target,
            String goal,
            String loss,
            boolean exact,
            int attempts,
            double bits,
            long originalBytes,
            long bytes,
            OutputLoss predicted,
            @Nullable OutputLoss measured,
            Gates.@Nullable Result gate,
            Map<String, Integer> counts,
            List<Chosen> formats,
            Exclusion exclusion,
            List<String> notes,
            double seconds,
            boolean dryRun) {}

    /** The format of a Linear. */
    public record Chosen(String weight, String format) {}

    /**
     * Finds the mix, writes and measures it.
     *
     * @throws InvalidOptionException when no mix reaches the goal, with the smallest there is; or the target cannot hold the formats
     * @throws IOException when reading or writing fails
     */
    public static Result run(Request request, Job job) throws IOException {
        job.refuseExisting(request.output());
        request.report().ifPresent(job::refuseExisting);
        List<LinearFormat> formats = formats(request, job);
        Stopwatch watch = new Stopwatch();
        try (ModelSource source = ModelSource.open(request.model());
                Converter converter = source.converter();
                Dataset samples = request.samples().open(request.model(), InputSpec.of(converter.source()), job)) {
            List<LinearLayer> layers = LinearLayers.of(
                    converter.canonical().graph(), Sensitivity.plan(converter, request.keep(), request.model()));
            Map<String, Map<String, String>> refusals = refusals(request, formats);
            SensitivityOptions options = Sensitivity.options(job);
            try (SensitivityRun run = SensitivityRun.open(converter.canonical(), layers, samples, options)) {
                Losses losses = run.measure(formats);
                return new Work(request, job, source, converter, samples.name(), run, losses, refusals, watch).run();
            }
        }
    }

    /** The formats to choose from, as the target computes them. */
    private static List<LinearFormat> formats(Request request, Job job) {
        return switch (request.target()) {
            case Target.Graph graph -> {
                List<LinearFormat> chosen =
                        request.formats().isEmpty() ? List.of(Sensitivity.GRAPH_FORMATS.getLast()) : request.formats();
                requireWritable(chosen, graph, job);
                if (chosen.size() > 1) {
                    throw job.invalid(
                            "one format for target " + graph.label() + ", not " + names(chosen)
                                    + ": all its recipes have eight bits, so no size is gained by mixing them",
                            "name one with --formats; --mix auto then finds which Linears stay as they are");
                }
                yield chosen;
            }
            case Target.Checkpoint(Layout layout) -> {
                List<LinearFormat> chosen = request.formats().isEmpty() ? usual(layout) : request.formats();
                requireWritable(chosen, request.target(), job);
                for (LinearFormat format : chosen) {
                    Optional<String> refusal = layout.unsupported(format.recipe(), LayoutOptions.defaults());
                    if (refusal.isPresent()) {
                        throw job.invalid(refusal.get(), "leave " + format.name() + " out of --formats");
                    }
                    Optional<String> alone = layout.unmixable(format.recipe(), LayoutOptions.defaults());
                    if (chosen.size() > 1 && alone.isPresent()) {
                        throw job.invalid(
                                alone.get() + ": " + format.name() + " cannot be one of " + names(chosen),
                                "name one with --formats, or give --target "
                                        + Layouts.ALL.stream()
                                                .filter(Layout::mixes)
                                                .filter(l -> !l.equals(layout))
                                                .map(Layout::name)
                                                .collect(Collectors.joining(" or ")));
                    }
                }
                yield chosen.stream().map(LinearFormat::withoutStatistics).toList();
            }
            case Target.Floats _, Target.Gguf _, Target.Training _ ->
                throw job.invalid(
                        "target " + request.target().label() + " quantises nothing", "choose another --target");
        };
    }

    /** Eight bits and four where the layout can mix them, else the first recipe that it can hold without statistics. */
    private static List<LinearFormat> usual(Layout layout) {
        LayoutOptions options = LayoutOptions.defaults();
        return Sensitivity.CHECKPOINT_MIXES.stream()
                .filter(mix -> mix.stream()
                        .map(LinearFormat::recipe)
                        .allMatch(r -> layout.unsupported(r, options).isEmpty()
                                && layout.unmixable(r, options).isEmpty()))
                .findFirst()
                .orElseGet(() -> List.of(LinearFormat.of(Stream.of(Recipes.FP8_BLOCK, Recipes.FP8_DYNAMIC)
                        .filter(r -> layout.unsupported(r, options).isEmpty())
                        .findFirst()
                        .orElse(Recipes.CHECKPOINT_FP8))));
    }

    private static void requireWritable(List<LinearFormat> formats, Target target, Job job) {
        List<String> recipes = target.recipes().stream().map(Recipe::ownName).toList();
        for (LinearFormat format : formats) {
            if (!recipes.contains(format.name())) {
                throw job.invalid(
                        "no recipe writes " + format.name() + " for target " + target.label(),
                        "formats for it: "
                                + recipes.stream()
                                        .filter(LinearFormat.ALL::containsKey)
                                        .distinct()
                                        .collect(Collectors.joining(", ")));
            }
        }
    }

    private static String names(List<LinearFormat> formats) {
        return formats.stream().map(LinearFormat::name).collect(Collectors.joining(", "));
    }

    /** Why weights cannot have a format in the target's layout, by format and weight. */
    private static Map<String, Map<String, String>> refusals(Request request, List<LinearFormat> formats)
            throws IOException {
        Map<String, Map<String, String>> all = new HashMap<>();
        if (!(request.target() instanceof Target.Checkpoint(Layout layout))) {
            return all;
        }
        try (CheckpointConverter checkpoint = CheckpointConverter.open(request.model())) {
            for (LinearFormat format : formats) {
                ConversionRequest goal =
                        new ConversionRequest.Quantize(format.recipe(), layout, LayoutOptions.defaults());
                CheckpointPlan plan =
                        checkpoint.plan(goal, CheckpointConverter.Request.all(), StreamOptions.defaults());
                Map<String, String> reasons = new HashMap<>();
                for (WeightDecision d : plan.decisions()) {
                    if (!d.quantized()) {
                        reasons.put(d.name(), d.reason());
                    }
                }
                all.put(format.name(), reasons);
            }
        }
        return all;
    }

    /**
     * The mix to try when one lost more than allowed: one whose predicted loss is as much below as the measured one was above. Empty when it lost
     * no more, or when nothing larger is left but to keep everything.
     *
     * @param loss measured of {@code mix}
     */
    static Optional<Mix> tighter(MixFront front, Mix mix, double loss, double allowed) {
        if (loss <= allowed) {
            return Optional.empty();
        }
        double aim = mix.loss() * allowed / loss * TIGHTENED;
        return front.reaching(Double.isNaN(aim) ? 0 : aim)
                .filter(m -> m.bits() > mix.bits())
                .filter(m ->
                        m.counts().getOrDefault(MixGroup.KEPT, 0) < m.formats().size());
    }

    /** One search. */
    private static final class Work {
        private final Request request;
        private final Job job;
        private final ModelSource source;
        private final Converter converter;
        private final String data;
        private final SensitivityRun run;
        private final Losses losses;
        private final Map<String, Map<String, String>> refusals;
        private final Stopwatch watch;
        private final long originalBytes;
        private final long elements;
        private final long storedBits;
        private int attempts;

        Work(
                Request request,
                Job job,
                ModelSource source,
                Converter converter,
                String data,
                SensitivityRun run,
                Losses losses,
                Map<String, Map<String, String>> refusals,
                Stopwatch watch)
                throws IOException {
            this.request = request;
            this.job = job;
            this.source = source;
            this.converter = converter;
            this.data = data;
            this.run = run;
            this.losses = losses;
            this.refusals = refusals;
            this.watch = watch;
            this.originalBytes = Inspection.fileBytes(request.model());
            List<LinearLayer> layers = losses.formats().getFirst().layers().stream()
                    .map(LayerLoss::layer)
                    .toList();
            this.elements = layers.stream().mapToLong(LinearLayer::elements).sum();
            this.storedBits = layers.stream()
                    .mapToLong(l -> l.elements() * l.storedBits())
                    .sum();
        }

        /** Which number of a loss the goal is about. */
        private ToDoubleFunction<OutputLoss> measure() {
            return switch (request.goal()) {
                case Goal.Bits _, Goal.Size _ -> losses::value;
                case Goal.Gate(String name, double _) ->
                    name.equals(Measures.PERPLEXITY_CHANGE)
                            ? loss -> Math.abs(loss.perplexityChange())
                            : OutputLoss::cosine;
            };
        }

        private List<MixGroup> groups(ToDoubleFunction<OutputLoss> measure) {
            return MixGroup.of(losses, measure, this::refusal);
        }

        private Optional<String> refusal(LayerLoss layer) {
            return losses.formats().stream()
                    .filter(f -> f.layers().contains(layer))
                    .findFirst()
                    .flatMap(f ->
                            Optional.ofNullable(refusals.getOrDefault(f.format().name(), Map.of())
                                    .get(layer.layer().weight())));
        }

        Result run() throws IOException {
            if (request.goal() instanceof Goal.Gate(String name, double _)
                    && name.equals(Measures.PERPLEXITY_CHANGE)
                    && Double.isNaN(losses.perplexity())) {
                throw job.invalid(
                        "the model has no perplexity to gate",
                        "give --gate cosine=0.998, or a causal language model with texts");
            }
            MixFront front = MixFront.of(groups(measure()));
            Mix mix = first(front);
            if (job.dryRun()) {
                return result(front, mix, predictedBytes(mix), null);
            }
            while (true) {
                write(mix);
                attempts++;
                OutputLoss measured = measured();
                long bytes = Inspection.fileBytes(request.output());
                Optional<Mix> tighter =
                        attempts < MAX_ATTEMPTS ? tighter(front, mix, measured, bytes) : Optional.empty();
                if (tighter.isEmpty()) {
                    return result(front, mix, bytes, measured);
                }
                mix = tighter.get();
            }
        }

        private long predictedBytes(Mix mix) {
            return originalBytes + (mix.bits() - storedBits) / Byte.SIZE;
        }

        private Mix first(MixFront front) {
            Mix smallest = front.mix(0);
            if (smallest.counts().getOrDefault(MixGroup.KEPT, 0)
                    == smallest.formats().size()) {
                throw new UnsupportedModelException(
                        "no Linear of the model can have a format of " + formatNames() + " in target "
                                + request.target().label(),
                        request.model().toString(),
                        "`octet quantize --dry-run` lists every layer with its reason");
            }
            Mix mix = switch (request.goal()) {
                case Goal.Bits(double average) ->
                    front.within(average * elements)
                            .orElseThrow(() -> job.invalid(
                                    String.format(
                                            Locale.ROOT,
                                            "no mix of %s and kept Linears has at most %s bits per weight",
                                            formatNames(),
                                            average),
                                    String.format(
                                            Locale.ROOT,
                                            "the smallest has %.2f: give --bits %s or more, or smaller --formats",
                                            (double) smallest.bits() / elements,
                                            Math.ceil(100.0 * smallest.bits() / elements) / 100)));
                case Goal.Size(long bytes) ->
                    front.within((bytes - originalBytes) * (double) Byte.SIZE + storedBits)
                            .orElseThrow(() -> job.invalid(
                                    "no mix of " + formatNames() + " and kept Linears makes the model " + bytes
                                            + " bytes or smaller",
                                    "the smallest takes about " + predictedBytes(smallest)
                                            + " bytes: give --size that or more, or smaller --formats"));
                case Goal.Gate(String _, double _) ->
                    front.reaching(allowed()).orElseGet(() -> front.mix(front.size() - 1));
            };
            return requireSomething(mix);
        }

        private Mix requireSomething(Mix mix) {
            if (mix.counts().getOrDefault(MixGroup.KEPT, 0) < mix.formats().size()) {
                return mix;
            }
            throw job.invalid(
                    request.goal() instanceof Goal.Gate
                            ? "every Linear would stay as it is: no format of " + formatNames() + " keeps "
                                    + request.goal().text()
                            : "every Linear would stay as it is: "
                                    + request.goal().text() + " leaves room for the model's own weights",
                    request.goal() instanceof Goal.Gate
                            ? "relax the gate, or name a format with less loss with --formats"
                            : "the model has " + String.format(Locale.ROOT, "%.2f", (double) storedBits / elements)
                                    + " bits per weight and " + originalBytes + " bytes; give less");
        }

        private String formatNames() {
            return losses.formats().stream().map(f -> f.format().name()).collect(Collectors.joining(", "));
        }

        /** The loss that a gate allows. */
        private double allowed() {
            if (!(request.goal() instanceof Goal.Gate(String name, double limit))) {
                return Double.POSITIVE_INFINITY;
            }
            return name.equals(Measures.PERPLEXITY_CHANGE) ? limit : 1 - limit;
        }

        /** The mix to try next where this one misses the goal; empty where it does not, or there is none. */
        private Optional<Mix> tighter(MixFront front, Mix mix, OutputLoss measured, long bytes) {
            return switch (request.goal()) {
                case Goal.Bits _ -> Optional.empty();
                case Goal.Size(long limit) ->
                    bytes <= limit ? Optional.empty() : front.within(mix.bits() - (bytes - limit) * (double) Byte.SIZE);
                case Goal.Gate _ -> AutoMix.tighter(front, mix, measure().applyAsDouble(measured), allowed());
            };
        }

        private Map<String, String> left(Mix mix) {
            Map<String, String> left = new LinkedHashMap<>();
            mix.formats().forEach((weight, format) -> {
                if (format.equals(MixGroup.KEPT)) {
                    left.put(
                            weight,
                            "left as it is by --mix auto, " + request.goal().text());
                }
            });
            return left;
        }

        private void write(Mix mix) throws IOException {
            Job writing = attempts == 0 ? job : job.overwriting();
            switch (request.target()) {
                case Target.Graph graph -> {
                    Quantize.GraphRequest goal = Quantize.GraphRequest.of(request.model(), request.output())
                            .withRecipe(losses.formats().getFirst().format().recipe())
                            .withTarget(graph)
                            .keeping(request.keep())
                            .withSamples(request.samples())
                            .leaving(left(mix));
                    if (request.rounding().isPresent()) {
                        goal = goal.withRounding(request.rounding().get());
                    }
                    if (request.report().isPresent()) {
                        goal = goal.withReport(request.report().get());
                    }
                    Quantize.run(goal, writing);
                }
                case Target.Checkpoint checkpoint -> {
                    String usual = mix.counts().entrySet().stream()
                            .filter(e -> !e.getKey().equals(MixGroup.KEPT))
                            .max(Comparator.comparingInt(
                                    Map.Entry::getValue)) // of equals the last, as the order is fixed
                            .orElseThrow()
                            .getKey();
                    Map<String, Recipe> others = new LinkedHashMap<>();
                    mix.formats().forEach((weight, format) -> {
                        if (!format.equals(MixGroup.KEPT) && !format.equals(usual)) {
                            others.put(weight, losses.format(format).format().recipe());
                        }
                    });
                    Quantize.CheckpointRequest goal = Quantize.CheckpointRequest.of(
                                    request.model(),
                                    request.output(),
                                    losses.format(usual).format().recipe())
                            .withTarget(checkpoint)
                            .withSelection(new Selection(request.keep(), List.of(), List.of(), left(mix)))
                            .withRecipes(others);
                    if (request.report().isPresent()) {
                        goal = goal.withReport(request.report().get());
                    }
                    Quantize.run(goal, writing);
                }
                case Target.Floats _, Target.Gguf _, Target.Training _ ->
                    throw new IllegalStateException("refused before");
            }
        }

        private OutputLoss measured() throws IOException {
            try (ModelSource written = ModelSource.open(request.output(), ModelSource.Activations.AS_CONSUMERS);
                    OnnxRuntimeSession session = written.load(job.threads())) {
                return run.lossOf(session);
            }
        }

        /** What the losses of the Linears add up to. */
        private double predicted(Mix mix, ToDoubleFunction<OutputLoss> measure) {
            if (Double.isNaN(measure.applyAsDouble(losses.formats().getFirst().all()))) {
                return Double.NaN;
            }
            double sum = 0;
            for (MixGroup group : groups(measure)) {
                String format = mix.formats().get(group.layers().getFirst().weight());
                sum += group.choices().stream()
                        .filter(c -> c.format().equals(format))
                        .mapToDouble(MixGroup.Choice::loss)
                        .sum();
            }
            return sum;
        }

        private Result result(MixFront front, Mix mix, long bytes, @Nullable OutputLoss measured) throws IOException {
            watch.step("mix");
            List<Chosen> formats = new ArrayList<>();
            mix.formats().forEach((weight, format) -> formats.add(new Chosen(weight, format)));
            List<LinearLayer> kept = losses.formats().getFirst().layers().stream()
                    .map(LayerLoss::layer)
                    .filter(l -> MixGroup.KEPT.equals(mix.formats().get(l.weight())))
                    .toList();
            return new Result(
                    request.model().toString(),
                    request.output().toString(),
                    job.dryRun() ? null : request.report().map(Path::toString).orElse(null),
                    data,
                    losses.samples(),
                    request.target().label(),
                    request.goal().text(),
                    losses.logits().isPresent() ? "kl" : "cosine",
                    front.exact(),
                    attempts,
                    (double) mix.bits() / elements,
                    originalBytes,
                    bytes,
                    new OutputLoss(
                            predicted(mix, OutputLoss::kl),
                            predicted(mix, OutputLoss::cosine),
                            predicted(mix, OutputLoss::perplexityChange),
                            Double.NaN),
                    measured,
                    gate(measured),
                    mix.counts(),
                    formats,
                    Exclusion.of(kept, source, converter),
                    notes(bytes),
                    watch.seconds(),
                    job.dryRun());
        }

        private Gates.@Nullable Result gate(@Nullable OutputLoss measured) {
            if (measured == null || !(request.goal() instanceof Goal.Gate(String name, double limit))) {
                return null;
            }
            double loss = measure().applyAsDouble(measured);
            double value = name.equals(Measures.PERPLEXITY_CHANGE) ? loss : 1 - loss;
            boolean passed = name.equals(Measures.PERPLEXITY_CHANGE) ? value <= limit : value >= limit;
            return new Gates.Result(name, limit, value, "", passed);
        }

        private List<String> notes(long bytes) {
            List<String> notes = new ArrayList<>();
            if (request.goal() instanceof Goal.Size(long limit) && bytes > limit) {
                notes.add("the file is " + (bytes - limit) + " bytes larger than asked for, after " + attempts
                        + " attempts");
            }
            if (request.target() instanceof Target.Checkpoint) {
                notes.add("losses are of inputs with scales found at run time, and of nvfp4 with inputs left alone,"
                        + " as engines compute a checkpoint without static scales");
            }
            return notes;
        }
    }
}
