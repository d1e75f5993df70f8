package dev.octet.pipeline;

import dev.octet.converter.compare.CompareOptions;
import dev.octet.converter.compare.ModelDiff;
import dev.octet.converter.compare.TensorComparison;
import dev.octet.converter.compare.TensorDiff;
import dev.octet.converter.verify.Finding;
import dev.octet.converter.verify.Severity;
import dev.octet.converter.verify.Verification;
import dev.octet.converter.verify.Verifier;
import dev.octet.converter.verify.VerifyOptions;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.file.TemporaryFolder;
import dev.octet.formats.tensor.DType;
import dev.octet.trainer.optimizer.WeightAveraging;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Optional;

/** Whether an exported model is what its run has trained: the checks of {@code verify}, the tensors, and the outputs. */
final class ExportCheck {
    private static final int PLACES = 3;

    private final Export.Request request;
    private final Job job;

    private ExportCheck(Export.Request request, Job job) {
        this.request = request;
        this.job = job;
    }

    /**
     * Checks a model against a checkpoint of the run that it was exported from. Writes nothing but temporary files.
     *
     * @param step of the checkpoint; 0 for the newest
     * @param average which average of the weights was exported; empty for the weights themselves
     * @throws dev.octet.formats.error.OctetException when the folder is not a run, or the file is not a model
     * @throws IOException when reading fails
     */
    static Doctor.ExportFindings of(
            Path exported,
            Path run,
            Optional<Path> model,
            long step,
            Optional<WeightAveraging.Kind> average,
            Prove.Options proof,
            Job job)
            throws IOException {
        if (!Files.exists(exported)) {
            throw new NoSuchFileException(exported.toString());
        }
        Export.Request request = Export.Request.of(run, exported, Target.Floats.ONNX)
                .withStep(step)
                .withProof(proof);
        if (model.isPresent()) {
            request = request.withModel(model.get());
        }
        if (average.isPresent()) {
            request = request.withAverage(average.get());
        }
        return new ExportCheck(request, job).run();
    }

    /** What is wrong, of a model that did not pass: its first broken rule, or its worst weight. */
    static String worst(Doctor.ExportFindings findings) {
        if (findings.errors().isEmpty()) {
            return String.format(
                    Locale.ROOT,
                    "its worst weight is %s, %.1f dB from the run's",
                    findings.worstTensor(),
                    findings.sqnrDbMin());
        }
        Doctor.ExportFinding first = findings.errors().getFirst();
        return first.what()
                + (first.places().isEmpty() ? "" : " in " + first.places().getFirst())
                + (first.count() > 1 ? " and " + (first.count() - 1) + " more" : "");
    }

    private Doctor.ExportFindings run() throws IOException {
        Path exported = request.output();
        boolean isCheckpoint = Checkpoint.isCheckpoint(exported);
        try (TemporaryFolder scratch = TemporaryFolder.create("doctor")) {
            Path trained = trained(scratch.path(), isCheckpoint);
            Verification verified = Verifier.verify(
                    exported, VerifyOptions.defaults().withDeep(true).withOriginal(trained));
            ModelDiff diff = TensorComparison.compare(
                    trained, exported, CompareOptions.defaults().withThreads(job.threads()));
            List<Doctor.ExportFinding> errors = verified.findings().stream()
                    .filter(f -> f.severity() == Severity.ERROR)
                    .map(ExportCheck::finding)
                    .toList();
            Optional<TensorDiff> worst = diff.tensors().stream().findFirst();
            Prove.Result proof = prove(verified, isCheckpoint);
            return new Doctor.ExportFindings(
                    exported.toString(),
                    verified.layout(),
                    errors,
                    diff.summary().sqnrDbMin(),
                    worst.map(TensorDiff::b).orElse(""),
                    proof,
                    errors.isEmpty() && proof.passed());
        }
    }

    private static Doctor.ExportFinding finding(Finding finding) {
        return new Doctor.ExportFinding(
                finding.rule(),
                finding.what(),
                finding.count(),
                finding.places().stream()
                        .limit(PLACES)
                        .map(Finding.Place::toString)
                        .toList(),
                finding.fix());
    }

    /** The weights as the run has them, in F32, in the form that the exported model can be compared with. */
    private Path trained(Path folder, boolean isCheckpoint) throws IOException {
        Target.Floats form = Target.Floats.ONNX;
        if (isCheckpoint) {
            try (TrainedRun run = TrainedRun.open(request.run(), request.model(), request.step(), request.average())) {
                form = run.huggingFace().isPresent() ? Target.Floats.HUGGINGFACE : Target.Floats.SAFETENSORS;
            }
        }
        Path output = folder.resolve("trained" + form.extension());
        Export.run(base(output, form).withType(DType.F32), job);
        return output;
    }

    /** The same checkpoint of the same run, to another place. */
    private Export.Request base(Path output, Target target) {
        Export.Request same = Export.Request.of(request.run(), output, target).withStep(request.step());
        if (request.average().isPresent()) {
            same = same.withAverage(request.average().get());
        }
        return request.model().isPresent() ? same.withModel(request.model().get()) : same;
    }

    private Prove.Result prove(Verification verified, boolean isCheckpoint) throws IOException {
        Target unquantised =
                Files.isDirectory(request.output()) ? Target.Floats.HUGGINGFACE : Target.Floats.SAFETENSORS;
        Target target = isCheckpoint ? Target.named(verified.layout()).orElse(unquantised) : Target.Floats.ONNX;
        Export.Request proved =
                base(request.output(), target).withProof(request.proof().orElseThrow());
        Prove.Result proof = Prove.run(proved, job).proof();
        if (proof == null) {
            throw new IllegalStateException("a proof without a result");
        }
        return proof;
    }
}
