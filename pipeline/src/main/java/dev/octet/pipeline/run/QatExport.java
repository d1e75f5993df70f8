package dev.octet.pipeline.run;

import static java.util.Objects.requireNonNull;

import dev.octet.converter.lower.OnnxTarget;
import dev.octet.converter.plan.LinearScales;
import dev.octet.converter.plan.WeightScales;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.number.CodeGrid;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.trainer.op.qat.GridQuantize;
import dev.octet.trainer.qat.LearnedScales;
import dev.octet.trainer.qat.Method;
import dev.octet.trainer.qat.Quantizer;
import dev.octet.trainer.qat.Quantizer.Place;
import dev.octet.trainer.qat.QuantizerSettings.Levels;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * A run in mode {@code qat} in the words of the converter: the recipe that has its codes, its scales by Linear, and its weights as products read them. What a
 * target cannot hold is refused by name, with the targets that can.
 */
public final class QatExport {
    private static final int BYTE_BITS = 8;
    private static final int[] GROUPS = {128, 64, 32, 16};
    private static final int MX_GROUP = 32;
    private static final int NVFP4_GROUP = 16;

    private final Graph graph;
    private final Map<String, Tensor> masters;
    private final Set<String> turnedCopies;
    private final String where;
    private final Map<String, LearnedScales> weights = new LinkedHashMap<>();
    private final Map<String, LearnedScales> inputs = new LinkedHashMap<>();

    /** A recipe, or why there is none. */
    private record Fit(Optional<Recipe> recipe, String why) {
        static Fit of(Recipe recipe) {
            return new Fit(Optional.of(recipe), "");
        }

        static Fit none(String why) {
            return new Fit(Optional.empty(), why);
        }
    }

    /**
     * The scales of a checkpoint and its weights.
     *
     * @param graph the weights go back to: a restored tie has its own copy there
     * @param masters the run's weights, F32, by their names in {@code graph}
     * @param turnedCopies of these, copies of ties that lie in the other order than what the run trained
     * @param where the run's folder
     */
    public QatExport(
            List<LearnedScales> learned,
            Graph graph,
            Map<String, Tensor> masters,
            Set<String> turnedCopies,
            String where) {
        this.graph = graph;
        this.masters = masters;
        this.turnedCopies = Set.copyOf(turnedCopies);
        this.where = where;
        for (LearnedScales s : learned) {
            Map<String, LearnedScales> into = s.quantizer().tensor() == LinearTensor.WEIGHT ? weights : inputs;
            s.quantizer().layers().forEach(layer -> into.put(layer, s));
        }
    }

    private InvalidOptionException refusal(String what, String fix) {
        return new InvalidOptionException(what, where, fix);
    }

    /**
     * The weights with those that the run quantised as its products read them: codes times scales.
     *
     * @throws InvalidOptionException when others read such a weight as it is
     */
    public Map<String, Tensor> weights() {
        Map<String, Tensor> all = new LinkedHashMap<>(masters);
        weights.forEach((layer, s) -> {
            String name = node(layer).input(1);
            boolean alone = graph.nodes().stream()
                    .filter(n -> n.inputs().contains(name))
                    .allMatch(n -> weights.containsKey(n.id()));
            if (!alone) {
                throw refusal(
                        "'" + name + "' is quantised for " + layer + " and read in floats elsewhere: no file has both",
                        "train with layers: [{match: '" + layer + "', quantize: false}]");
            }
            Tensor read = s.forward(master(layer, s), Arena.ofAuto());
            all.put(name, turnedCopies.contains(name) ? read.transposed(Arena.ofAuto()) : read);
        });
        return all;
    }

    private Node node(String layer) {
        return graph.nodes().stream()
                .filter(n -> n.id().equals(layer))
                .findFirst()
                .orElseThrow(() ->
                        refusal("the model has no Linear '" + layer + "'", "give the model of the run with --model"));
    }

