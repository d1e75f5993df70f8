package dev.octet.pipeline.run;

import static java.util.Objects.requireNonNull;

import dev.octet.converter.lower.OnnxTarget;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.number.CodeGrid;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.trainer.op.qat.GridQuantize;
import dev.octet.trainer.qat.FakeQuantizer;
import dev.octet.trainer.qat.FakeQuantizer.Place;
import dev.octet.trainer.qat.LearnedScales;
import dev.octet.trainer.qat.Method;
import dev.octet.trainer.qat.QuantizerSettings;
import dev.octet.trainer.qat.QuantizerSettings.Levels;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** Which recipe has the codes that a run in mode {@code qat} trained, in graphs and in each layout of checkpoints, or why none has. */
final class QatRecipes {
    private static final int BYTE_BITS = 8;
    private static final int[] GROUPS = {128, 64, 32, 16};
    private static final int MX_GROUP = 32;
    private static final int NVFP4_GROUP = 16;

    private final List<QuantizedLinear> linears;
    private final List<String> inputsAlone;

    /**
     * @param linears whose weights the run quantised
     * @param inputsAlone ids of the Linears of which it quantised the input and not the weight
     */
    QatRecipes(List<QuantizedLinear> linears, List<String> inputsAlone) {
        this.linears = List.copyOf(linears);
        this.inputsAlone = List.copyOf(inputsAlone);
    }

    /** A recipe, or why there is none. */
    record Fit(Optional<Recipe> recipe, String why) {
        static Fit of(Recipe recipe) {
            return new Fit(Optional.of(recipe), "");
        }

        static Fit none(String why) {
            return new Fit(Optional.empty(), why);
        }
    }

    /** Targets that hold the codes, as users name them. */
    List<String> targets() {
        List<String> able = new ArrayList<>();
        for (OnnxTarget t : OnnxTarget.values()) {
            if (of(t).recipe().isPresent()) {
                able.add(t.label());
            }
        }
        for (Layout l : Layouts.ALL) {
            if (of(l).recipe().isPresent()) {
                able.add(l.name());
            }
        }
        return able;
    }

    /** What is the same for all targets: one form of weights, one of inputs, codes of a width that files have. */
    private Optional<String> unfit() {
        if (linears.isEmpty()) {
            return Optional.of("its weights are in floats");
        }
        QuantizedLinear first = linears.getFirst();
        for (QuantizedLinear linear : linears) {
            Optional<String> reason = unfit(linear.weight());
            if (reason.isPresent()) {
                return reason;
            }
            LearnedScales input = linear.input();
            LearnedScales firstInput = first.input();
            if (!alike(first.weight(), linear.weight()) || (input == null) != (firstInput == null)) {
                return Optional.of(linear.id() + " is quantised in another way than " + first.id()
                        + ", and a file has one recipe");
            }
            if (input != null && firstInput != null && !alike(firstInput, input)) {
                return Optional.of("the input of " + linear.id() + " is quantised in another way than that of "
                        + first.id() + ", and a file has one recipe");
            }
        }
        return inputsAlone.stream()
                .findFirst()
                .map(layer -> "the input of " + layer + " is quantised and its weight is not")
                .or(() -> Optional.ofNullable(first.input()).flatMap(QatRecipes::unfitInput));
    }

    private static boolean alike(LearnedScales one, LearnedScales other) {
        QuantizerSettings a = one.quantizer().settings();
        QuantizerSettings b = other.quantizer().settings();
        return a.grid().equals(b.grid())
                && a.levels() == b.levels()
                && a.granularity().equals(b.granularity())
                && a.method().equals(b.method())
                && offset(one) == offset(other);
    }

    private static GridQuantize.Offset offset(LearnedScales s) {
        return s.quantizer().form().form().offset();
    }

