package dev.octet.trainer.replay;

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
import dev.octet.trainer.replay.Experiment.Against;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Finds the product that FP8 breaks, and the smallest cure, by replays of an excerpt of a run.
 *
 * <p>The experiments are those that NVIDIA's document on debugging FP8 training has done by hand ("Recipe debugging": a mismatch or
 * divergence of FP8 against BF16), here by search:
 * <ol>
 *   <li>the reference: the same steps in the type around the products, from the same weights, moments and scales. From a checkpoint of an
 *       FP8 run this is the restore experiment;
 *   <li>the noise floor, see {@link NoiseFloor}: two replays;
 *   <li>the run as configured. When noise explains its distance, the examination ends;
 *   <li>where asked for, features around the products, switched off one by one;
 *   <li>all products as fake quantisation: whether codes and scales are at fault, or the products of them;
 *   <li>a search among the products of all layers, by product, then by halves of the layers, see {@link GroupSearch}: those tried are in
 *       FP8, all others in high precision;
 *   <li>the operands of what was found;
 *   <li>cures: current scaling, then high precision, each tried by a replay of the run with it.
 * </ol>
 * A run that rounding explains is looked at once more, for products that are wrong by so little that rounding hides it: one step with
 * products of codes against the same step with fake quantisation, all around them in F32. Where they differ, the same search follows, with
 * products of codes in the place of FP8 and fake quantisation in that of high precision.
 *
 * <p>Of {@code n} layers, two or more, a single culprit is found in at most {@code 2 log2(n) + 9} replays without those of features and cures;
 * a product that is wrong by little, of four layers or more.
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
    private @Nullable NoiseFloor productFloor;

    private int runs;

    /** Keys of variants whose replays the answer rests on. */
    private final Set<String> used = new HashSet<>();

    /** Keys of replays that the log had before. */
    private final Set<String> reused = new HashSet<>();

    /** Keys of replays that were run. */
    private final Set<String> made = new HashSet<>();

    // the answer so far
    private Verdict verdict = Verdict.UNFINISHED;
    private final List<Culprit> culprits = new ArrayList<>();
    private List<LayerProduct> suspects = List.of();
    private String feature = "";
    private final Map<String, Map<ProductOperand, OperandChange>> cure = new TreeMap<>();
    private @Nullable Experiment proof;
    private int toFind;

    /** How sick the run was found to be. */
    private double accused = 1;

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
            boolean begins = excerpt.state().isEmpty()
                    && layers.stream().anyMatch(l -> l.recipe().isDelayed());
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
        } catch (BudgetSpentException _) {
            complete = false;
        }
        toFind = toFind == 0 ? used.size() : toFind;
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
                new Evidence(floor, productFloor, experiments, allCells()),
                toFind,
                used.size(),
                complete);
        return diagnosis.withSentence(VerdictText.of(diagnosis));
    }

    private List<Evidence.Cell> allCells() {
        return variants.suspects().stream()
                .flatMap(List::stream)
                .map(p -> cells.getOrDefault(p, new Evidence.Cell(p, Double.NaN, 0)))
                .toList();
    }

    /** What replays are compared with, and what noise explains of their distance from it. */
    private record Comparison(Against against, Replays of, Variant with, Replay replay, NoiseFloor floor) {}

    private void examine() throws BudgetSpentException, IOException {
        Variant plain = variants.reference();
        Replay known = replay(replays, plain, plain);
        reference = known;
        add(new Experiment(
                "reference: " + policy.base().name(), Against.REFERENCE, known, Deviation.NONE, reused(plain, plain)));
        if (!known.finite()) {
            verdict = Verdict.REFERENCE_NOT_FINITE;
            return;
        }
        Comparison rounding = rounding(plain, known);
        Experiment configured = experiment(variants.configured(), "FP8 as configured", rounding);
        suspects = variants.all();
        accused = configured.deviation().excess();
        note(Set.copyOf(suspects), configured);
        if (!configured.deviation().isSick()) {
            suspects = List.of();
            examineProducts();
        } else if (options.features() && findFeature(rounding)) {
            suspects = List.of();
            verdict = Verdict.FEATURE;
        } else {
            boolean fakeIsHealthy = variants.multipliesCodes() && cures(experiment(variants.fake(), FAKE, rounding));
            search(rounding, configured.deviation().excess(), fakeIsHealthy);
        }
    }

    /** Measures the floor of distances from the reference. */
    private Comparison rounding(Variant plain, Replay known) throws BudgetSpentException, IOException {
        Replay order = replay(replays, Variants.otherOrder(), plain);
        Replay rounding = replay(replays, variants.rounding(), plain);
        NoiseFloor measured = NoiseFloor.ofRounding(known, order, rounding);
        floor = measured;
        Comparison comparison = new Comparison(Against.REFERENCE, replays, plain, known, measured);
        experiment(Variants.otherOrder(), "noise: F32, samples last to first", comparison);
        experiment(variants.rounding(), "noise: mantissas rounded as in FP8", comparison);
        return comparison;
    }

    /** Looks for products that are wrong although their codes and scales are good, by too little to stand out of rounding. */
    private void examineProducts() throws BudgetSpentException, IOException {
        verdict = Verdict.HEALTHY; // even where the budget is spent before more is known
        if (!variants.multipliesCodes()) {
            return;
        }
        Set<LayerProduct> all = Set.copyOf(variants.all());
        try (Arena arena = Arena.ofShared()) {
            Replays step = new Replays(excerpt.firstStepOnly(arena));
            Variant fake = variants.around(Set.of(), Set.of(), 0);
            Variant reversed = variants.around(Set.of(), Set.of(), excerpt.roundingOfSums());
            Replay known = replay(step, fake, fake);
            NoiseFloor measured = NoiseFloor.ofProducts(known, replay(step, reversed, fake));
            productFloor = measured;
            Comparison products = new Comparison(Against.FAKE_QUANTISATION, step, fake, known, measured);
            experiment(reversed, "noise: fake quantisation, sums rounded otherwise", products);
            Experiment codes = experiment(
                    variants.around(all, Set.of(), 0), "products of codes instead of fake quantisation", products);
            if (codes.deviation().isSick()) {
                searchProducts(products, codes.deviation().excess());
            }
        }
    }

    private void searchProducts(Comparison products, double excess) throws BudgetSpentException, IOException {
        verdict = Verdict.UNFINISHED;
        suspects = variants.all();
        accused = excess;
        Findings<LayerProduct> found = GroupSearch.search(
                variants.suspects(),
                excess,
                MOST_CULPRITS,
                s -> tried(variants.around(s, Set.of(), 0), s, "codes multiplied: ", products));
        take(found);
        toFind = used.size();
        if (found.spread()) {
            verdict = Verdict.SPREAD;
        } else if (found.complete()) {
            verdict = Verdict.PRODUCT;
            cureProducts(products);
        } else {
            complete = false;
        }
    }

    /** Proves high precision. Scales were those of the step, so that current scaling does not cure is known. */
    private void cureProducts(Comparison products) throws BudgetSpentException, IOException {
        Set<LayerProduct> changed =
                culprits.stream().flatMap(c -> c.cured().stream()).collect(Collectors.toSet());
        Variant fake = variants.around(Set.of(), changed, 0);
        Replay known = replay(products.of(), fake, fake);
        Experiment e = experiment(
                variants.around(Set.copyOf(variants.all()), changed, 0),
                "products of codes with " + variants.words(changes(culprits)),
                new Comparison(products.against(), products.of(), fake, known, products.floor()));
        products.of().forget(fake);
        if (cures(e)) {
            accept(culprits, e);
        }
    }

    private static String key(Variant variant, Variant with) {
        return variant.key().equals(with.key()) || with.key().startsWith(Variants.REFERENCE)
                ? variant.key()
                : variant.key() + " / " + with.key();
    }

    private boolean reused(Variant variant, Variant with) {
        return reused.contains(key(variant, with));
    }

    private Replay replay(Replays of, Variant variant, Variant with) throws BudgetSpentException, IOException {
        String key = key(variant, with);
        Optional<Replay> known = options.log().find(key).filter(r -> r.isOf(of.steps()));
        if (known.isPresent()) {
            if (!made.contains(key)) {
                reused.add(key);
            }
            used.add(variant.key());
            return known.get();
        }
        if (runs >= options.maxReplays()) {
            throw new BudgetSpentException(options.maxReplays() + " replays");
        }
        if (System.nanoTime() - start > options.maxTime().toNanos()) {
            throw new BudgetSpentException(options.maxTime().toSeconds() + " seconds");
        }
        Replay replay = of.compare(key, variant, with);
        made.add(key);
        runs++;
        used.add(variant.key());
        options.log().add(replay);
        return replay;
    }

    private void add(Experiment experiment) {
        experiments.add(experiment);
        options.progress().accept(experiment);
    }

    /** Makes an experiment, or finds it among those made. */
    private Experiment experiment(Variant variant, String what, Comparison comparison)
            throws BudgetSpentException, IOException {
        String key = key(variant, comparison.with());
        for (Experiment e : experiments) {
            if (e.replay().key().equals(key)) {
                return e;
            }
        }
        Replay replay = replay(comparison.of(), variant, comparison.with());
        Deviation deviation = comparison.floor().deviation(replay, comparison.replay());
        Experiment made = new Experiment(what, comparison.against(), replay, deviation, reused.contains(key));
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

    private boolean findFeature(Comparison rounding) throws BudgetSpentException, IOException {
        for (Map.Entry<String, Variant> e : variants.withoutFeatures().entrySet()) {
            Experiment without = experiment(e.getValue(), "without " + e.getKey(), rounding);
            if (cures(without)) {
                feature = e.getKey();
                proof = without;
                return true;
            }
        }
        return false;
    }

    private void search(Comparison rounding, double excess, boolean fakeIsHealthy)
            throws BudgetSpentException, IOException {
        Findings<LayerProduct> found = GroupSearch.search(
                variants.suspects(), excess, MOST_CULPRITS, s -> tried(variants.only(s), s, "", rounding));
        take(found);
        if (found.spread()) {
            culprits.clear();
            cureEverywhere(rounding);
        } else if (found.complete()) {
            cureEach(rounding);
        } else {
            complete = false;
            return;
        }
        if (verdict != Verdict.SPREAD) {
            verdict = fakeIsHealthy
                    ? Verdict.PRODUCT
                    : culprits.stream().allMatch(c -> c.remedy() == Remedy.CURRENT_SCALING)
                            ? Verdict.STALE_SCALES
                            : Verdict.RANGE;
        }
    }

    private void take(Findings<LayerProduct> found) {
        suspects = List.copyOf(found.suspects());
        found.culprits().forEach(products -> culprits.add(culprit(products, found.cured())));
    }

    private double tried(Variant variant, Set<LayerProduct> inFp8, String prefix, Comparison comparison)
            throws BudgetSpentException, IOException {
        Experiment e = experiment(variant, prefix + variants.words(inFp8), comparison);
        note(inFp8, e);
        return e.deviation().excess();
    }

    private boolean isDelayed(Culprit c) {
        return c.cured().stream().anyMatch(p -> c.operands().stream().anyMatch(t -> variants.isDelayed(p, t)));
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
    private void cureEach(Comparison rounding) throws BudgetSpentException, IOException {
        Set<LayerProduct> rest = new LinkedHashSet<>(variants.all());
        culprits.forEach(c -> c.cured().forEach(rest::remove));
        accept(culprits, experiment(variants.only(rest), variants.words(rest), rounding));
        toFind = used.size();
        for (int i = 0; i < culprits.size(); i++) {
            narrow(i, rounding);
        }
        for (int i = 0; i < culprits.size(); i++) {
            if (isDelayed(culprits.get(i))) {
                tryOn(i, culprits.get(i).with(Remedy.CURRENT_SCALING), rounding);
            }
        }
    }

    /** Looks whether one operand alone is guilty. */
    private void narrow(int i, Comparison rounding) throws BudgetSpentException, IOException {
        Culprit c = culprits.get(i);
        if (c.operands().size() < 2) {
            return;
        }
        for (LinearTensor tensor : EnumSet.copyOf(c.operands())) {
            boolean alone = tryOn(i, c.with(Set.of(tensor)), rounding);
            toFind = used.size();
            if (alone) {
                return;
            }
        }
    }

    /** Tries a smaller cure of one culprit, and keeps it when the run is healthy with it. */
    private boolean tryOn(int i, Culprit smaller, Comparison rounding) throws BudgetSpentException, IOException {
        List<Culprit> changed = new ArrayList<>(culprits);
        changed.set(i, smaller);
        return cures(changed, rounding);
    }

    private boolean cures(Experiment e) {
        return e.deviation().excess() <= GroupSearch.healthy(accused);
    }

    private boolean cures(List<Culprit> changed, Comparison rounding) throws BudgetSpentException, IOException {
        Map<String, Map<ProductOperand, OperandChange>> changes = changes(changed);
        Experiment e = experiment(variants.changed(changes), "FP8 with " + variants.words(changes), rounding);
        if (!cures(e)) {
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
    private void cureEverywhere(Comparison rounding) throws BudgetSpentException, IOException {
        List<List<LayerProduct>> sick = new ArrayList<>();
        for (List<LayerProduct> group : variants.suspects()) {
            if (tried(variants.only(Set.copyOf(group)), Set.copyOf(group), "", rounding) > 1) {
                sick.add(group);
            }
        }
        toFind = used.size();
        List<List<LayerProduct>> guilty = sick.isEmpty() ? variants.suspects() : sick;
        boolean some = guilty.size() < variants.suspects().size(); // high precision for all is not FP8
        for (Remedy remedy : Remedy.values()) {
            List<Culprit> all = guilty.stream().map(g -> everywhere(g, remedy)).toList();
            boolean tried =
                    remedy == Remedy.HIGH_PRECISION ? some : all.stream().anyMatch(this::isDelayed);
            if (tried && cures(all, rounding)) {
                suspects = List.of();
                return;
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
