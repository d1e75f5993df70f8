package dev.octet.pipeline;

import dev.octet.converter.TrainedModel;
import dev.octet.converter.checkpoint.MastersFolder;
import dev.octet.converter.merge.AdapterDeltas;
import dev.octet.formats.ModelFile;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.DType;
import dev.octet.pipeline.run.MergedConstants;
import dev.octet.pipeline.run.OpenedModel;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Adapters into the weights of an ONNX model in floats, written as F32. */
final class GraphMerge {
    private final Merge.Request request;
    private final List<AdapterDeltas.Weighted> adapters;
    private final Job job;

    GraphMerge(Merge.Request request, List<AdapterDeltas.Weighted> adapters, Job job) {
        this.request = request;
        this.adapters = adapters;
        this.job = job;
    }

    Merge.Result run() throws IOException {
        if (request.form().isPresent()) {
            throw job.invalid(
                    "--recipe is for checkpoints, and '" + request.base() + "' is an ONNX model",
                    "merge without it, then quantise the result with octet quantize");
        }
        job.requireOnnxName(request.output());
        job.refuseExisting(request.output());
        long from = System.nanoTime();
        try (OpenedModel base = OpenedModel.of(request.base());
                Arena arena = Arena.ofShared()) {
            GraphModel canonical = base.canonical();
            requireFloats(canonical);
            MergedConstants merged =
                    MergedConstants.of(canonical, request.base().toString(), adapters, request.direction(), arena);
            if (merged.measures().stream().noneMatch(m -> m.changed())) {
                throw new InvalidDataException(
                        "the merge would change nothing: every sum is the weight itself",
                        request.base() + ", " + merged.measures().size() + " weights",
                        "check that the adapter was trained");
            }
            List<Merge.Weight> weights =
                    merged.measures().stream().map(Merge.Weight::of).toList();
            if (job.dryRun()) {
                return result(weights, merged.notes(), null, "nothing is written", 0);
            }
            try (TrainedModel model = TrainedModel.of(base.converter(), merged.weights(), Map.of());
                    MastersFolder work = MastersFolder.beside(request.output())) {
                Model plain = Model.of(model.plain(DType.F32));
                MergeProof.@Nullable Result proof = null;
                String missing = "--no-proof";
                if (request.proof().isPresent()) {
                    Path made = work.path().resolve("merged.onnx");
                    ModelFile.save(plain, made);
                    try {
                        proof = new MergeProof(request, adapters, job)
                                .of(made, request.proof().get());
                        missing = null;
                    } catch (UnsupportedModelException e) {
                        missing = e.what();
                    } catch (MergeProof.NoReference e) {
                        missing = e.getMessage();
                    }
                }
                if (proof == null || proof.passed()) {
                    ModelFile.save(plain, request.output());
                }
                return result(weights, merged.notes(), proof, missing, (System.nanoTime() - from) / 1e9);
            }
        }
    }

    private void requireFloats(GraphModel model) {
        boolean quantised = model.graph().nodes().stream().anyMatch(n -> n.is("DequantizeLinear"));
        if (quantised) {
            throw new UnsupportedModelException(
                    "adapters are not merged into a quantised ONNX model",
                    request.base().toString(),
                    "merge into the model in floats, then quantise the result with octet quantize");
        }
    }

    private Merge.Result result(
            List<Merge.Weight> weights,
            List<String> notes,
            MergeProof.@Nullable Result proof,
            @Nullable String missing,
            double seconds)
            throws IOException {
        return new Merge.Result(
                request.base().toString(),
                Merge.adapters(adapters),
                request.output().toString(),
                Merge.text(request.direction()),
                "ONNX, F32",
                job.dryRun(),
                Files.size(request.base()),
                Files.exists(request.output()) ? Files.size(request.output()) : 0,
                seconds,
                weights,
                List.of(),
                notes,
                proof,
                missing,
                List.of());
    }
}