    /** The weight as the run trained it. */
    private Tensor master(String layer, LearnedScales s) {
        String name = node(layer).input(1);
        Tensor found = masters.get(name);
        if (found != null && turnedCopies.contains(name)) {
            found = found.transposed(Arena.ofAuto());
        }
        if (found == null || !found.shape().equals(s.quantizer().shape().orElse(Shape.SCALAR))) {
            throw refusal(
                    "the weight of " + layer + " lies in another order than the run trained it in",
                    "train with layers: [{match: '" + layer + "', quantize: false}]");
        }
        return found;
    }

    /** By node id, the scales of the Linears whose weights the run quantised. */
    public Map<String, LinearScales> linears() {
        Map<String, LinearScales> all = new LinkedHashMap<>();
        weights.forEach((layer, s) -> {
            Tensor master = master(layer, s);
            Blocks blocks = s.quantizer().form().blocks(master.shape());
            Tensor scales = Tensor.ofFloats(Arena.ofAuto(), "scales", blocks.scaleShape(), s.scales(master));
            boolean copied = turnedCopies.contains(node(layer).input(1));
            WeightScales own = new WeightScales(
                    copied ? scales.transposed(Arena.ofAuto()) : scales,
                    copied ? blocks.transposed() : blocks,
                    node(layer).intAttribute("transB", 0) == 0,
                    s.global().orElse(null));
            LearnedScales input = inputs.get(layer);
            Optional<Float> scale = input == null ? Optional.empty() : inputScale(input);
            all.put(
                    layer,
                    new LinearScales(
                            scale.map(v -> (double) v * requireHigh(input)).orElse(0.0),
                            scale.orElse(null),
                            null,
                            scale.isPresent() ? "" : "consumers find the scale of its input at run time",
                            input == null ? 0 : zeroPoint(input),
                            own));
        });
        return all;
    }

    private static float requireHigh(@Nullable LearnedScales s) {
        return s == null ? 0 : s.quantizer().settings().grid().high();
    }

    /** The static scale of an input, of two levels the upper one; empty where each run finds it. */
    private static Optional<Float> inputScale(LearnedScales s) {
        if (s.quantizer().settings().levels() == Levels.TWO) {
            return s.global();
        }
        return s.values().containsKey(Place.SCALE) || s.values().containsKey(Place.AMAX)
                ? Optional.of(s.scales()[0])
                : Optional.empty();
    }

    /** The code of zero in signed codes; unsigned ones are moved by half their range. */
    private static int zeroPoint(LearnedScales s) {
        CodeGrid grid = s.quantizer().settings().grid();
        int moved = isUnsigned(grid) ? Byte.MIN_VALUE : 0;
        Tensor learned = s.values().get(Place.ZERO_POINT);
        return learned == null ? moved : moved + (int) grid.nearest(learned.toFloats()[0]);
    }

    private static boolean isUnsigned(CodeGrid grid) {
        return grid instanceof CodeGrid.Integers(int least, int _) && least == 0;
    }

    /**
     * The recipe of graphs that has the run's codes.
     *
     * @throws InvalidOptionException when there is none; names the targets that hold them
     */
    public Recipe recipe(OnnxTarget target) {
        Fit fit = fitGraphs();
        return fit.recipe().orElseThrow(() -> none(target.label(), fit.why()));
    }

    /**
     * The recipe of checkpoints that has the run's codes in a layout.
     *
     * @throws InvalidOptionException when there is none; names the targets that hold them
     */
    public Recipe recipe(Layout layout) {
        Fit fit = fit(layout);
        return fit.recipe().orElseThrow(() -> none(layout.name(), fit.why()));
    }

    private InvalidOptionException none(String target, String why) {
        List<String> able = new ArrayList<>();
        for (OnnxTarget t : OnnxTarget.values()) {
            if (fitGraphs().recipe().isPresent()) {
                able.add(t.label());
            }
        }
        for (Layout l : Layouts.ALL) {
            if (fit(l).recipe().isPresent()) {
                able.add(l.name());
            }
        }
        return refusal(
                "--target " + target + " cannot hold what the run trained: " + why,
                able.isEmpty()
                        ? "no target has these codes; --target onnx has the weights as floats that the run computed"
                                + " with"
                        : "export with --target " + String.join(" or ", able));
    }

