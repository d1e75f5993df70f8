package dev.octet.trainer.replay;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.ProductOperand;
import dev.octet.trainer.bisect.BudgetSpentException;
import dev.octet.trainer.bisect.Findings;
import dev.octet.trainer.bisect.GroupSearch;
import dev.octet.trainer.precision.Fp8Layer;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.OperandChange;
import dev.octet.trainer.replay.Culprit.Extent;
import dev.octet.trainer.replay.Culprit.Remedy;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * Finds the product that FP8 breaks, and the smallest cure, by replays of an excerpt of a run.
 *
 * <p>The experiments are those that NVIDIA's document on debugging FP8 training has done by hand ("Recipe debugging": a mismatch or
 * divergence of FP8 against BF16), here by search:
 * <ol>
 *   <li>the reference: the same steps in the type around the products, from the same weights, moments and scales. From a checkpoint of an FP8
 *       run this is the restore experiment;
 *   <li>the noise floor, see {@link NoiseFloor}: two replays;
 *   <li>the run as configured. When noise explains its distance, the examination ends;
 *   <li>where asked for, features around the products, switched off one by one;
 *   <li>a search among the products of all layers, by product, then by halves of the layers, see {@link GroupSearch}: those tried are in FP8,
 *       all others in high precision;
 *   <li>the operands of what was found;
 *   <li>cures: current scaling, then high precision, each tried by a replay of the run with it;
 *   <li>all products as fake quantisation: whether codes and scales are at fault, or the products of them.
 * </ol>
 * Of two layers or more, {@code n} of them, a single culprit is found in at most {@code 2 log2(n) + 9} replays without those of features and cures.
 */
public final class Examination {
    /** What begins the names of the states of scales. */
    private static final String SCALES = "fp8.";

    /** With more culprits than this, products are cured in all layers. */
    private static final int MOST_CULPRITS = 4;

    private static final String FAKE = "all products as fake quantisation";

    private final Fp8Policy policy;
    private final ExaminationOptions options;
    private final long start = System.nanoTime();
    private final Excerpt excerpt;
    private final Replays replays;
    private final Variants variants;
    private final List<Experiment> experiments = new ArrayList<>();
    private final Map<LayerProduct, Evidence.Cell> cells = new HashMap<>();
    private @Nullable Replay reference;
    private @Nullable NoiseFloor floor;
    private int run;

    // the answer so far
    private Verdict verdict = Verdict.UNFINISHED;
    private final List<Culprit> culprits = new ArrayList<>();
    private List<LayerProduct> suspects = List.of();
    private String feature = "";
    private final Map<String, Map<ProductOperand, OperandChange>> cure = new TreeMap<>();
    private @Nullable Experiment proof;
    private int toFind;
    private boolean complete = true;

    private Examination(Excerpt excerpt, Fp8Policy policy, List<Fp8Layer> layers, ExaminationOptions options) {
        this.policy = policy;
        this.options = options;
        this.excerpt = excerpt;
        this.replays = new Replays(excerpt);
        this.variants = new Variants(policy, layers);
    }

    /**
     * Examines an excerpt of a run.
     *
     * @throws dev.octet.formats.error.InvalidDataException when a sample does not fit
     * @throws IOException when the log cannot be written
     */
    public static Diagnosis of(Excerpt excerpt, ExaminationOptions options) throws IOException {
        if (!(excerpt.setup().policy() instanceof Fp8Policy policy)) {
            return Diagnosis.withoutFp8(excerpt);
        }
        List<Fp8Layer> layers = new Replays(excerpt).layers(policy);
        if (layers.isEmpty()) {
            return Diagnosis.withoutFp8(excerpt);
        }
        try (Arena arena = Arena.ofShared()) {
            boolean begins = excerpt.state().isEmpty() && layers.stream().anyMatch(l -> l.recipe().isDelayed());
            Excerpt warm = begins ? excerpt.withState(warmedScales(excerpt, policy, arena)) : excerpt;
            return new Examination(warm, policy, layers, options).run();
        }
    }

    private static Map<String, Tensor> warmedScales(Excerpt excerpt, Fp8Policy policy, Arena arena) {
        return new Replays(excerpt).warmedScales(policy, SCALES, arena);
    }

    private Diagnosis run() throws IOException {
        try {
            examine();
        } catch (BudgetSpentException e) {
            complete = false;
        }
        toFind = toFind == 0 ? experiments.size() : toFind;
        Replay known = reference;
        List<Integer> spikes = known == null ? List.of() : Spikes.of(known);
        if (verdict == Verdict.HEALTHY && !spikes.isEmpty()) {
            verdict = Verdict.SPIKE;
        }
        Diagnosis diagnosis = new Diagnosis(
                verdict,
                "",
                List.of(excerpt.firstStep(), excerpt.firstStep() + excerpt.steps() - 1),
                variants.layerCount(),
                culprits,
                suspects,
                feature,
                cure,
                Optional.ofNullable(proof),
                spikes.stream().map(i -> excerpt.firstStep() + i).toList(),
                new Evidence(floor, experiments, allCells()),
                toFind,
                experiments.size(),
                complete);
        return diagnosis.withSentence(VerdictText.of(diagnosis));
    }

