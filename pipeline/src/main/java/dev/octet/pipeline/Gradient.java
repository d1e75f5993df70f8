package dev.octet.pipeline;

import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.TrainingGraph;
import dev.octet.converter.pass.PassLog;
import dev.octet.formats.ModelFile;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.autodiff.Programs;
import dev.octet.trainer.autodiff.Ties;
import dev.octet.trainer.autodiff.Ties.Tie;
import dev.octet.trainer.check.Golden;
import dev.octet.trainer.check.GoldenDifference;
import dev.octet.trainer.check.GradientCheck;
import dev.octet.trainer.config.LossConfig;
import dev.octet.trainer.data.Feed;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.loss.LossGraph;
import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.Program;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/** {@code octet gradient}: the outputs and gradients of a graph, compared with expected ones. */
public final class Gradient {
    private static final String LABELS = "labels";

    /** Label of positions that do not count, in torch and transformers. */
    private static final long IGNORED = -100;

    private Gradient() {}

    /** What parameters that an export wrote twice are. */
    public enum Twins {
        /** Two parameters. */
        APART,
        /** One, as stored or transposed, whose gradients are one sum. */
        TIED
    }

    /**
     * A loss to differentiate.
     *
     * @param output what it is computed from; empty for {@code logits}, or the only one
     */
    public record Loss(LossConfig.Type type, Optional<String> output) {
        /** Of the usual output. */
        public static Loss of(LossConfig.Type type) {
            return new Loss(type, Optional.empty());
        }

        /** Of this output. */
        public Loss withOutput(String name) {
            return new Loss(type, Optional.of(name));
        }
    }

    /**
     * What to compare.
     *
     * @param model an ONNX file, or a checkpoint whose graph follows from its configuration
     * @param golden safetensors file with in.INPUT, upstream.OUTPUT (or in.labels and a loss), out.OUTPUT, grad.NAME
     * @param tolerance how far an element may be from the expected one, relative to the largest of its tensor
     * @param loss empty where upstream gradients are in the file
     * @param renamed names of parameters in the graph by those in the file, where they differ
     * @param device {@code cpu} computes in F32, {@code reference} in F64
     */
    public record Request(
            Path model,
            Path golden,
            double tolerance,
            Optional<Loss> loss,
            Map<String, String> renamed,
            Twins twins,
            DeviceName device) {
        /** How far from expected is near enough. */
        public static final double TOLERANCE = 1e-5;

        /** Gradients of upstream gradients in the file, on the processor. */
        public static Request of(Path model, Path golden) {
            return new Request(model, golden, TOLERANCE, Optional.empty(), Map.of(), Twins.APART, DeviceName.CPU);
        }

        /** The same with another tolerance. */
        public Request withTolerance(double relative) {
            return new Request(model, golden, relative, loss, renamed, twins, device);
        }

        /** The same through a loss. */
        public Request withLoss(Loss newLoss) {
            return new Request(model, golden, tolerance, Optional.of(newLoss), renamed, twins, device);
        }

        /** The same with other names in the file. */
        public Request withRenamed(Map<String, String> graphByFile) {
            return new Request(model, golden, tolerance, loss, graphByFile, twins, device);
        }

        /** The same with parameters that were written twice taken for one. */
        public Request tied() {
            return new Request(model, golden, tolerance, loss, renamed, Twins.TIED, device);
        }

        /** The same on another device. */
        public Request withDevice(DeviceName newDevice) {
            return new Request(model, golden, tolerance, loss, renamed, twins, newDevice);
        }
    }

    /**
     * What was computed.
     *
     * @param device its name
     * @param passed whether every element is near enough
     * @param steps of the program
     * @param arenaBytes of temporaries
     * @param programSha256 digest of the program
     * @param program its steps, one line each
     * @param untied parameters that the export wrote twice and that were taken for two
     * @param differences from the largest error down
     */
    public record Result(
            String model,
            String golden,
            String device,
            boolean passed,
            int steps,
            long arenaBytes,
            String programSha256,
            String program,
            List<Tie> untied,
            List<GoldenDifference> differences) {}

    /**
     * Runs the graph forward and backward.
     *
     * @throws dev.octet.formats.error.OctetException when graph and file do not fit together
     * @throws IOException when reading fails
     */
    public static Result run(Request request, Job job) throws IOException {
        try (Device device = request.device().open(job.threads());
                ModelSource model = ModelSource.open(request.model());
                ModelFile file = ModelFile.open(request.golden())) {
            Golden read = Golden.of(file.model().tensors(), request.golden().toString());
            try (Converter converter = model.converter()) {
                GraphModel canonical = converter.canonical();
                Golden golden = read.withInputs(
                        Feed.withTokenTypes(read.inputs(), canonical.graph().inputs()));
                List<Tie> ties = Ties.find(canonical.graph());
                boolean tied = request.twins() == Twins.TIED;
                GradientCheck check = check(tied ? Ties.restore(canonical, ties) : canonical, golden, request);
                List<GoldenDifference> all = check.run(device).stream()
                        .sorted(Comparator.comparingDouble(GoldenDifference::error)
                                .reversed()
                                .thenComparing(GoldenDifference::tensor))
                        .toList();
                Program program = check.program();
                return new Result(
                        model.path().toString(),
                        request.golden().toString(),
                        device.name(),
                        all.getFirst().error() <= request.tolerance(),
                        program.steps().size(),
                        MemoryPlan.of(program).arenaBytes(),
                        program.digest(),
                        program.text(),
                        tied ? List.of() : ties,
                        all);
            }
        }
    }

    private static GradientCheck check(GraphModel model, Golden golden, Request request) {
        Map<String, Shape> shapes = new TreeMap<>();
        golden.inputs().forEach((name, t) -> shapes.put(name, t.shape()));
        GraphModel concrete = TrainingGraph.of(model, Programs.sizes(model.graph(), shapes), new PassLog());
        if (request.loss().isEmpty()) {
            return new GradientCheck(concrete, null, golden, request.renamed());
        }
        Loss loss = request.loss().get();
        LossConfig config = new LossConfig(loss.type(), loss.output(), LABELS, IGNORED, Optional.empty());
        LossGraph graph = LossGraph.of(concrete, config, labels(golden));
        return new GradientCheck(graph.model(), graph.loss(), golden, request.renamed());
    }

    private static OperandType labels(Golden golden) {
        Tensor labels = golden.inputs().get(LABELS);
        if (labels == null) {
            throw new InvalidOptionException(
                    "--loss needs in." + LABELS, "the golden file", "add the labels, or leave --loss out");
        }
        return new OperandType(labels.dtype(), labels.shape());
    }
}
