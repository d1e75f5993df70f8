package dev.octet.pipeline;

import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.evaluate.EvaluatedPart;
import dev.octet.converter.evaluate.Evaluation;
import dev.octet.converter.evaluate.EvaluationOptions;
import dev.octet.converter.evaluate.LayerComparison;
import dev.octet.converter.evaluate.ModelComparison;
import dev.octet.converter.report.RunFacts;
import dev.octet.converter.runtime.OnnxRuntimeSession;
import dev.octet.formats.graph.GraphModel;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * {@code octet evaluate}: two models over the same samples.
 *
 * <pre>{@code
 * Evaluate.Result result = Evaluate.run(Evaluate.Request.of(model, fp8, SampleSource.of(held)), Job.defaults());
 * double cosine = new Measures(result.comparison()).value("cosine");
 * }</pre>
 */
public final class Evaluate {
    private Evaluate() {}

    /** What can be compared, other than the outputs. */
    public enum Part {
        /** The output of each Linear. */
        LAYERS,
        /** Perplexities of language models; always those of two causal Hugging Face folders, or where a gate asks for them. */
        PERPLEXITY
    }

    /**
     * What to compare.
     *
     * @param samples not the ones calibrated on
     * @param gates what the candidate must reach
     * @param report where a page is written; empty for none
     */
    public record Request(
            Path reference, Path candidate, SampleSource samples, Set<Part> parts, Gates gates, Optional<Path> report) {
        public Request {
            parts = Set.copyOf(parts);
        }

        /** Outputs and layers, no gates. */
        public static Request of(Path reference, Path candidate, SampleSource samples) {
            return new Request(reference, candidate, samples, Set.of(Part.LAYERS), Gates.NONE, Optional.empty());
        }

        /** The same with one more part. */
        public Request with(Part part) {
            Set<Part> more = EnumSet.of(part);
            more.addAll(parts);
            return new Request(reference, candidate, samples, more, gates, report);
        }

        /** The same without a part. */
        public Request without(Part part) {
            List<Part> fewer = parts.stream().filter(p -> p != part).toList();
            return new Request(reference, candidate, samples, Set.copyOf(fewer), gates, report);
        }

        /** The same with gates. */
        public Request withGates(Gates newGates) {
            return new Request(reference, candidate, samples, parts, newGates, report);
        }

        /** The same with a page. */
        public Request withReport(Path file) {
            return new Request(reference, candidate, samples, parts, gates, Optional.of(file));
        }
    }

    /**
     * What was compared.
     *
     * @param data what the samples are called
     * @param layers in graph order
     * @param gates one for each that was asked for
     * @param notes what consumers of quantised checkpoints would quantise and these graphs do not
     */
    public record Result(
            String reference,
            String candidate,
            String data,
            ModelComparison comparison,
            List<LayerComparison> layers,
            List<Gates.Result> gates,
            List<String> notes,
            double seconds) {}

    /**
     * Some of the samples of a comparison, evaluated by one of several processes.
     *
     * @param outputs sums over the outputs
     * @param layers of the part that has the first samples; empty of others
     * @param notes see {@link Result}; the same of all parts
     */
    public record Share(EvaluatedPart outputs, List<LayerComparison> layers, List<String> notes)
            implements Serializable {}

    /**
     * Runs both models and compares them.
     *
     * @throws dev.octet.formats.error.OctetException when a model cannot be run, or the samples do not fit
     * @throws IOException when reading fails
     */
    public static Result run(Request request, Job job) throws IOException {
        request.report().ifPresent(job::refuseExisting);
        Stopwatch watch = new Stopwatch();
        try (ModelSource first = ModelSource.open(request.reference(), ModelSource.Activations.AS_CONSUMERS);
                ModelSource second = ModelSource.open(request.candidate(), ModelSource.Activations.AS_CONSUMERS);
                Converter converter = first.converter();
                Dataset samples = request.samples().open(request.reference(), InputSpec.of(converter.source()), job)) {
            boolean perplexity = perplexity(request, first, second);
            EvaluatedPart outputs = compare(
                    first,
                    second,
                    samples,
                    job.evaluation("evaluating", "samples").withPerplexity(perplexity));
            watch.step("compare outputs");
            List<LayerComparison> layers = request.parts().contains(Part.LAYERS)
                    ? layers(converter, first, second, samples, job.evaluation("comparing layers", "samples"))
                    : List.of();
            watch.step("compare layers");
            Result result = joined(
                    request,
                    samples.name(),
                    List.of(new Share(outputs, layers, notes(first, second))),
                    watch.seconds());
            if (request.report().isPresent()) {
                EvaluateReport.write(
                        result,
                        facts(first, second, samples, watch, job),
                        request.report().get());
            }
            return result;
        }
    }

