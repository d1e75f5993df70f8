package dev.octet.pipeline;

import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.inspect.Inspection;
import dev.octet.converter.plan.LayerKind;
import dev.octet.converter.plan.Plan;
import dev.octet.converter.report.RunFacts;
import dev.octet.converter.sensitivity.FormatLoss;
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
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * {@code octet sensitivity}: what each Linear of a model loses in each format, and which mixes of formats lose least.
 *
 * <pre>{@code
 * Sensitivity.Result result = Sensitivity.run(Sensitivity.Request.of(model, SampleSource.of(texts)), Job.defaults());
 * result.formats().getFirst().layers().getFirst().weight(); // the Linear that loses most
 * }</pre>
 */
public final class Sensitivity {
    /** How many samples are measured unless the request says otherwise. */
    public static final int DEFAULT_SAMPLES = 32;

    /** Formats measured unless the request names others: of graphs, whose recipes all have eight bits. */
    static final List<LinearFormat> GRAPH_FORMATS =
            List.of(format(Recipes.FP8_PER_TENSOR.name()), format(Recipes.FP8_PER_CHANNEL.name()));

    /** The same of checkpoints. */
    static final List<LinearFormat> CHECKPOINT_FORMATS =
            List.of(format(Recipes.FP8_DYNAMIC.name()), format(Recipes.NVFP4.name()));

    /** What {@code --mix auto} chooses from in layouts that can mix recipes; the first that a layout can. */
    static final List<List<LinearFormat>> CHECKPOINT_MIXES =
            List.of(CHECKPOINT_FORMATS, List.of(format(Recipes.MXFP8.name()), format(Recipes.NVFP4.name())));

    /** Most points of a curve in a result. */
    private static final int MAX_POINTS = 200;

    private Sensitivity() {}

    private static LinearFormat format(String name) {
        return Optional.ofNullable(LinearFormat.ALL.get(name)).orElseThrow();
    }

    /**
     * What to measure.
     *
     * @param model an ONNX file, or a checkpoint whose graph follows from its configuration
     * @param samples what the model is measured on
     * @param formats what each Linear is quantised to; empty for what the model's usual target can write
     * @param keep Linears whose names contain a match are not measured
     * @param report where a page is written; empty for none
     */
    public record Request(
            Path model, SampleSource samples, List<LinearFormat> formats, List<Pattern> keep, Optional<Path> report) {
        public Request {
            formats = List.copyOf(formats);
            keep = List.copyOf(keep);
        }

        /** The usual formats of the model's usual target, all Linears, no page. */
        public static Request of(Path model, SampleSource samples) {
            return new Request(model, samples, List.of(), List.of(), Optional.empty());
        }

        /** The same in other formats. */
        public Request withFormats(List<LinearFormat> newFormats) {
            return new Request(model, samples, newFormats, keep, report);
        }

        /** The same without the Linears whose names contain a match. */
        public Request keeping(List<Pattern> patterns) {
            return new Request(model, samples, formats, patterns, report);
        }

        /** The same with a page. */
        public Request withReport(Path file) {
            return new Request(model, samples, formats, keep, Optional.of(file));
        }
    }

    /**
     * One Linear in one format.
     *
     * @param weight name of its weight
     * @param group what engines fuse it into; its own weight's name where it is not fused
     * @param out output channels
     * @param in input channels
     * @param alone loss of the model when only this Linear is quantised
     * @param kept loss of the model when all others are quantised
     * @param bits average bits of an element of the weight, scales included
     * @param refusal why it cannot have the format; null when it can
     */
    public record Layer(
            String weight,
            String group,
            long out,
            long in,
            OutputLoss alone,
            OutputLoss kept,
            double bits,
            @Nullable String refusal) {
        static Layer of(LayerLoss loss) {
            return new Layer(
                    loss.layer().weight(),
                    loss.layer().group(),
                    loss.layer().shape().dim(0),
                    loss.layer().shape().dim(1),
                    loss.alone(),
                    loss.kept(),
                    (double) loss.bits() / loss.layer().elements(),
                    loss.possible() ? null : loss.refusal());
        }
    }

