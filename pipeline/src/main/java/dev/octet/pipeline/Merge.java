package dev.octet.pipeline;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.checkpoint.CheckpointPlan;
import dev.octet.converter.checkpoint.CheckpointResult;
import dev.octet.converter.checkpoint.ConversionRequest;
import dev.octet.converter.checkpoint.MastersFolder;
import dev.octet.converter.checkpoint.MergeMeasure;
import dev.octet.converter.checkpoint.TensorStep;
import dev.octet.converter.checkpoint.WholeFolder;
import dev.octet.converter.merge.AdapterDeltas;
import dev.octet.converter.merge.AdapterDeltas.Direction;
import dev.octet.converter.merge.BaseWeights;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.RunPaths;
import dev.octet.formats.peft.PeftAdapter;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.recipe.Recipe;
import dev.octet.trainer.adapter.MergeAwareness;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * {@code octet merge}: a base with adapters in its weights, in the layout of the base or any other, proved by running both.
 *
 * <pre>{@code
 * Merge.Result result = Merge.run(Merge.Request.of(base, List.of(adapter), output), Job.defaults());
 * }</pre>
 */
public final class Merge {
    /** Below this share of what an adapter adds, the merged weight is another one than was trained. */
    public static final double LEAST_KEPT = 0.5;

    private Merge() {}

    /**
     * The form of quantised weights in the output.
     *
     * @param layout choices within the layout
     */
    public record Form(Recipe recipe, Target.Checkpoint target, LayoutOptions layout) {
        /** As the layout's readers want it. */
        public static Form of(Recipe recipe, Target.Checkpoint target) {
            return new Form(recipe, target, LayoutOptions.defaults());
        }
    }

    /**
     * What to do.
     *
     * @param base a safetensors file, an index, a folder or an ONNX model in floats; the merged model where adapters are taken back
     * @param adapters PEFT folders
     * @param output a folder to make, or a file for a checkpoint of one or an ONNX model
     * @param weights a factor for each adapter; empty for 1 each
     * @param form how weights are quantised; empty for the base's own form, weight by weight
     * @param direction whether adapters go in or out
     * @param proof what to prove with; empty for no proof by running both
     */
    public record Request(
            Path base,
            List<Path> adapters,
            Path output,
            List<Double> weights,
            Optional<Form> form,
            Direction direction,
            Optional<Proof> proof) {
        public Request {
            adapters = List.copyOf(adapters);
            weights = List.copyOf(weights);
        }

        /** Into the base, in its own form, proved on random inputs. */
        public static Request of(Path base, List<Path> adapters, Path output) {
            return new Request(
                    base,
                    adapters,
                    output,
                    List.of(),
                    Optional.empty(),
                    Direction.MERGE,
                    Optional.of(Proof.defaults()));
        }

        /** The same with a factor for each adapter. */
        public Request withWeights(List<Double> factors) {
            return new Request(base, adapters, output, factors, form, direction, proof);
        }

        /** The same, quantised in another form. */
        public Request withForm(Form newForm) {
            return new Request(base, adapters, output, weights, Optional.of(newForm), direction, proof);
        }

        /** The same, taking the adapters back. */
        public Request unmerging() {
            return new Request(base, adapters, output, weights, form, Direction.UNMERGE, proof);
        }

        /** The same with another proof; empty for none. */
        public Request withProof(Optional<Proof> newProof) {
            return new Request(base, adapters, output, weights, form, direction, newProof);
        }
    }

    /**
     * What to prove with.
     *
     * @param samples empty for random inputs
     * @param count at most so many samples
     * @param gate what the relative difference may be; empty for what the number format of the weights allows
     */
    public record Proof(Optional<SampleSource> samples, int count, Optional<Double> gate) {
        /** How many samples are enough. */
        public static final int SAMPLES = 8;

        /** Random inputs. */
        public static Proof defaults() {
            return new Proof(Optional.empty(), SAMPLES, Optional.empty());
        }

        /** The same on samples of a file. */
        public Proof withSamples(SampleSource source) {
            return new Proof(Optional.of(source), count, gate);
        }

        /** The same with another gate. */
        public Proof withGate(double newGate) {
            return new Proof(samples, count, Optional.of(newGate));
        }
    }

    /** An adapter and its factor. */
    public record Adapter(String path, String type, double weight) {}