    /** What is the same for all targets: one form of weights, one of inputs, codes of a width that files have. */
    private Optional<String> unfit() {
        if (weights.isEmpty()) {
            return Optional.of("its weights are in floats");
        }
        Quantizer first = weights.values().iterator().next().quantizer();
        LearnedScales firstInput = inputs.get(weights.keySet().iterator().next());
        for (Map.Entry<String, LearnedScales> w : weights.entrySet()) {
            Optional<String> reason = unfit(w.getValue());
            if (reason.isPresent()) {
                return reason;
            }
            LearnedScales input = inputs.get(w.getKey());
            if (!alike(first, w.getValue().quantizer()) || (input == null) != (firstInput == null)) {
                return Optional.of(w.getKey() + " is quantised in another way than "
                        + first.layers().getFirst() + ", and a file has one recipe");
            }
            if (input != null && firstInput != null && !alike(firstInput.quantizer(), input.quantizer())) {
                return Optional.of("the input of " + w.getKey() + " is quantised in another way than that of "
                        + first.layers().getFirst() + ", and a file has one recipe");
            }
        }
        Optional<String> alone = inputs.keySet().stream()
                .filter(layer -> !weights.containsKey(layer))
                .findFirst();
        if (alone.isPresent()) {
            return alone.map(layer -> "the input of " + layer + " is quantised and its weight is not");
        }
        return Optional.ofNullable(firstInput).flatMap(QatExport::unfitInput);
    }

    private static boolean alike(Quantizer a, Quantizer b) {
        return a.settings().grid().equals(b.settings().grid())
                && a.settings().levels() == b.settings().levels()
                && a.settings().granularity().equals(b.settings().granularity())
                && a.settings().method().equals(b.settings().method());
    }

    private static Optional<String> unfit(LearnedScales w) {
        Quantizer q = w.quantizer();
        CodeGrid grid = q.settings().grid();
        if (q.settings().method() == Method.DOREFA) {
            return Optional.of("DoReFa's weights are squeezed by tanh, and their codes have half a code for zero");
        }
        if (grid instanceof CodeGrid.Integers i
                && (i.least() == 0 || (i.bits() != BYTE_BITS && i.bits() != Recipe.INT4_BITS))) {
            return Optional.of("weights in " + grid.text() + " have no type in files, which have int4 and int8");
        }
        if (grid instanceof CodeGrid.Floats(Float8Format format) && format == Float8Format.E5M2) {
            return Optional.of("weights in E5M2 have no recipe");
        }
        Tensor zero = w.values().get(Place.ZERO_POINT);
        if (zero != null) {
            for (float z : zero.toFloats()) {
                if (grid.nearest(z) != 0) {
                    return Optional.of("weights have zero points, which range learning moved away from 0");
                }
            }
        }
        return Optional.empty();
    }

    private static Optional<String> unfitInput(LearnedScales input) {
        CodeGrid grid = input.quantizer().settings().grid();
        if (input.quantizer().form().form().offset() == GridQuantize.Offset.ADDED) {
            return Optional.of("LSQ+ adds an offset to inputs that is no whole number of codes");
        }
        if (input.values().containsKey(Place.PRE_AMAX)) {
            return Optional.of("codes of inputs are made with another scale than they are read with");
        }
        if (grid instanceof CodeGrid.Integers i && i.bits() != BYTE_BITS) {
            return Optional.of("inputs in " + grid.text() + " have no type in files, which have int8");
        }
        if (grid instanceof CodeGrid.Integers i && i.largest() - i.least() != (1 << BYTE_BITS) - 1) {
            return Optional.of("inputs in " + grid.text() + " leave out a code that readers use");
        }
        if (grid instanceof CodeGrid.Floats(Float8Format format) && format == Float8Format.E5M2) {
            return Optional.of("inputs in E5M2 have no recipe");
        }
        return Optional.empty();
    }