    /**
     * All Linears in one format.
     *
     * @param all loss of the model when every Linear is quantised
     * @param bits average bits of an element of the weights then, scales included
     * @param layers the one that loses most alone comes first
     * @param exclusion the fewest Linears that lose half of what all lose alone, in the words of those who can leave them out
     */
    public record Format(String name, OutputLoss all, double bits, List<Layer> layers, Exclusion exclusion) {}

    /**
     * A mix that no other beats in both size and predicted loss.
     *
     * @param bits average bits of an element of the weights, scales included
     * @param bytes of the whole model
     * @param loss predicted
     * @param kept Linears that stay as they are
     */
    public record Point(double bits, long bytes, double loss, int kept) {}

    /**
     * What was measured.
     *
     * @param data what the samples are called
     * @param loss what the losses are: {@code kl} in nats, or {@code cosine}, one minus the cosine of the outputs
     * @param output whose {@code kl} it is; null for {@code cosine}
     * @param perplexity of the model itself; NaN where it has no head over tokens
     * @param formats in the order asked for
     * @param curve the mixes of these formats, smallest first
     * @param keptLayers Linears that cannot be quantised or were not to be, with their reasons
     * @param notes what a user should know
     */
    public record Result(
            String model,
            String data,
            int samples,
            String loss,
            @Nullable String output,
            double perplexity,
            List<Format> formats,
            List<Point> curve,
            List<LayerCount.Kept> keptLayers,
            List<String> notes,
            long modelBytes,
            @Nullable String report,
            double seconds) {}

    /**
     * Measures.
     *
     * @throws dev.octet.formats.error.OctetException when the model cannot be run or has no Linear, or the samples do not fit or are too few
     * @throws IOException when reading or writing fails
     */
    public static Result run(Request request, Job job) throws IOException {
        request.report().ifPresent(job::refuseExisting);
        Stopwatch watch = new Stopwatch();
        try (ModelSource source = ModelSource.open(request.model());
                Converter converter = source.converter();
                Dataset samples = request.samples().open(request.model(), InputSpec.of(converter.source()), job)) {
            Plan plan = plan(converter, request.keep(), request.model());
            List<LinearLayer> layers = LinearLayers.of(converter.canonical().graph(), plan);
            Losses losses = measure(converter, layers, formats(request, source), samples, job);
            watch.step("measure");
            Result result = result(request, source, converter, plan, losses, samples, watch);
            if (request.report().isPresent()) {
                RunFacts facts = new Provenance(job)
                        .facts(
                                Provenance.Ran.ONNX_RUNTIME,
                                List.of(
                                        new RunFacts.Digest("the model, " + source.path(), source.digest()),
                                        new RunFacts.Digest("the data, " + samples.name(), samples.digest())),
                                watch.timings());
                SensitivityReport.write(result, facts, request.report().get());
            }
            return result;
        }
    }

    /**
     * Which Linears can be quantised.
     *
     * @throws UnsupportedModelException when there are none
     */
    static Plan plan(Converter converter, List<Pattern> keep, Path model) {
        Plan plan = converter.plan(Recipes.FP8_WEIGHT_ONLY, keep);
        if (plan.converted(LayerKind.LINEAR).isEmpty()) {
            throw QuantizedAlready.refusal(converter, model, "measure")
                    .or(plan::nothing)
                    .orElseGet(() -> new UnsupportedModelException(
                            "the model has no Linear to measure",
                            model.toString(),
                            "`octet inspect` shows its operators"));
        }
        return plan;
    }

    private static List<LinearFormat> formats(Request request, ModelSource source) {
        return !request.formats().isEmpty()
                ? request.formats()
                : source.huggingFace().isPresent() ? CHECKPOINT_FORMATS : GRAPH_FORMATS;
    }

    static Losses measure(
            Converter converter, List<LinearLayer> layers, List<LinearFormat> formats, Dataset samples, Job job)
            throws IOException {
        try (SensitivityRun run = SensitivityRun.open(converter.canonical(), layers, samples, options(job))) {
            return run.measure(formats);
        }
    }

    static SensitivityOptions options(Job job) {
        return SensitivityOptions.defaults()
                .withThreads(job.threads())
                .withProgress((done, total) -> job.listener().progress("measuring Linears", done, total, "variants"));
    }

