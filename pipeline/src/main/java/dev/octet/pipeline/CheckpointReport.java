package dev.octet.pipeline;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.checkpoint.CheckpointPlan;
import dev.octet.converter.checkpoint.LinearNames;
import dev.octet.converter.checkpoint.TensorStep;
import dev.octet.converter.compare.CompareOptions;
import dev.octet.converter.compare.ModelDiff;
import dev.octet.converter.compare.TensorComparison;
import dev.octet.converter.compare.TensorDiff;
import dev.octet.converter.report.HtmlPage;
import dev.octet.converter.report.ReportData;
import dev.octet.converter.report.RunFacts;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.model.ModelFingerprint;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Compares a checkpoint that was quantised with the original, and writes what came of it as one self-contained page. */
final class CheckpointReport {
    private CheckpointReport() {}

    /**
     * What the page is drawn from.
     *
     * @param weights those that are quantised, worst first
     * @param sqnrDb of all weights together, dB
     */
    record Data(
            CheckpointOutcome outcome,
            List<Weight> weights,
            double sqnrDb,
            double sqnrDbMin,
            List<ReportData.Part> parts,
            RunFacts run) {}

    /** A quantised weight against the original, with its number format. */
    record Weight(String name, String scheme, double sqnrDb, double cosine, double maxAbsError) {}

    /**
     * Reads both checkpoints and writes the page atomically.
     *
     * @throws IOException when a file cannot be read, or the page not be written
     */
    static void write(CheckpointPlan plan, CheckpointOutcome outcome, Stopwatch watch, Job job, Path path)
            throws IOException {
        Path source = Path.of(outcome.model());
        Path target = Path.of(outcome.output());
        CompareOptions options = CompareOptions.defaults()
                .withThreads(job.threads())
                .withProgress((done, total) ->
                        job.listener().progress("comparing with the original", done, total, "elements"));
        ModelDiff diff = TensorComparison.compare(source, target, options);
        watch.step("compare with the original");
        Set<String> quantized =
                outcome.weights().stream().map(CheckpointOutcome.Weight::name).collect(Collectors.toSet());
        List<Weight> weights = diff.tensors().stream()
                .filter(t -> quantized.contains(t.b()))
                .map(CheckpointReport::weight)
                .toList();
        RunFacts run = new Provenance(job).facts(Provenance.Ran.OCTET, digests(source, target), watch.timings());
        Data data = new Data(
                outcome, weights, diff.summary().sqnrDb(), diff.summary().sqnrDbMin(), parts(plan), run);
        HtmlPage.write("checkpoint", outcome.model(), data, path);
    }

    private static Weight weight(TensorDiff t) {
        return new Weight(t.b(), t.schemeB(), t.sqnrDb(), t.cosine(), t.maxAbsError());
    }

    /** Of a file all its bytes; of a folder its fingerprint, because reading all of a large model would take longer than the job. */
    private static List<RunFacts.Digest> digests(Path... checkpoints) throws IOException {
        List<RunFacts.Digest> digests = new ArrayList<>();
        for (Path checkpoint : checkpoints) {
            digests.add(
                    Files.isRegularFile(checkpoint)
                            ? new RunFacts.Digest(checkpoint.toString(), Sha256.of(checkpoint))
                            : new RunFacts.Digest(
                                    "config.json and three samples of each tensor of " + checkpoint,
                                    fingerprint(checkpoint)));
        }
        return digests;
    }

    private static String fingerprint(Path checkpoint) throws IOException {
        String config = ModelConfig.read(checkpoint).map(ObjectNode::toString).orElse("");
        try (ModelFile file = ModelFile.open(checkpoint)) {
            return ModelFingerprint.of(config, file.model().tensors());
        }
    }

    private static List<ReportData.Part> parts(CheckpointPlan plan) {
        Map<String, ReportData.Part> parts = new LinkedHashMap<>();
        for (String name : List.of("quantised weights", "their scales", "embeddings and heads", "others")) {
            parts.put(name, new ReportData.Part(name, 0, 0));
        }
        for (TensorStep step : (Iterable<TensorStep>) steps(plan)::iterator) {
            long target =
                    step.targets().stream().mapToLong(TensorSpec::byteSize).sum();
            if (step instanceof TensorStep.Quantize) {
                long codes = step.targets().getFirst().byteSize();
                add(parts, "quantised weights", step.sourceBytes(), codes);
                add(parts, "their scales", 0, target - codes);
            } else {
                add(parts, kind(step), step.sourceBytes(), target);
            }
        }
        parts.values().removeIf(p -> p.original() + p.converted() == 0);
        return List.copyOf(parts.values());
    }

    private static Stream<TensorStep> steps(CheckpointPlan plan) {
        return plan.shards().stream().flatMap(s -> s.steps().stream());
    }

    private static String kind(TensorStep step) {
        Shape shape = step.targets().isEmpty()
                ? Shape.SCALAR
                : step.targets().getFirst().shape();
        return switch (LinearNames.role(step.name(), shape)) {
            case EMBEDDING, HEAD -> "embeddings and heads";
            case LINEAR, FUSED_EXPERTS, NORM, ROUTER, OTHER -> "others";
        };
    }

    private static void add(Map<String, ReportData.Part> parts, String name, long original, long converted) {
        parts.merge(
                name,
                new ReportData.Part(name, original, converted),
                (a, b) -> new ReportData.Part(name, a.original() + b.original(), a.converted() + b.converted()));
    }
}
