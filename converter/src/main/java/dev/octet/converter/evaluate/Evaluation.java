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

    private Evaluation() {}

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
        return EvaluatedPart.joined(List.of(part(a, b, data, options)), data.name());
    }

    /**
     * The same of some samples, where several processes share them out.
     *
     * @param data the samples of this part
     * @throws InvalidDataException when the data do not fit, the models have no output in common, or a perplexity is requested but the
     *     models have no token logits
     * @throws IOException when data cannot be read
     */
    public static EvaluatedPart part(
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
        EvaluatedPart part = new EvaluatedPart(notCompared);
        boolean perplexity = options.perplexity();
        long tokenBytes = 0;
        int size = a.fixedBatch().orElse(Math.min(options.batchSize(), data.largestBatch()));
        boolean bounded = perplexity && a.fixedBatch().isEmpty();
        Batch batch;
        for (int first = 0; first < data.count(); first += batch.size()) {
            batch = data.batch(first, Math.min(bounded && first == 0 ? 1 : size, data.count() - first));
            long most = bounded ? mostSamples(batch, tokenBytes) : size;
            if (batch.size() > most) {
                batch = data.batch(first, Math.toIntExact(most));
            }
            try (OnnxRuntimeSession.Outputs x = a.run(batch, common);
                    OnnxRuntimeSession.Outputs y = b.run(batch, common)) {
                EvaluatedPart.BatchSums sums = part.next(batch, common, perplexity);
                for (String name : x.names()) {
                    if (y.names().contains(name)) { // numeric in one model only: listed as not compared
                        sums.add(batch, name, x.read(name), y.read(name));
                    }
                }
                part.addNotCompared(x.notNumeric());
                part.addNotCompared(y.notNumeric());
                tokenBytes = sums.tokenBytes();
            }
            options.progress().samples(first + batch.size(), data.count());
        }
        return part;
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
     * @param reference computes at least one of the candidate's outputs; what it computes under the name of an input of the candidate is given to it
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
            EvaluatedPart part = new EvaluatedPart(Set.of());
            int size = session.fixedBatch().orElse(Math.min(options.batchSize(), data.largestBatch()));
            for (int first = 0; first < data.count(); first += size) {
                Batch batch = data.batch(first, Math.min(size, data.count() - first));
                Map<String, Tensor> computed = reference.outputs(batch);
                Map<String, Tensor> wanted = new LinkedHashMap<>(computed);
                wanted.keySet().retainAll(session.outputs());
                Map<String, Tensor> given = new LinkedHashMap<>(computed);
                given.keySet().retainAll(session.inputs());
                if (wanted.isEmpty()) {
                    throw new InvalidDataException(
                            "no output in common with the candidate's " + session.outputs(),
                            candidate.toString(),
                            "compare models that were made from the same one");
                }
                try (OnnxRuntimeSession.Outputs found = session.run(batch.with(given), wanted.keySet())) {
                    EvaluatedPart.BatchSums sums = part.next(batch, session.outputs(), false);
                    wanted.forEach((name, expected) -> sums.add(batch, name, expected, found.read(name)));
                }
                options.progress().samples(first + batch.size(), data.count());
            }
            return EvaluatedPart.joined(List.of(part), data.name());
        }
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
