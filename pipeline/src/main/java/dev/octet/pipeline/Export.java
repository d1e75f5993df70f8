package dev.octet.pipeline;

import dev.octet.converter.runtime.OnnxRuntime;
import dev.octet.formats.tensor.DType;
import dev.octet.pipeline.run.RunFolder;
import dev.octet.quant.recipe.Recipe;
import dev.octet.trainer.RunManifest;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.optimizer.WeightAveraging;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * {@code octet export}: a checkpoint of a run for evaluation and serving, with the run's scales, and the proof that the file computes what
 * the trainer does.
 *
 * <pre>{@code
 * Target target = Target.named("onnxruntime").orElseThrow();
 * Export.run(Export.Request.of(run, output, target).withProof(Prove.Options.defaults()), Job.defaults());
 * }</pre>
 */
public final class Export {
    private static final Set<DType> TYPES = Set.of(DType.F32, DType.BF16, DType.F16);

    private Export() {}

    /**
     * What to export.
     *
     * @param run the folder that training left
     * @param output a file that ends as the target says, or a folder to make
     * @param target who reads it
     * @param model where the model lies now that the run was started with; empty for where it lay then
     * @param step whose checkpoint; 0 for the newest, {@link RunFolder#BEST} for the best
     * @param type of weights that are not quantised: F32, BF16 or F16; empty for that of the Hugging Face folder that the run was started
     *     with, F32 without one and for graphs
     * @param recipe one of the target's; empty for the one that comes nearest to how the run computed
     * @param average which average of the weights that the run kept; empty for the weights themselves
     * @param proof how the file is proved; empty to leave the proof out
     */
    public record Request(
            Path run,
            Path output,
            Target target,
            Optional<Path> model,
            long step,
            Optional<DType> type,
            Optional<Recipe> recipe,
            Optional<WeightAveraging.Kind> average,
            Optional<Prove.Options> proof) {
        public Request {
            if (type.isPresent() && !TYPES.contains(type.get())) {
                throw new IllegalArgumentException("weights are exported as F32, BF16 or F16, not " + type.get());
            }
        }

        /** The newest checkpoint, as the run computed, without a proof. */
        public static Request of(Path run, Path output, Target target) {
            return new Request(
                    run,
                    output,
                    target,
                    Optional.empty(),
                    0,
                    Optional.empty(),
                    Optional.empty(),
                    Optional.empty(),
                    Optional.empty());
        }

        /** The same run, whose model lies elsewhere now. */
        public Request withModel(Path newModel) {
            return new Request(run, output, target, Optional.of(newModel), step, type, recipe, average, proof);
        }

        /** The checkpoint of another step. */
        public Request withStep(long newStep) {
            return new Request(run, output, target, model, newStep, type, recipe, average, proof);
        }

        /** The same with weights that are not quantised in another type. */
        public Request withType(DType newType) {
            return new Request(run, output, target, model, step, Optional.of(newType), recipe, average, proof);
        }

        /** The same by a recipe. */
        public Request withRecipe(Recipe newRecipe) {
            return new Request(run, output, target, model, step, type, Optional.of(newRecipe), average, proof);
        }

        /** The same with an average of the weights in their place. */
        public Request withAverage(WeightAveraging.Kind kind) {
            return new Request(run, output, target, model, step, type, recipe, Optional.of(kind), proof);
        }

        /** The same with a proof. */
        public Request withProof(Prove.Options newProof) {
            return new Request(run, output, target, model, step, type, recipe, average, Optional.of(newProof));
        }
    }

    /** A layer that is not in FP8. */
    public record Kept(String layer, String reason) {}

    /**
     * What was exported.
     *
     * @param run folder of the run
     * @param step of the checkpoint
     * @param target its label
     * @param output file or folder
     * @param recipe how weights are quantised; null when they are not
     * @param fp8Layers Linears in FP8
     * @param kept Linears that are not
     * @param notes what the user should know
     * @param proof null when none was asked for
     */
    public record Result(
            String run,
            long step,
            String target,
            String output,
            @Nullable String recipe,
            int fp8Layers,
            List<Kept> kept,
            List<String> notes,
            Prove.@Nullable Result proof) {
        public Result {
            kept = List.copyOf(kept);
            notes = List.copyOf(notes);
        }

        /** Whether the file is as it should be, as far as anybody asked. */
        public boolean passed() {
            return proof == null || proof.passed();
        }
    }

    /**
     * Writes the trained model, and proves it where the request says so.
     *
     * @throws dev.octet.formats.error.OctetException when the folder is not a run, or has not what the target or the recipe needs
     * @throws IOException when reading or writing fails
     */
    public static Result run(Request request, Job job) throws IOException {
        RunFolder.open(
                request.run(), request.model()); // that it is a run is said before what is in the way of the output
        job.refuseExisting(request.output());
        return run(request, ExportWriter.Mode.WRITE, job);
    }

    /** The same with a file that was written before. */
    static Result run(Request request, ExportWriter.Mode mode, Job job) throws IOException {
        check(request, job);
        if (request.proof().isEmpty()) {
            try (TrainedRun run = open(request)) {
                return result(request, run, run.export(request, mode, job), null);
            }
        }
        Prove.Options proof = request.proof().get();
        OnnxRuntime.require();
        try (Device device = proof.device().open(job.threads());
                TrainedRun run = open(request)) {
            Exported exported = run.export(request, mode, job);
            return result(request, run, exported, run.prove(exported, device, proof, job));
        }
    }

    /** Who reads a run by default: an adapter's run is exported to a PEFT folder; for other runs there is no default. */
    public static Optional<Target> defaultTarget(Path run) throws IOException {
        return Files.isRegularFile(run.resolve(RunManifest.NAME))
                ? RunFolder.setting(run, RunFolder.ADAPTER).map(_ -> Target.Floats.PEFT)
                : Optional.empty();
    }

    private static TrainedRun open(Request request) throws IOException {
        return TrainedRun.open(request.run(), request.model(), request.step(), request.average());
    }

    private static void check(Request request, Job job) {
        Target target = request.target();
        if (!request.output().toString().endsWith(target.extension())) {
            throw job.invalid(
                    "--target " + target.label() + " writes one file",
                    "end the name of --output in " + target.extension());
        }
        if (target == Target.Floats.PEFT
                && request.type().filter(t -> t != DType.F32).isPresent()) {
            throw job.invalid("adapters are written in F32, as they were trained", "leave --dtype out");
        }
        if (target instanceof Target.Graph && request.type().isPresent()) {
            throw job.invalid("--dtype is for unquantised targets and checkpoints", "leave it out");
        }
        if (target.recipes().isEmpty() && request.recipe().isPresent()) {
            throw job.invalid("--recipe is for quantised targets", "leave it out");
        }
    }

    private static Result result(Request request, TrainedRun run, Exported exported, Prove.@Nullable Result proof) {
        Recipe recipe = exported.recipe();
        return new Result(
                run.folder().toString(),
                run.step(),
                request.target().label(),
                request.output().toString(),
                recipe == null ? null : recipe.name(),
                exported.fp8Layers(),
                exported.kept(),
                exported.notes(),
                proof);
    }
}
