package dev.octet.cli;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.evaluate.Evaluation;
import dev.octet.converter.evaluate.EvaluationOptions;
import dev.octet.converter.evaluate.ModelComparison;
import dev.octet.converter.lower.StandardOps;
import dev.octet.converter.pass.PassLog;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.model.Model;
import dev.octet.trainer.step.ForwardSession;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * The logits of an exported file beside those of the trainer. ONNX runs as it is; a checkpoint is put back into the graph that the run was
 * started with, computing what its readers compute. Neither sees anything of the run but the file.
 */
final class ExportProof {
    private ExportProof() {}

    /**
     * One output.
     *
     * @param maxAbs largest difference
     * @param cosine mean over samples
     * @param relative norm of the difference over that of the trainer's output
     */
    record Gap(String output, double maxAbs, double cosine, double relative) {}

    /**
     * What came of it.
     *
     * @param worst largest relative gap of any output
     */
    record Result(String data, long samples, List<Gap> gaps, double worst, double gate, boolean passed) {}

    /**
     * Runs both.
     *
     * @param untrained the canonical model that the run was started with
     * @param forOthers whether an ONNX file is for another runtime than ONNX Runtime
     * @param dynamicPerToken whether readers of the checkpoint find activation scales for each token
     */
    static Result of(
            ForwardSession trainer,
            Path exported,
            boolean forOthers,
            GraphModel untrained,
            boolean dynamicPerToken,
            Dataset data,
            double gate,
            EvaluationOptions options)
            throws IOException {
        Path scratch = Files.createTempDirectory("octet-proof");
        Path read = scratch.resolve("read.onnx");
        try {
            boolean isCheckpoint = Checkpoint.isCheckpoint(exported);
            Path candidate = exported;
            if (isCheckpoint) {
                try (CheckpointConverter checkpoint = CheckpointConverter.open(exported);
                        Arena arena = Arena.ofShared()) {
                    GraphModel graph = checkpoint.computedIn(untrained, dynamicPerToken, arena);
                    ModelFile.save(Model.of(new StandardOps().apply(graph, new PassLog())), read);
                }
                candidate = read;
            }
            ModelComparison comparison = Evaluation.compare(
                    batch -> trainer.outputs(batch.tensors(), Arena.ofAuto()),
                    candidate,
                    forOthers || isCheckpoint,
                    data,
                    options);
            return result(comparison, data.name(), gate);
        } finally {
            Files.deleteIfExists(read);
            Files.deleteIfExists(scratch);
        }
    }

    private static Result result(ModelComparison comparison, String data, double gate) {
        List<Gap> gaps = comparison.outputs().stream()
                .map(o -> new Gap(o.output(), o.maxAbsDifference(), o.cosineMean(), Math.pow(10, -o.sqnrDb() / 20)))
                .toList();
        double worst = gaps.stream().mapToDouble(Gap::relative).max().orElse(Double.NaN);
        // what is not a number passes no gate
        return new Result(data, comparison.samples(), gaps, worst, gate, worst <= gate);
    }
}