    /**
     * A tensor that adapters change.
     *
     * @param form how it is stored
     * @param error ||Q(W + D) - (W + D)|| / ||D||; null where D is zero, and for a dry run
     * @param kept share of D that survives: &lt;Q(W + D) - W, D&gt; / ||D||^2; null as above
     */
    public record Weight(
            String name,
            String form,
            @Nullable Double deltaNorm,
            @Nullable Double error,
            @Nullable Double kept) {
        static Weight of(MergeMeasure m) {
            boolean zero = m.deltaNorm() == 0;
            return new Weight(m.weight(), m.form(), m.deltaNorm(), zero ? null : m.error(), zero ? null : m.kept());
        }

        /** Whether less than {@link #LEAST_KEPT} survives. */
        public boolean isLost() {
            return kept != null && kept < LEAST_KEPT;
        }
    }

    /**
     * What came of it.
     *
     * @param weights tensors that adapters change, in the order of the base
     * @param warnings what is lost, and what to do about it
     * @param notes what the user should know
     * @param proof null without one; {@code proofMissing} then says why
     */
    public record Result(
            String model,
            List<Adapter> adapters,
            String output,
            String direction,
            String layout,
            boolean dryRun,
            long sourceBytes,
            long targetBytes,
            double seconds,
            List<Weight> weights,
            List<String> warnings,
            List<String> notes,
            MergeProof.@Nullable Result proof,
            @Nullable String proofMissing,
            List<String> leftBehind) {
        /** Whether the output was written; false where the proof failed. */
        public boolean passed() {
            return proof == null || proof.passed();
        }
    }

    /**
     * Merges adapters into a base, or takes them back. The output appears when it is complete and proved, or not at all.
     *
     * @throws OctetException when base and adapters do not fit, the merge would change nothing, or the base is malformed
     * @throws IOException when reading or writing fails
     */
    public static Result run(Request request, Job job) throws IOException {
        boolean graph = Job.isOnnx(request.base());
        if (!graph) {
            job.requireFolderName(request.output());
            if (!job.dryRun()) {
                WholeFolder.requireFree(request.output(), job.overwrite());
            }
        }
        List<AdapterDeltas.Weighted> adapters = new ArrayList<>();
        try {
            for (int i = 0; i < request.adapters().size(); i++) {
                double weight = factor(request, i, job);
                adapters.add(new AdapterDeltas.Weighted(
                        PeftAdapter.open(request.adapters().get(i)), weight));
            }
            if (graph) {
                requireApart(request, request.base());
                return new GraphMerge(request, List.copyOf(adapters), job).run();
            }
            try (CheckpointConverter converter = CheckpointConverter.open(request.base())) {
                requireApart(request, converter.checkpoint().path());
                return new Run(request, converter, List.copyOf(adapters), job).run();
            }
        } finally {
            adapters.forEach(a -> a.adapter().close());
        }
    }

    static List<Adapter> adapters(List<AdapterDeltas.Weighted> adapters) {
        return adapters.stream()
                .map(a -> new Adapter(
                        a.adapter().folder().toString(),
                        a.adapter().config().type().toString(),
                        a.weight()))
                .toList();
    }

    static String text(Direction direction) {
        return direction.name().toLowerCase(Locale.ROOT);
    }

    private static double factor(Request request, int i, Job job) {
        List<Double> weights = request.weights();
        if (!weights.isEmpty() && weights.size() != request.adapters().size()) {
            throw job.invalid(
                    weights.size() + " weights for " + request.adapters().size() + " adapters",
                    "give --weights one number for each adapter, in their order");
        }
        return weights.isEmpty() ? 1 : weights.get(i);
    }

    private static void requireApart(Request request, Path base) throws IOException {
        RunPaths paths = RunPaths.none().writing("--output", request.output()).reading("the base", base);
        for (Path adapter : request.adapters()) {
            paths = paths.reading("the adapter", adapter);
        }
        paths.requireApart();
    }