    private Fit fitGraphs() {
        Optional<String> unfit = unfit();
        if (unfit.isPresent()) {
            return Fit.none(unfit.get());
        }
        Quantizer w = weights.values().iterator().next().quantizer();
        LearnedScales input = inputs.get(weights.keySet().iterator().next());
        if (input != null
                && (inputScale(input).isEmpty() || input.quantizer().settings().levels() != Levels.ONE)) {
            return Fit.none("scales of inputs come from each run in a way that graphs do not have");
        }
        CodeGrid grid = w.settings().grid();
        Granularity granularity = w.settings().granularity();
        boolean whole = granularity instanceof Granularity.PerTensor || granularity instanceof Granularity.PerChannel;
        boolean integerInput = input != null && input.quantizer().settings().grid() instanceof CodeGrid.Integers;
        if (w.settings().levels() != Levels.ONE) {
            return Fit.none("graphs have no scales in blocks of MXFP8 or NVFP4");
        }
        if (grid instanceof CodeGrid.Floats) {
            if (!whole || integerInput) {
                return Fit.none("graphs have weights in E4M3 per tensor or channel, with inputs in E4M3");
            }
            return Fit.of(input == null ? Recipes.FP8_WEIGHT_ONLY : Recipes.FP8_PER_CHANNEL);
        }
        if (input != null && !integerInput) {
            return Fit.none("weights are integers and inputs are floats of eight bits");
        }
        if (((CodeGrid.Integers) grid).bits() == BYTE_BITS) {
            return whole
                    ? Fit.of(input == null ? Recipes.INT8_WEIGHT_ONLY : Recipes.GRAPH_INT8)
                    : Fit.none("graphs have weights in int8 per tensor or channel");
        }
        return group(granularity)
                .map(size -> Fit.of((input == null ? Recipes.INT4_WEIGHT_ONLY : Recipes.INT4_INT8)
                        .withGroups(new Granularity.PerGroup(-1, size))))
                .orElseGet(() -> Fit.none("no group of 16 to 128 inputs divides all weights and their blocks"));
    }

    /** Inputs that share a scale in a file: as many as possible, within the run's blocks. */
    private Optional<Integer> group(Granularity granularity) {
        if (granularity instanceof Granularity.PerBlock) {
            return Optional.empty();
        }
        for (int size : GROUPS) {
            boolean within = !(granularity instanceof Granularity.PerGroup(int _, int own)) || own % size == 0;
            boolean divides = weights.keySet().stream().allMatch(layer -> {
                Node n = node(layer);
                Shape shape = requireNonNull(masters.get(n.input(1))).shape();
                return shape.dim(n.intAttribute("transB", 0) == 0 ? 0 : 1) % size == 0;
            });
            if (within && divides) {
                return Optional.of(size);
            }
        }
        return Optional.empty();
    }

    private Fit fit(Layout layout) {
        Optional<String> unfit = unfit();
        if (unfit.isPresent()) {
            return Fit.none(unfit.get());
        }
        LearnedScales input = inputs.get(weights.keySet().iterator().next());
        if (input != null && zeroPoint(input) != 0) {
            return Fit.none("checkpoints have no zero points of inputs, and these are "
                    + input.quantizer().settings().text());
        }
        boolean fixed = input != null && inputScale(input).isPresent();
        for (Recipe candidate : candidates(input)) {
            if (layout.scheme(candidate, LayoutOptions.defaults().withStaticInputs(fixed))
                    .isPresent()) {
                return leastCode().map(Fit::none).orElse(Fit.of(candidate));
            }
        }
        return Fit.none("it has nothing for weights in "
                + weights.values().iterator().next().quantizer().settings().text() + " with inputs in "
                + (input == null ? "floats" : input.quantizer().settings().text()));
    }

