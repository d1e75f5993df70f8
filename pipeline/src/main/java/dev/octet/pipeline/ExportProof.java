package dev.octet.pipeline;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.evaluate.Evaluation;
import dev.octet.converter.evaluate.EvaluationOptions;
import dev.octet.converter.evaluate.ModelComparison;
import dev.octet.converter.lower.OnnxTarget;
import dev.octet.converter.lower.StandardOps;
import dev.octet.converter.pass.PassLog;
import dev.octet.converter.trained.CheckpointGraph;
import dev.octet.converter.verify.Finding;
import dev.octet.converter.verify.Severity;
import dev.octet.converter.verify.Verifier;
import dev.octet.converter.verify.VerifyOptions;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.file.TemporaryFolder;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.DType;
import dev.octet.pipeline.run.RunScales;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.Recipe;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.step.ForwardSession;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The logits of an exported file compared with those of the trainer. ONNX runs as it is; a checkpoint is put back into the graph that the run was
 * started with, computing what its readers compute. Neither sees anything of the run but the file.
 */
final class ExportProof {
    private static final double FP8_GATE = 0.15;
    private static final double NARROW_GATE = 0.03;
    private static final double GATE = 0.001;

    private ExportProof() {}

    /** Rules on which modules a configuration covers: where they are broken, a reader takes other modules for quantised than this proof does. */
    private static final Set<String> COVERING =
            Set.of("linear-unstored", "linear-not-quantized", "exclude-contradicted", "scale-missing");

    /**
     * Runs both.
     *
     * @param untrained the canonical model that the run was started with; with the exported adapter in it where one was exported
     */
    static Prove.Result of(
            ForwardSession trainer,
            Exported exported,
            GraphModel untrained,
            Dataset data,
            double gate,
            EvaluationOptions options)
            throws IOException {
        try (TemporaryFolder scratch = TemporaryFolder.create("proof")) {
            Path read = scratch.path().resolve("read.onnx");
            boolean isAdapter = exported.target() == Target.Floats.PEFT;
            boolean isCheckpoint = !isAdapter && Checkpoint.isCheckpoint(exported.output());
            Path candidate = exported.output();
            if (isAdapter) {
                ModelFile.save(Model.of(new StandardOps().apply(untrained, new PassLog())), read);
                candidate = read;
            } else if (isCheckpoint) {
                try (CheckpointConverter checkpoint = CheckpointConverter.open(candidate);
                        Arena arena = Arena.ofShared()) {
                    GraphModel graph = checkpoint.computedIn(
                            untrained,
                            new CheckpointGraph.Reading(
                                    input(exported.recipe()), exported.target() == Target.Floats.HUGGINGFACE),
                            arena);
                    ModelFile.save(Model.of(new StandardOps().apply(graph, new PassLog())), read);
                }
                candidate = read;
            }
            ModelComparison comparison = Evaluation.compare(
                    batch -> trainer.outputs(batch.tensors(), Arena.ofAuto()),
                    candidate,
                    isAdapter || isCheckpoint || exported.target().equals(new Target.Graph(OnnxTarget.TENSORRT)),
                    data,
                    options);
            return result(comparison, data.name(), gate, isCheckpoint ? uncovered(exported.output()) : List.of());
        }
    }

    /** What two right implementations stay below; docs/export.md says why. */
    static double gate(Exported exported, PrecisionPolicy policy, RunScales scales) {
        if (exported.recipe() != null
                || !scales.layers().isEmpty()
                || !scales.learned().isEmpty()) {
            return FP8_GATE;
        }
        return exported.type() != DType.F32 || policy.low() != DType.F32 ? NARROW_GATE : GATE;
    }

    /** How readers of a checkpoint quantise activations. */
    private static @Nullable OperandSpec input(@Nullable Recipe recipe) {
        return recipe == null ? null : recipe.input();
    }

    private static List<Finding> uncovered(Path checkpoint) throws IOException {
        return Verifier.verify(checkpoint, VerifyOptions.defaults()).findings().stream()
                .filter(f -> f.severity() == Severity.ERROR && COVERING.contains(f.rule()))
                .toList();
    }

    private static Prove.Result result(ModelComparison comparison, String data, double gate, List<Finding> uncovered) {
        List<Prove.Gap> gaps = comparison.outputs().stream()
                .map(o ->
                        new Prove.Gap(o.output(), o.maxAbsDifference(), o.cosineMean(), Math.pow(10, -o.sqnrDb() / 20)))
                .toList();
        double worst = gaps.stream().mapToDouble(Prove.Gap::relative).max().orElse(Double.NaN);
        // what is not a number passes no gate
        return new Prove.Result(
                data, comparison.samples(), gaps, worst, gate, uncovered, worst <= gate && uncovered.isEmpty());
    }
}