    private static Result result(
            Request request,
            ModelSource source,
            Converter converter,
            Plan plan,
            Losses losses,
            Dataset samples,
            Stopwatch watch)
            throws IOException {
        long modelBytes = Inspection.fileBytes(request.model());
        List<Format> formats = new ArrayList<>();
        for (FormatLoss format : losses.formats()) {
            formats.add(format(format, losses, source, converter));
        }
        return new Result(
                request.model().toString(),
                samples.name(),
                losses.samples(),
                losses.logits().isPresent() ? "kl" : "cosine",
                losses.logits().orElse(null),
                losses.perplexity(),
                formats,
                curve(losses, modelBytes),
                plan.kept().stream()
                        .filter(k -> k.kind() == LayerKind.LINEAR)
                        .map(k -> new LayerCount.Kept(k.kind().label(), k.node(), k.reason()))
                        .toList(),
                notes(losses),
                modelBytes,
                request.report().map(Path::toString).orElse(null),
                watch.seconds());
    }

    private static Format format(FormatLoss format, Losses losses, ModelSource source, Converter converter)
            throws IOException {
        List<LayerLoss> ranked = format.layers().stream()
                .sorted(Comparator.comparingDouble(
                        (LayerLoss l) -> -losses.value(l.alone()))) // stable: equal ones in the graph's order
                .toList();
        long bits = format.layers().stream().mapToLong(LayerLoss::bits).sum();
        long elements =
                format.layers().stream().mapToLong(l -> l.layer().elements()).sum();
        return new Format(
                format.format().name(),
                format.all(),
                (double) bits / elements,
                ranked.stream().map(Layer::of).toList(),
                Exclusion.of(half(ranked, losses), source, converter));
    }

    /** The fewest Linears that lose half of the sum, with those they are fused with. */
    private static List<LinearLayer> half(List<LayerLoss> ranked, Losses losses) {
        double sum = ranked.stream()
                .mapToDouble(l -> Math.max(0, losses.value(l.alone())))
                .sum();
        double lost = 0;
        List<String> groups = new ArrayList<>();
        for (LayerLoss layer : ranked) {
            if (!(lost < sum / 2)) {
                break;
            }
            lost += Math.max(0, losses.value(layer.alone()));
            groups.add(layer.layer().group());
        }
        return ranked.stream()
                .map(LayerLoss::layer)
                .filter(l -> groups.contains(l.group()))
                .toList();
    }

    private static List<Point> curve(Losses losses, long modelBytes) {
        MixFront front = MixFront.of(MixGroup.of(losses, losses::value, _ -> Optional.empty()));
        List<LinearLayer> layers = losses.formats().getFirst().layers().stream()
                .map(LayerLoss::layer)
                .toList();
        long elements = layers.stream().mapToLong(LinearLayer::elements).sum();
        long stored =
                layers.stream().mapToLong(l -> l.elements() * l.storedBits()).sum();
        List<Point> points = new ArrayList<>();
        int last = front.size() - 1;
        int shown = Math.min(front.size(), MAX_POINTS);
        for (int i = 0; i < shown; i++) {
            int at = shown == 1 ? last : (int) ((long) i * last / (shown - 1));
            Mix mix = front.mix(at);
            points.add(new Point(
                    (double) mix.bits() / elements,
                    modelBytes + (mix.bits() - stored) / Byte.SIZE,
                    mix.loss(),
                    mix.counts().getOrDefault(MixGroup.KEPT, 0)));
        }
        return points;
    }

    private static List<String> notes(Losses losses) {
        List<String> notes = new ArrayList<>();
        for (FormatLoss format : losses.formats()) {
            if (format.format().recipe() == null) {
                notes.add(format.format().name()
                        + " is measured only: no recipe writes it, so quantize --mix auto cannot choose it");
            }
            long refused = format.layers().stream().filter(l -> !l.possible()).count();
            if (refused > 0) {
                notes.add(refused + " of " + format.layers().size() + " Linears cannot have "
                        + format.format().name()
                        + ": "
                        + format.layers().stream()
                                .filter(l -> !l.possible())
                                .findFirst()
                                .map(l -> l.layer().weight() + ", " + l.refusal())
                                .orElse(""));
            }
        }
        return notes;
    }
}
