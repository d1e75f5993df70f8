package dev.octet.converter.evaluate;

import dev.octet.converter.data.Batch;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.data.TokenMask;
import dev.octet.converter.runtime.InstrumentedModel;
import dev.octet.converter.runtime.OnnxRuntime;
import dev.octet.converter.runtime.OnnxRuntimeSession;
import dev.octet.converter.runtime.SessionSettings;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** Runs two models over the same samples and compares their outputs batch by batch. */
public final class Evaluation {
    /** Most bytes of logits of one model on the heap; both models take twice this plus temporaries. */
    private static final long MAX_LOGIT_BYTES = 256L << 20;

    private final Map<String, OutputSums> outputs = new LinkedHashMap<>();
    private @Nullable Embeddings embeddings;
    private final boolean scores;
    private long samples;

    /**
     * @param outputs the outputs compared: a model that has scores of tokens or classes among them is not one of embeddings
     */
    private Evaluation(Collection<String> outputs) {
        this.scores = outputs.stream().anyMatch(OutputSums::isNamedLikeScores);
    }

    /**
     * Compares the outputs of two models. Both are loaded with ONNX Runtime's defaults, as their users load them.
     *
     * @param reference an ONNX file, usually the original
     * @param candidate an ONNX file, usually the converted one
     * @throws InvalidDataException when the data do not fit, or the models have no output in common
     * @throws dev.octet.formats.error.UnsupportedModelException when ONNX Runtime refuses a model
     * @throws dev.octet.formats.error.UnavailableException when ONNX Runtime cannot be loaded
     * @throws IOException when a file cannot be read
     */
    public static ModelComparison compare(Path reference, Path candidate, Dataset data, EvaluationOptions options)
            throws IOException {
        SessionSettings settings = SessionSettings.defaults().withThreads(options.threads());
        try (OnnxRuntimeSession a = OnnxRuntime.open(reference, settings);
                OnnxRuntimeSession b = OnnxRuntime.open(candidate, settings)) {
            return compare(a, b, data, options);
        }
    }

    /**
     * Compares the outputs of two loaded models.
     *
     * @throws InvalidDataException when the data do not fit, the models have no output in common, or a perplexity is requested but the
     *     models have no token logits
     * @throws IOException when data cannot be read
     */
    public static ModelComparison compare(
            OnnxRuntimeSession a, OnnxRuntimeSession b, Dataset data, EvaluationOptions options) throws IOException {
        Set<String> common = new LinkedHashSet<>(a.outputs());
        common.retainAll(b.outputs());
        if (common.isEmpty()) {
            throw new InvalidDataException(
                    "the models have no output in common",
                    "the reference has " + a.outputs() + ", the candidate has " + b.outputs(),
                    "compare models that were made from the same one");
        }
        if (options.perplexity() && !common.contains(NextTokens.LOGITS)) {
            throw new InvalidDataException(
                    "perplexity needs an output 'logits' of both models",
                    "both have " + common,
                    "give causal language models, or leave perplexity out");
        }
        Set<String> notCompared = new LinkedHashSet<>(a.outputs());
        notCompared.addAll(b.outputs());
        notCompared.removeAll(common);
        Evaluation evaluation = new Evaluation(common);
        NextTokens next = options.perplexity() ? new NextTokens() : null;
        int size = a.fixedBatch().orElse(Math.min(options.batchSize(), data.largestBatch()));
        boolean bounded = next != null && a.fixedBatch().isEmpty();
        Batch batch;
        for (int first = 0; first < data.count(); first += batch.size()) {
            batch = data.batch(first, Math.min(bounded && first == 0 ? 1 : size, data.count() - first));
            long most = next != null && bounded ? mostSamples(batch, next.tokenBytes()) : size;
            if (batch.size() > most) {
                batch = data.batch(first, Math.toIntExact(most));
            }
            try (OnnxRuntimeSession.Outputs x = a.run(batch, common);
                    OnnxRuntimeSession.Outputs y = b.run(batch, common)) {
                evaluation.add(batch, x, y, next);
                notCompared.addAll(x.notNumeric());
                notCompared.addAll(y.notNumeric());
            }
            options.progress().samples(first + batch.size(), data.count());
        }
        return evaluation.result(notCompared, next == null ? null : next.result(data.name()));
    }

    /** Batch size at which the logits of a large vocabulary fit. */
    private static long mostSamples(Batch batch, long tokenBytes) {
        return tokenBytes == 0
                ? batch.size()
                : Math.max(1, MAX_LOGIT_BYTES / Math.max(1, tokenBytes * NextTokens.length(batch)));
    }

    /**
     * Compares the outputs of a model with another computation on the same samples.
     *
     * @param reference computes at least one of the candidate's outputs
     * @param candidate an ONNX file
     * @param forOthers whether the file is meant for another runtime; ONNX Runtime then computes quantised groups as written instead of
     *     with fused kernels
     * @throws InvalidDataException when the data do not fit, or there is no output in common
     * @throws IOException when a file cannot be read
     */
    public static ModelComparison compare(
            ModelRun reference, Path candidate, boolean forOthers, Dataset data, EvaluationOptions options)
            throws IOException {
        SessionSettings settings = new SessionSettings(options.threads(), !forOthers);
        try (OnnxRuntimeSession session = OnnxRuntime.open(candidate, settings)) {
            Evaluation evaluation = new Evaluation(session.outputs());
            int size = session.fixedBatch().orElse(Math.min(options.batchSize(), data.largestBatch()));
            for (int first = 0; first < data.count(); first += size) {
                Batch batch = data.batch(first, Math.min(size, data.count() - first));
                Map<String, Tensor> wanted = new LinkedHashMap<>(reference.outputs(batch));
                wanted.keySet().retainAll(session.outputs());
                if (wanted.isEmpty()) {
                    throw new InvalidDataException(
                            "no output in common with the candidate's " + session.outputs(),
                            candidate.toString(),
                            "compare models that were made from the same one");
                }
                try (OnnxRuntimeSession.Outputs found = session.run(batch, wanted.keySet())) {
                    TokenMask mask = batch.mask().orElse(null);
                    wanted.forEach(
                            (name, expected) -> evaluation.add(name, expected, found.read(name), batch.size(), mask));
                }
                evaluation.samples += batch.size();
                options.progress().samples(first + batch.size(), data.count());
            }
            return evaluation.result(Set.of(), null);
        }
    }

