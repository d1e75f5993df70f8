package dev.octet.trainer;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.CodeGrid;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.trainer.autodiff.Parameter;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.op.qat.QuantizeNode;
import dev.octet.trainer.precision.Autocast;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.Fp8Settings;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.qat.FakeQuantizer;
import dev.octet.trainer.qat.FakeQuantizer.Place;
import dev.octet.trainer.qat.Method;
import dev.octet.trainer.qat.QatSettings;
import dev.octet.trainer.qat.QuantizedGraph;
import dev.octet.trainer.qat.QuantizerSettings;
import dev.octet.trainer.qat.ScaleLearning;
import dev.octet.trainer.step.ForwardSession;
import dev.octet.trainer.step.GraphSource;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.SplittableRandom;
import java.util.TreeMap;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The two ways to train for the FP8 that is deployed: learned steps in E4M3, held where {@code recipe: qat} has its scales, compute what that recipe computes. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class QatDeployedTest {
    private static final int ROWS = 64;

    private static QuantizerSettings e4m3(Granularity granularity) {
        return new QuantizerSettings(
                Method.LSQ,
                new CodeGrid.Floats(Float8Format.E4M3FN),
                granularity,
                QuantizeNode.Count.SHARED,
                QuantizerSettings.Levels.ONE,
                QuantizerSettings.Variant.PAPER);
    }

    @ParameterizedTest
    @ValueSource(strings = {"fp32", "bf16"})
    void held_scales_give_the_bits_of_the_recipe(String base) {
        Autocast autocast = base.equals("fp32") ? Autocast.fp32() : Autocast.bf16();
        GraphSource floats = SmallRun.source(SmallRun.HIDDEN);
        QuantizedGraph quantized = QuantizedGraph.of(
                floats.graph(),
                new QatSettings(
                        Optional.of(e4m3(new Granularity.PerChannel(-2))),
                        Optional.of(e4m3(new Granularity.PerTensor())),
                        OptionalInt.empty(),
                        false,
                        false,
                        List.of(),
                        ScaleLearning.DEFAULT),
                1);
        Map<String, Tensor> weights = new TreeMap<>();
        for (Parameter p : Parameters.of(floats.graph().graph()).all()) {
            weights.put(p.name(), Parameters.master(p, Arena.ofAuto()));
        }
        Map<String, Tensor> held = new TreeMap<>(weights);
        for (FakeQuantizer q : quantized.quantizers()) {
            String name = q.parameter(Place.SCALE);
            // before its first step the recipe multiplies inputs by 1
            held.put(
                    name,
                    q.tensor() == LinearTensor.INPUT
                            ? Tensor.ofFloats(Arena.ofAuto(), name, Shape.SCALAR, 1)
                            : recipeScales(q, requireNonNull(weights.get(q.value()))));
        }
        Fp8Settings recipe = Fp8Settings.of(TrainingRecipe.Qat.DEFAULT).faked();
        float[] deployed = logits(floats, new Fp8Policy(autocast, recipe), weights);
        float[] learned = logits(floats.with(quantized.model()), autocast, held);
        assertArrayEquals(deployed, learned);
        assertFalse(Arrays.equals(logits(floats, autocast, weights), learned), "nothing was quantised");
    }

    /** The reciprocals of what the recipe multiplies by. */
    private static Tensor recipeScales(FakeQuantizer q, Tensor weight) {
        Blocks blocks = q.form().blocks(weight.shape());
        float[] amax = new float[(int) blocks.scaleCount()];
        float[] elements = weight.toFloats();
        for (int i = 0; i < elements.length; i++) {
            int k = (int) blocks.scaleOf(i);
            amax[k] = Math.max(amax[k], Math.abs(elements[i]));
        }
        for (int k = 0; k < amax.length; k++) {
            amax[k] = 1 / (448 / amax[k]);
        }
        return Tensor.ofFloats(Arena.ofAuto(), q.parameter(Place.SCALE), Shape.of(amax.length), amax);
    }

    private static float[] logits(GraphSource source, PrecisionPolicy policy, Map<String, Tensor> weights) {
        SplittableRandom random = new SplittableRandom(3);
        float[] x = new float[ROWS * SmallRun.IN];
        for (int i = 0; i < x.length; i++) {
            x[i] = (float) random.nextGaussian();
        }
        try (Device device = CpuDevice.of(1);
                ForwardSession session =
                        new ForwardSession(source, List.of("logits"), policy, weights, Map.of(), device);
                Arena arena = Arena.ofConfined()) {
            Tensor input = Tensor.ofFloats(arena, "x", Shape.of(ROWS, SmallRun.IN), x);
            return requireNonNull(session.outputs(Map.of("x", input), arena).get("logits"))
                    .toFloats();
        }
    }
}