    private List<Evidence.Cell> allCells() {
        return variants.suspects().stream()
                .flatMap(List::stream)
                .map(p -> cells.getOrDefault(p, new Evidence.Cell(p, Double.NaN, 0)))
                .toList();
    }

    private void examine() throws BudgetSpentException, IOException {
        Finished first = replay(variants.reference());
        Replay known = first.replay();
        reference = known;
        add(new Experiment("reference: " + policy.base().name(), known, Deviation.NONE, first.reused()));
        if (!known.isFinite()) {
            verdict = Verdict.REFERENCE_NOT_FINITE;
            return;
        }
        measureFloor(known);
        Experiment configured = experiment(variants.configured(), "FP8 as configured");
        suspects = variants.suspects().stream().flatMap(List::stream).toList();
        note(Set.copyOf(suspects), configured);
        if (!configured.deviation().isSick()) {
            suspects = List.of();
            verdict = Verdict.HEALTHY;
        } else if (options.features() && findFeature()) {
            suspects = List.of();
            verdict = Verdict.FEATURE;
        } else {
            search();
        }
    }

    private void measureFloor(Replay known) throws BudgetSpentException, IOException {
        Finished order = replay(Variants.otherOrder());
        Finished rounding = replay(variants.rounding());
        NoiseFloor measured = NoiseFloor.of(known, order.replay(), rounding.replay());
        floor = measured;
        add(new Experiment(
                "noise: F32, samples last to first",
                order.replay(),
                measured.deviation(order.replay(), known),
                order.reused()));
        add(new Experiment(
                "noise: mantissas rounded as in FP8",
                rounding.replay(),
                measured.deviation(rounding.replay(), known),
                rounding.reused()));
    }

    /** A replay, and whether the log had it. */
    private record Finished(Replay replay, boolean reused) {}

    private Finished replay(Variant variant) throws BudgetSpentException, IOException {
        Optional<Replay> known = options.log().find(variant.key());
        if (known.isPresent()) {
            return new Finished(known.get(), true);
        }
        if (run >= options.maxReplays()) {
            throw new BudgetSpentException(options.maxReplays() + " replays");
        }
        if (System.nanoTime() - start > options.maxTime().toNanos()) {
            throw new BudgetSpentException(options.maxTime().toSeconds() + " seconds");
        }
        if (!replays.hasReference() && !variant.key().equals(variants.reference().key())) {
            replays.run(variants.reference()); // known from the log, but not its gradients
        }
        Replay made = replays.run(variant);
        run++;
        options.log().add(made);
        return new Finished(made, false);
    }

    private void add(Experiment experiment) {
        experiments.add(experiment);
        options.progress().accept(experiment);
    }

    /** Makes an experiment, or finds it among those made. */
    private Experiment experiment(Variant variant, String what) throws BudgetSpentException, IOException {
        for (Experiment e : experiments) {
            if (e.replay().key().equals(variant.key())) {
                return e;
            }
        }
        Finished finished = replay(variant);
        Deviation deviation =
                requireNonNull(floor).deviation(finished.replay(), requireNonNull(reference));
        Experiment made = new Experiment(what, finished.replay(), deviation, finished.reused());
        add(made);
        return made;
    }

    /** What an experiment says of products that were in FP8 together. */
    private void note(Set<LayerProduct> inFp8, Experiment e) {
        for (LayerProduct p : inFp8) {
            Evidence.Cell before = cells.get(p);
            if (before == null || inFp8.size() < before.together()) {
                cells.put(p, new Evidence.Cell(p, e.deviation().excess(), inFp8.size()));
            }
        }
    }

    private boolean findFeature() throws BudgetSpentException, IOException {
        for (Map.Entry<String, Variant> e : variants.withoutFeatures().entrySet()) {
            Experiment without = experiment(e.getValue(), "without " + e.getKey());
            if (!without.deviation().isSick()) {
                feature = e.getKey();
                proof = without;
                return true;
            }
        }
        return false;
    }

    private void search() throws BudgetSpentException, IOException {
        Findings<LayerProduct> found = GroupSearch.search(variants.suspects(), MOST_CULPRITS, this::isSick);
        suspects = List.copyOf(found.suspects());
        if (found.spread()) {
            cureEverywhere();
        } else {
            for (Set<LayerProduct> products : found.culprits()) {
                culprits.add(culprit(products, found.cured()));
            }
            if (!found.complete()) {
                complete = false;
                return;
            }
            cureEach();
        }
        if (verdict != Verdict.SPREAD) {
            verdict = variants.multipliesCodes() && !experiment(variants.fake(), FAKE).deviation().isSick()
                    ? Verdict.PRODUCT
                    : culprits.stream().allMatch(c -> c.remedy() == Remedy.CURRENT_SCALING)
                            ? Verdict.STALE_SCALES
                            : Verdict.RANGE;
        }
    }

    private boolean isSick(Set<LayerProduct> inFp8) throws BudgetSpentException, IOException {
        Experiment e = experiment(variants.only(inFp8), variants.words(inFp8));
        note(inFp8, e);
        return e.deviation().isSick();
    }