    /**
     * How many samples there are to share out.
     *
     * @throws dev.octet.formats.error.OctetException when the samples do not fit the reference
     * @throws IOException when reading fails
     */
    public static int samples(Request request, Job job) throws IOException {
        try (ModelSource first = ModelSource.open(request.reference(), ModelSource.Activations.AS_CONSUMERS);
                Converter converter = first.converter();
                Dataset samples = request.samples().open(request.reference(), InputSpec.of(converter.source()), job)) {
            return samples.count();
        }
    }

    /**
     * Compares the models on some of the samples, where several processes share them out. Gates and report are not looked at.
     *
     * @param from number of the first sample, counted from 0; with the first, layers are compared, too, on as many samples as in one process
     * @throws dev.octet.formats.error.OctetException when a model cannot be run, or the samples do not fit
     * @throws IOException when reading fails
     */
    public static Share share(Request request, int from, int count, Job job) throws IOException {
        try (ModelSource first = ModelSource.open(request.reference(), ModelSource.Activations.AS_CONSUMERS);
                ModelSource second = ModelSource.open(request.candidate(), ModelSource.Activations.AS_CONSUMERS);
                Converter converter = first.converter();
                Dataset samples = request.samples().open(request.reference(), InputSpec.of(converter.source()), job)) {
            EvaluatedPart outputs = compare(
                    first,
                    second,
                    samples.slice(from, count),
                    job.evaluation("evaluating", "samples").withPerplexity(perplexity(request, first, second)));
            List<LayerComparison> layers = from == 0 && request.parts().contains(Part.LAYERS)
                    ? layers(converter, first, second, samples, job.evaluation("comparing layers", "samples"))
                    : List.of();
            return new Share(outputs, layers, notes(first, second));
        }
    }

    /**
     * The result of all shares. It has the bits of {@link #run} where batches are the same: a share begins where a batch of one process does, and no perplexity makes batches
     * smaller.
     *
     * @param data what the samples are called
     * @param shares in the order of the samples
     */
    public static Result joined(Request request, String data, List<Share> shares, double seconds) {
        ModelComparison comparison =
                EvaluatedPart.joined(shares.stream().map(Share::outputs).toList(), data);
        return new Result(
                request.reference().toString(),
                request.candidate().toString(),
                data,
                comparison,
                shares.stream().flatMap(s -> s.layers().stream()).toList(),
                request.gates().check(new Measures(comparison)::of),
                shares.getFirst().notes(),
                seconds);
    }

    private static boolean perplexity(Request request, ModelSource first, ModelSource second) {
        return request.parts().contains(Part.PERPLEXITY)
                || request.gates().limits().containsKey(Measures.PERPLEXITY_CHANGE)
                || (isCausal(first) && isCausal(second));
    }

    private static RunFacts facts(ModelSource first, ModelSource second, Dataset samples, Stopwatch watch, Job job)
            throws IOException {
        return new Provenance(job)
                .facts(
                        Provenance.Ran.ONNX_RUNTIME,
                        List.of(
                                new RunFacts.Digest("the reference, " + first.path(), first.digest()),
                                new RunFacts.Digest("the candidate, " + second.path(), second.digest()),
                                new RunFacts.Digest("the data, " + samples.name(), samples.digest())),
                        watch.timings());
    }

    /** What consumers of quantised checkpoints would quantise and these graphs do not. */
    private static List<String> notes(ModelSource... sources) {
        List<String> notes = new ArrayList<>();
        for (ModelSource source : sources) {
            source.huggingFace()
                    .ifPresent(h -> h.notes().forEach(n -> notes.add(h.folder().getFileName() + ": " + n)));
        }
        return notes;
    }

    private static boolean isCausal(ModelSource source) {
        return source.huggingFace()
                .map(ModelSource.HuggingFace::modelClass)
                .filter(c -> c.endsWith("ForCausalLM") || c.endsWith("LMHeadModel"))
                .isPresent();
    }

    private static EvaluatedPart compare(
            ModelSource reference, ModelSource candidate, Dataset samples, EvaluationOptions options)
            throws IOException {
        try (OnnxRuntimeSession a = reference.load(options.threads());
                OnnxRuntimeSession b = candidate.load(options.threads())) {
            return Evaluation.part(a, b, samples, options);
        }
    }

    private static List<LayerComparison> layers(
            Converter converter,
            ModelSource reference,
            ModelSource candidate,
            Dataset samples,
            EvaluationOptions options)
            throws IOException {
        Optional<GraphModel> graph = candidate.model().graph();
        if (graph.isEmpty()) {
            return List.of();
        }
        GraphModel runnable = reference.runnable(converter);
        if (candidate.huggingFace().isEmpty()) {
            return LayerErrors.compare(converter, runnable, graph.get(), samples, options);
        }
        try (Converter second = candidate.converter()) {
            return LayerErrors.compare(converter, runnable, candidate.runnable(second), samples, options);
        }
    }
}