    /** One call with all that it has open. */
    private record Run(Request request, CheckpointConverter converter, List<AdapterDeltas.Weighted> adapters, Job job) {
        Result run() throws IOException {
            AdapterDeltas deltas = AdapterDeltas.of(
                    BaseWeights.of(converter.checkpoint(), converter.stored()), adapters, request.direction());
            ConversionRequest goal = request.form()
                    .<ConversionRequest>map(f -> new ConversionRequest.Quantize(
                            f.recipe(), f.target().layout(), f.layout()))
                    .orElseGet(ConversionRequest.Merge::new);
            CheckpointPlan plan = converter.plan(
                    goal, CheckpointConverter.Request.all().withMerged(deltas), job.streaming("planning"));
            List<String> notes = new ArrayList<>(deltas.notes());
            notes.addAll(plan.notes());
            stampNotes(notes);
            if (job.dryRun()) {
                return result(planned(plan, deltas), plan, null, notes, null, "nothing is written");
            }
            try (MastersFolder work = MastersFolder.beside(request.output())) {
                Path made = work.path()
                        .resolve(Objects.requireNonNull(request.output().getFileName()));
                CheckpointResult written = converter.run(plan, made, job.streaming("merging"));
                requireChange(written.merges());
                List<Weight> weights = written.merges().stream().map(Weight::of).toList();
                MergeProof.@Nullable Result proof = null;
                String missing = null;
                if (request.proof().isEmpty()) {
                    missing = "--no-proof";
                } else {
                    try {
                        proof = new MergeProof(request, adapters, job)
                                .of(made, request.proof().get());
                    } catch (UnsupportedModelException e) {
                        missing = e.what();
                    } catch (MergeProof.NoReference e) {
                        missing = e.getMessage();
                    }
                }
                if (proof == null || proof.passed()) {
                    WholeFolder.place(made, request.output());
                }
                return result(weights, plan, written, notes, proof, missing);
            }
        }

        /** An adapter that was trained with the writer's rounding is another model in any other form. */
        private void stampNotes(List<String> notes) {
            for (AdapterDeltas.Weighted a : adapters) {
                var stamp = a.adapter().config().json().path(MergeAwareness.STAMP);
                if (!stamp.isObject()) {
                    continue;
                }
                String trained = stamp.path("layout").asText("");
                boolean same = request.form().isEmpty()
                        && adapters.size() == 1
                        && a.weight() == 1
                        && trained.equals(converter.stored().layout())
                        && stamp.path("quantiser").asText("").equals(MergeAwareness.QUANTISER);
                if (!same) {
                    notes.add("warning: " + a.adapter().folder().getFileName()
                            + " was trained with the rounding of a merge into its"
                            + " own base (" + trained + ", quantiser "
                            + stamp.path("quantiser").asText("?")
                            + "), alone and with weight 1; what is written here is another model");
                }
            }
        }

        private static List<Weight> planned(CheckpointPlan plan, AdapterDeltas deltas) {
            return plan.shards().stream()
                    .flatMap(s -> s.steps().stream())
                    .filter(s -> deltas.names().contains(s.name()))
                    .map(s -> new Weight(
                            s.name(),
                            s instanceof TensorStep.Quantize q
                                    ? q.target().form()
                                    : s.targets().getFirst().dtype().toString(),
                            null,
                            null,
                            null))
                    .toList();
        }

        private void requireChange(List<MergeMeasure> measures) {
            if (measures.stream().noneMatch(MergeMeasure::changed)) {
                throw new InvalidDataException(
                        "the merge would change nothing: no number of any weight moves to another code",
                        request.base() + ", " + measures.size() + " weights",
                        "train with adapter.merge_aware: true, give a finer --recipe, or keep the adapter apart");
            }
        }

        private Result result(
                List<Weight> weights,
                CheckpointPlan plan,
                @Nullable CheckpointResult written,
                List<String> notes,
                MergeProof.@Nullable Result proof,
                @Nullable String missing) {
            return new Result(
                    request.base().toString(),
                    Merge.adapters(adapters),
                    request.output().toString(),
                    text(request.direction()),
                    request.form()
                            .map(f -> f.recipe().name() + ", " + f.target().label())
                            .orElseGet(() -> converter.stored().layout() + ", as the base"),
                    written == null,
                    plan.sourceBytes(),
                    plan.targetBytes(),
                    written == null ? 0 : written.seconds(),
                    weights,
                    warnings(weights),
                    notes,
                    proof,
                    missing,
                    written == null ? List.of() : written.leftBehind());
        }

        private static List<String> warnings(List<Weight> weights) {
            List<Weight> lost = weights.stream()
                    .filter(Weight::isLost)
                    .sorted(Comparator.comparingDouble(w -> w.kept() == null ? 1 : w.kept()))
                    .toList();
            if (lost.isEmpty()) {
                return List.of();
            }
            return List.of(String.format(
                    Locale.ROOT,
                    "%d of %d weights keep less than half of what the adapter adds, %s only %.0f %%: train with"
                            + " adapter.merge_aware: true, give a finer --recipe, or keep the adapter apart",
                    lost.size(),
                    weights.size(),
                    lost.getFirst().name(),
                    100 * Objects.requireNonNull(lost.getFirst().kept())));
        }
    }
}