    private static Optional<String> unfit(LearnedScales w) {
        FakeQuantizer q = w.quantizer();
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
        if (offset(input) == GridQuantize.Offset.ADDED) {
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

    /** The recipe of graphs for a program. */
    Fit of(OnnxTarget target) {
        Optional<String> unfit = unfit();
        if (unfit.isPresent()) {
            return Fit.none(unfit.get());
        }
        QuantizerSettings w = linears.getFirst().weight().quantizer().settings();
        LearnedScales input = linears.getFirst().input();
        if (linears.getFirst().findsZeroPoints()) {
            return atRunTime(target, w, requireNonNull(input).quantizer().settings());
        }
        if (input != null
                && (linears.getFirst().inputScale().isEmpty()
                        || input.quantizer().settings().levels() != Levels.ONE)) {
            return Fit.none("scales of inputs come from each run in a way that graphs do not have");
        }
        if (target == OnnxTarget.TENSORRT && linears.stream().anyMatch(l -> l.zeroPoint() != 0)) {
            return Fit.none("TensorRT has no zero points of inputs");
        }
        CodeGrid grid = w.grid();
        Granularity granularity = w.granularity();
        boolean whole = granularity instanceof Granularity.PerTensor || granularity instanceof Granularity.PerChannel;
        boolean integerInput = input != null && input.quantizer().settings().grid() instanceof CodeGrid.Integers;
        if (w.levels() != Levels.ONE) {
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
        if (target == OnnxTarget.TENSORRT && input != null) {
            return Fit.none("TensorRT has weights in int4 with inputs in floats alone");
        }
        return group(granularity)
                .map(size -> Fit.of((input == null ? Recipes.INT4_WEIGHT_ONLY : Recipes.INT4_INT8)
                        .withGroups(new Granularity.PerGroup(-1, size))))
                .orElseGet(() -> Fit.none("no group of 16 to 128 inputs divides all weights and their blocks"));
    }

    /** Of inputs whose zero points each run finds. */
    private static Fit atRunTime(OnnxTarget target, QuantizerSettings weights, QuantizerSettings inputs) {
        if (target == OnnxTarget.TENSORRT) {
            return Fit.none("TensorRT has no zero points of inputs");
        }
        if (!(inputs.granularity() instanceof Granularity.PerTensor)) {
            return Fit.none("ONNX finds the range of an input for the whole tensor, not for each "
                    + (inputs.granularity() instanceof Granularity.PerToken ? "token" : "group")
                    + " (granularity: tensor trains for it)");
        }
        boolean whole = weights.granularity() instanceof Granularity.PerTensor
                || weights.granularity() instanceof Granularity.PerChannel;
        boolean bytes = weights.grid() instanceof CodeGrid.Integers i && i.bits() == BYTE_BITS;
        return whole && bytes
                ? Fit.of(Recipes.INT8_DYNAMIC)
                : Fit.none("graphs have inputs whose range each run finds with weights in int8 per tensor or channel");
    }

    /** Inputs that share a scale in a file: as many as possible, within the run's blocks. */
    private Optional<Integer> group(Granularity granularity) {
        if (granularity instanceof Granularity.PerBlock) {
            return Optional.empty();
        }
        for (int size : GROUPS) {
            boolean within = !(granularity instanceof Granularity.PerGroup(int _, int own)) || own % size == 0;
            boolean divides = linears.stream().allMatch(l -> l.inputCount() % size == 0);
            if (within && divides) {
                return Optional.of(size);
            }
        }
        return Optional.empty();
    }

    /** The recipe of checkpoints in a layout. */
    Fit of(Layout layout) {
        Optional<String> unfit = unfit();
        if (unfit.isPresent()) {
            return Fit.none(unfit.get());
        }
        LearnedScales input = linears.getFirst().input();
        if (input != null && linears.stream().anyMatch(l -> l.zeroPoint() != 0)) {
            return Fit.none("checkpoints have no zero points of inputs, and these are "
                    + input.quantizer().settings().text());
        }
        boolean fixed = linears.getFirst().inputScale().isPresent();
        for (Recipe candidate : candidates(input)) {
            if (layout.scheme(candidate, LayoutOptions.defaults().withStaticInputs(fixed))
                    .isPresent()) {
                return leastCode().map(Fit::none).orElse(Fit.of(candidate));
            }
        }
        return Fit.none("it has nothing for weights in "
                + linears.getFirst().weight().quantizer().settings().text() + " with inputs in "
                + (input == null ? "floats" : input.quantizer().settings().text()));
    }

    /** Checkpoints are written without the code -128. */
    private Optional<String> leastCode() {
        for (QuantizedLinear linear : linears) {
            LearnedScales w = linear.weight();
            if (w.quantizer().settings().grid() instanceof CodeGrid.Integers i && i.least() == Byte.MIN_VALUE) {
                Tensor master = linear.master();
                float[] read = w.forward(master, Arena.ofAuto()).toFloats();
                float[] scales = w.scales(master);
                Blocks blocks = w.quantizer().form().blocks(master.shape());
                for (int k = 0; k < read.length; k++) {
                    if (Math.rint(read[k] / scales[(int) blocks.scaleOf(k)]) == Byte.MIN_VALUE) {
                        return Optional.of("the weight of " + linear.id()
                                + " has the code -128, which checkpoints do without (narrow_range: true trains"
                                + " without it)");
                    }
                }
            }
        }
        return Optional.empty();
    }

    private List<Recipe> candidates(@Nullable LearnedScales input) {
        QuantizerSettings w = linears.getFirst().weight().quantizer().settings();
        Granularity granularity = w.granularity();
        boolean tensor = granularity instanceof Granularity.PerTensor;
        boolean whole = tensor || granularity instanceof Granularity.PerChannel;
        CodeGrid inputGrid = input == null ? null : input.quantizer().settings().grid();
        Granularity ofInput =
                input == null ? null : input.quantizer().settings().granularity();
        boolean tokens = input != null
                && (linears.getFirst().inputScale().isPresent() || ofInput instanceof Granularity.PerToken);
        List<Recipe> found = new ArrayList<>();
        switch (w.grid()) {
            case CodeGrid.Integers i
            when i.bits() == BYTE_BITS -> {
                if (whole && tokens && inputGrid instanceof CodeGrid.Integers) {
                    found.add(linears.getFirst().findsZeroPoints() ? Recipes.INT8_AFFINE_INPUTS : Recipes.INT8);
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
            when w.levels() == Levels.POWER_OF_TWO -> {
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