    /** A culprit as found: both operands, high precision. */
    private Culprit culprit(Set<LayerProduct> products, Set<LayerProduct> cured) {
        List<LayerProduct> changed = products.stream().filter(cured::contains).toList();
        Set<LinearTensor> operands = EnumSet.noneOf(LinearTensor.class);
        changed.forEach(p -> operands.addAll(variants.operands(p)));
        return new Culprit(
                products.size() == 1 ? Extent.ALONE : Extent.TOGETHER,
                List.copyOf(products),
                changed,
                operands,
                Remedy.HIGH_PRECISION);
    }

    /** What these culprits' remedies change. */
    private static Map<String, Map<ProductOperand, OperandChange>> changes(List<Culprit> of) {
        Map<String, Map<ProductOperand, OperandChange>> changes = new TreeMap<>();
        for (Culprit c : of) {
            OperandChange change = switch (c.remedy()) {
                case CURRENT_SCALING -> new OperandChange.Current();
                case HIGH_PRECISION -> new OperandChange.Unquantised();
            };
            for (LayerProduct p : c.cured()) {
                c.operands().forEach(t -> Variants.put(changes, p, t, change));
            }
        }
        return changes;
    }

    /** Makes the cure of each culprit as small as it can be, while the others stay cured. */
    private void cureEach() throws BudgetSpentException, IOException {
        Set<LayerProduct> rest = new LinkedHashSet<>(variants.all());
        culprits.forEach(c -> c.cured().forEach(rest::remove));
        accept(culprits, experiment(variants.only(rest), variants.words(rest)));
        for (int i = 0; i < culprits.size(); i++) {
            narrow(i);
        }
        toFind = experiments.size();
        for (int i = 0; i < culprits.size(); i++) {
            Culprit c = culprits.get(i);
            boolean delayed = c.cured().stream()
                    .anyMatch(p -> c.operands().stream().anyMatch(t -> variants.isDelayed(p, t)));
            if (delayed) {
                tryOn(i, new Culprit(c.extent(), c.products(), c.cured(), c.operands(), Remedy.CURRENT_SCALING));
            }
        }
    }

    /** Looks whether one operand alone is guilty. */
    private void narrow(int i) throws BudgetSpentException, IOException {
        Culprit c = culprits.get(i);
        if (c.operands().size() < 2) {
            return;
        }
        for (LinearTensor tensor : List.copyOf(EnumSet.copyOf(c.operands()))) {
            if (tryOn(i, new Culprit(c.extent(), c.products(), c.cured(), Set.of(tensor), c.remedy()))) {
                return;
            }
        }
    }

    /** Tries a smaller cure of one culprit, and keeps it when the run is healthy with it. */
    private boolean tryOn(int i, Culprit smaller) throws BudgetSpentException, IOException {
        List<Culprit> changed = new ArrayList<>(culprits);
        changed.set(i, smaller);
        return cures(changed);
    }

    private boolean cures(List<Culprit> changed) throws BudgetSpentException, IOException {
        Map<String, Map<ProductOperand, OperandChange>> changes = changes(changed);
        Experiment e = experiment(variants.changed(changes), "FP8 with " + variants.words(changes));
        if (e.deviation().isSick()) {
            return false;
        }
        accept(changed, e);
        return true;
    }

    private void accept(List<Culprit> cured, Experiment healthy) {
        List<Culprit> kept = List.copyOf(cured);
        culprits.clear();
        culprits.addAll(kept);
        cure.clear();
        cure.putAll(changes(kept));
        proof = healthy;
    }

    /** Cures the products that are sick by themselves in all layers: first with current scaling, then with high precision. */
    private void cureEverywhere() throws BudgetSpentException, IOException {
        List<List<LayerProduct>> sick = new ArrayList<>();
        for (List<LayerProduct> group : variants.suspects()) {
            if (isSick(new LinkedHashSet<>(group))) {
                sick.add(group);
            }
        }
        toFind = experiments.size();
        List<List<LayerProduct>> guilty = sick.isEmpty() ? variants.suspects() : sick;
        for (Remedy remedy : Remedy.values()) {
            boolean changes = remedy == Remedy.HIGH_PRECISION
                    || guilty.stream().flatMap(List::stream).anyMatch(p -> variants.operands(p).stream()
                            .anyMatch(t -> variants.isDelayed(p, t)));
            if (changes && guilty.size() < variants.suspects().size() + (remedy == Remedy.CURRENT_SCALING ? 1 : 0)) {
                List<Culprit> all = guilty.stream().map(g -> everywhere(g, remedy)).toList();
                if (cures(all)) {
                    suspects = List.of();
                    return;
                }
            }
        }
        verdict = Verdict.SPREAD;
    }

    private Culprit everywhere(List<LayerProduct> group, Remedy remedy) {
        Set<LinearTensor> operands = EnumSet.noneOf(LinearTensor.class);
        group.forEach(p -> operands.addAll(variants.operands(p)));
        return new Culprit(Extent.ALL_LAYERS, group, group, operands, remedy);
    }
}