    private void add(
            Batch batch, OnnxRuntimeSession.Outputs x, OnnxRuntimeSession.Outputs y, @Nullable NextTokens next) {
        TokenMask mask = batch.mask().orElse(null);
        for (String name : x.names()) {
            if (!y.names().contains(name)) {
                continue; // numeric in one model only: listed as not compared
            }
            Tensor a = x.read(name);
            Tensor b = y.read(name);
            add(name, a, b, batch.size(), mask);
            if (next != null && name.equals(NextTokens.LOGITS)) {
                next.add(batch, a, b);
            }
        }
        samples += batch.size();
    }

    private void add(String name, Tensor a, Tensor b, int size, @Nullable TokenMask mask) {
        outputs.computeIfAbsent(name, OutputSums::new).add(a, b, size, mask);
        if (mask != null && !scores && Embeddings.fits(a, mask)) {
            addEmbeddings(name, a, b, mask);
        }
    }

    /** Adds embeddings; of several outputs of that shape, the first counts. */
    private void addEmbeddings(String name, Tensor a, Tensor b, TokenMask mask) {
        Embeddings e = embeddings;
        if (e == null) {
            e = new Embeddings(name, (int) a.shape().dim(2));
            embeddings = e;
        }
        if (e.output().equals(name)) {
            e.add(a, b, mask);
        }
    }

    private ModelComparison result(Set<String> notCompared, @Nullable PerplexityComparison perplexity) {
        return new ModelComparison(
                samples,
                outputs.values().stream().map(OutputSums::result).toList(),
                embeddings == null ? null : embeddings.compare(),
                perplexity,
                List.copyOf(notCompared));
    }

    /**
     * Compares values inside two models.
     *
     * @param reference standard ONNX
     * @param candidate standard ONNX; its FP8 groups are computed in FP32, because taps prevent their fusion anyway
     * @param pairs counterpart in the candidate of each value of the reference, with the same number of elements
     * @return one comparison for each pair, in that order
     * @throws InvalidDataException when a value does not exist, two have different shapes, or the data do not fit
     * @throws IOException when data cannot be read
     */
    public static List<LayerComparison> compareLayers(
            GraphModel reference,
            GraphModel candidate,
            Map<String, String> pairs,
            Dataset data,
            EvaluationOptions options)
            throws IOException {
        if (pairs.isEmpty()) {
            return List.of();
        }
        SessionSettings settings = new SessionSettings(options.threads(), false);
        List<Pair> sums = new ArrayList<>();
        pairs.forEach((r, c) -> sums.add(new Pair(r, c, new OutputDifference())));
        try (InstrumentedModel a = InstrumentedModel.open(reference, pairs.keySet(), settings);
                InstrumentedModel b = InstrumentedModel.open(candidate, pairs.values(), settings)) {
            int size = Math.toIntExact(InputSpec.fixedBatch(InputSpec.of(reference))
                    .orElse(Math.min(options.batchSize(), data.largestBatch())));
            for (int first = 0; first < data.count(); first += size) {
                Batch batch = data.batch(first, Math.min(size, data.count() - first));
                try (OnnxRuntimeSession.Outputs x = a.run(batch);
                        OnnxRuntimeSession.Outputs y = b.run(batch)) {
                    TokenMask mask = batch.mask().orElse(null);
                    sums.forEach(p -> addLayer(p, a, x.read(p.reference()), y.read(p.candidate()), mask));
                }
                options.progress().samples(first + batch.size(), data.count());
            }
        }
        return sums.stream().map(Pair::result).toList();
    }

    /** Two values and the sums of their difference so far. */
    private record Pair(String reference, String candidate, OutputDifference sum) {
        LayerComparison result() {
            return new LayerComparison(reference, candidate, sum.elements(), sum.sqnrDb(), sum.maxAbs());
        }
    }

    private static void addLayer(Pair pair, InstrumentedModel model, Tensor x, Tensor y, @Nullable TokenMask mask) {
        OutputDifference sum = pair.sum();
        long n = x.shape().elementCount();
        // shapes may differ in the token axes (the FP8 form flattens), not in the number of elements
        if (n != y.shape().elementCount()) {
            throw new InvalidDataException(
                    "value '" + pair.reference() + "' has shape " + x.shape() + ", its counterpart '" + pair.candidate()
                            + "' " + y.shape(),
                    "comparison of layers",
                    "pair values with the same meaning");
        }
        long perToken = mask == null
                ? 0
                : model.rowLength(pair.reference(), x.shape(), mask).orElse(0L);
        if (mask == null || perToken == 0) {
            sum.add(x.bytes(), y.bytes(), 0, n);
            return;
        }
        for (int row = mask.kept().nextSetBit(0); row >= 0; row = mask.kept().nextSetBit(row + 1)) {
            sum.add(x.bytes(), y.bytes(), row * perToken, (row + 1) * perToken);
        }
    }
}
