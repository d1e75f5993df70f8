package dev.octet.trainer.check;

import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.Product;
import dev.octet.quant.recipe.Recipes;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.loss.LossGraph;
import dev.octet.trainer.precision.ApexLevel;
import dev.octet.trainer.precision.Autocast;
import dev.octet.trainer.precision.AutocastList;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.Fp8Settings;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.yaml.Section;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** Whole models in every precision: the loss and the gradients are near torch's in F32, as near as the type lets them. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TinyPrecisionTest {
    private static final List<String> MODELS = List.of("gpt2_eager_dynamo18", "llama_eager_script17");

    /** How far results may be off: three bits of mantissa in two layers. */
    private static final double FP8 = 0.35;

    private static Map<PrecisionPolicy, Double> policies() {
        Map<PrecisionPolicy, Double> all = new TreeMap<>((a, b) -> a.toString().compareTo(b.toString()));
        all.put(Autocast.bf16(), 0.06);
        all.put(Autocast.fp16(), 0.06);
        all.put(new Autocast("bf16", DType.BF16, AutocastList.CUDA), 0.06);
        all.put(ApexLevel.O1.policy(), 0.06);
        Section usual = YamlFile.parse("{}", "none.yaml");
        Recipes.TRAINING.values().stream().map(r -> r.apply(usual)).forEach(r -> {
            // the first step's scale is 1: gradients smaller than E5M2's numbers are lost
            boolean lost = r.isDelayed() && r.operand(Product.DGRAD, LinearTensor.GRAD_OUTPUT) != null;
            all.put(new Fp8Policy(Autocast.bf16(), Fp8Settings.of(r)), lost ? 1.5 : FP8);
        });
        return all;
    }

    private static void check(String name, PrecisionPolicy policy, double tolerance) throws IOException {
        try (TinyGoldens tiny = TinyGoldens.open(name);
                Device device = CpuDevice.of(2)) {
            LossGraph graph = tiny.withLoss();
            GradientCheck check = new GradientCheck(graph.model(), graph.loss(), tiny.golden(), tiny.renamed(), policy);
            for (GoldenDifference d : check.run(device)) {
                double limit = d.tensor().equals("out.loss") ? 0.02 : tolerance;
                assertTrue(d.error() <= limit, d.toString());
            }
        }
    }

    @TestFactory
    Stream<DynamicTest> losses_and_gradients_are_near_torchs() {
        return MODELS.stream()
                .flatMap(name -> policies().entrySet().stream()
                        .map(p -> dynamicTest(
                                name + ", " + p.getKey().name(), () -> check(name, p.getKey(), p.getValue()))));
    }
}
