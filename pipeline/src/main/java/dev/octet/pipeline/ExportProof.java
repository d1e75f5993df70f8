package dev.octet.pipeline;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.evaluate.Evaluation;
import dev.octet.converter.evaluate.EvaluationOptions;
import dev.octet.converter.evaluate.ExpertChoices;
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
import dev.octet.formats.onnx.OnnxReader;
import dev.octet.formats.tensor.DType;
import dev.octet.pipeline.run.RunScales;
import dev.octet.quant.recipe.Recipe;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.step.ForwardSession;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
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

    /** Of eight experts of which a token gets two, a router that is another one chooses three of four otherwise. */
    private static final double CHOICES_GATE = 0.25;

    private ExportProof() {}

    /** Rules on which modules a configuration covers: where they are broken, a reader takes other modules for quantised than this proof does. */
    private static final Set<String> COVERING =
            Set.of("linear-unstored", "linear-not-quantized", "exclude-contradicted", "scale-missing");

    /**
     * Runs both.
     *
     * @param choices of the routers, which {@code trainer} computes as well; the file computes with them
     * @param untrained the canonical model that the run was started with; with the exported adapter in it where one was exported
     */
    static Prove.Result of(
            ForwardSession trainer,
            Optional<ExpertChoices> choices,
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
            Optional<ExpertChoices> given = Optional.empty();
            if (isAdapter || isCheckpoint || choices.isPresent()) {
                try (@Nullable
                                CheckpointConverter checkpoint =
                                        isCheckpoint ? CheckpointConverter.open(candidate) : null;
                        Arena arena = Arena.ofShared()) {
                    GraphModel graph;
                    if (checkpoint != null) {
                        graph = standard(checkpoint.computedIn(untrained, reading(exported), arena));
                    } else {
                        graph = isAdapter ? standard(untrained) : OnnxReader.read(candidate, arena);
                    }
                    Optional<GraphModel> led = choices.flatMap(c -> c.given(graph));
                    given = led.flatMap(_ -> choices);
                    if (isAdapter || isCheckpoint || led.isPresent()) {
                        ModelFile.save(Model.of(led.orElse(graph)), read);
                        candidate = read;
                    }
                }
            }
            ModelComparison comparison = Evaluation.compare(
                    batch -> trainer.outputs(batch.tensors(), Arena.ofAuto()),
                    candidate,
                    isAdapter || isCheckpoint || exported.target().equals(new Target.Graph(OnnxTarget.TENSORRT)),
                    data,
                    options);
            return result(
                    comparison, given, data.name(), gate, isCheckpoint ? uncovered(exported.output()) : List.of());
        }
    }

    private static GraphModel standard(GraphModel model) {
        return new StandardOps().apply(model, new PassLog());
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
    private static CheckpointGraph.Reading reading(Exported exported) {
        Recipe recipe = exported.recipe();
        return new CheckpointGraph.Reading(
                recipe == null ? null : recipe.input(), exported.target() == Target.Floats.HUGGINGFACE);
    }

    private static List<Finding> uncovered(Path checkpoint) throws IOException {
        return Verifier.verify(checkpoint, VerifyOptions.defaults()).findings().stream()
                .filter(f -> f.severity() == Severity.ERROR && COVERING.contains(f.rule()))
                .toList();
    }

    private static Prove.Result result(
            ModelComparison comparison,
            Optional<ExpertChoices> choices,
            String data,
            double gate,
            List<Finding> uncovered) {
        List<Prove.Gap> gaps = comparison.outputs().stream()
                .filter(o -> choices.isEmpty() || !choices.get().isChoice(o))
                .map(o ->
                        new Prove.Gap(o.output(), o.maxAbsDifference(), o.cosineMean(), Math.pow(10, -o.sqnrDb() / 20)))
                .toList();
        double worst = gaps.stream().mapToDouble(Prove.Gap::relative).max().orElse(Double.NaN);
        Double changed = choices.map(c -> c.changed(comparison)).orElse(null);
        // what is not a number passes no gate
        boolean passed = worst <= gate && (changed == null || changed <= CHOICES_GATE) && uncovered.isEmpty();
        return new Prove.Result(
                data, comparison.samples(), gaps, worst, gate, changed, CHOICES_GATE, uncovered, passed);
    }
}