    /** Checkpoints are written without the code -128. */
    private Optional<String> leastCode() {
        for (Map.Entry<String, LearnedScales> w : weights.entrySet()) {
            if (w.getValue().quantizer().settings().grid() instanceof CodeGrid.Integers i
                    && i.least() == Byte.MIN_VALUE) {
                Tensor master = master(w.getKey(), w.getValue());
                float[] read = w.getValue().forward(master, Arena.ofAuto()).toFloats();
                float[] scales = w.getValue().scales(master);
                Blocks blocks = w.getValue().quantizer().form().blocks(master.shape());
                for (int k = 0; k < read.length; k++) {
                    if (Math.rint(read[k] / scales[(int) blocks.scaleOf(k)]) == Byte.MIN_VALUE) {
                        return Optional.of("the weight of " + w.getKey()
                                + " has the code -128, which checkpoints do without (narrow_range: true trains"
                                + " without it)");
                    }
                }
            }
        }
        return Optional.empty();
    }

    private List<Recipe> candidates(@Nullable LearnedScales input) {
        Quantizer w = weights.values().iterator().next().quantizer();
        Granularity granularity = w.settings().granularity();
        boolean tensor = granularity instanceof Granularity.PerTensor;
        boolean whole = tensor || granularity instanceof Granularity.PerChannel;
        CodeGrid inputGrid = input == null ? null : input.quantizer().settings().grid();
        Granularity ofInput =
                input == null ? null : input.quantizer().settings().granularity();
        boolean tokens = input != null && (inputScale(input).isPresent() || ofInput instanceof Granularity.PerToken);
        List<Recipe> found = new ArrayList<>();
        switch (w.settings().grid()) {
            case CodeGrid.Integers i
            when i.bits() == BYTE_BITS -> {
                if (whole && tokens && inputGrid instanceof CodeGrid.Integers) {
                    found.add(Recipes.INT8);
                }
            }
            case CodeGrid.Integers _ -> {
                if (input == null && granularity instanceof Granularity.PerGroup) {
                    found.add(Recipes.INT4.withGroups(granularity));
                } else if (input == null && whole) {
                    found.add(Recipes.INT4.withGroups(new Granularity.PerChannel(-2)));
                }
            }
            case CodeGrid.Floats(Float8Format format)
            when format == Float8Format.E2M1 -> {
                if (isGroup(granularity, NVFP4_GROUP)
                        && input != null
                        && inputGrid instanceof CodeGrid.Floats
                        && input.quantizer().settings().levels() == Levels.TWO
                        && isGroup(ofInput, NVFP4_GROUP)) {
                    found.add(Recipes.NVFP4);
                }
            }
            case CodeGrid.Floats _
            when w.settings().levels() == Levels.POWER_OF_TWO -> {
                if (isGroup(granularity, MX_GROUP)
                        && input != null
                        && input.quantizer().settings().levels() == Levels.POWER_OF_TWO
                        && isGroup(ofInput, MX_GROUP)) {
                    found.add(Recipes.MXFP8);
                }
            }
            case CodeGrid.Floats _ -> {
                boolean floats = inputGrid instanceof CodeGrid.Floats;
                if (whole && tokens && floats) {
                    found.add(Recipes.FP8_DYNAMIC);
                }
                if (tensor && tokens && floats) {
                    found.add(Recipes.CHECKPOINT_FP8);
                }
                if (whole && input == null) {
                    found.add(Recipes.FP8_WEIGHT_ONLY);
                }
                if (Recipes.FP8_BLOCK.weight().granularity().equals(granularity)
                        && floats
                        && new Granularity.PerGroup(-1, 128).equals(ofInput)) {
                    found.add(Recipes.FP8_BLOCK);
                }
            }
            case CodeGrid.Signs _ -> {}
        }
        return found;
    }

    private static boolean isGroup(@Nullable Granularity granularity, int size) {
        return granularity instanceof Granularity.PerGroup(int _, int own) && own == size;
    }
}
