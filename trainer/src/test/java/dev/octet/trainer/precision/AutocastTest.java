package dev.octet.trainer.precision;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.trainer.precision.PrecisionPolicy.Rule;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class AutocastTest {
    private static Rule rule(PrecisionPolicy policy, String type) {
        return policy.rule(Node.of("n", type, List.of("x"), List.of("y")));
    }

    @Test
    void processors_and_cuda_differ_in_what_they_widen() {
        Autocast cuda = new Autocast("bf16", DType.BF16, AutocastList.CUDA);
        for (String type : List.of("Softmax", "LayerNormalization", "ReduceSum", "Exp", "Pow")) {
            assertEquals(Rule.WIDEST, rule(Autocast.bf16(), type), type);
            assertEquals(Rule.F32, rule(cuda, type), type);
        }
        for (PrecisionPolicy policy : List.of(Autocast.bf16(), cuda)) {
            assertEquals(Rule.LOW, rule(policy, "Linear"));
            assertEquals(Rule.LOW, rule(policy, "Conv"));
            assertEquals(Rule.LOW, rule(policy, "Attention"));
            assertEquals(Rule.WIDEST, rule(policy, "Gelu"));
            assertEquals(Rule.WIDEST, rule(policy, "Add"));
            assertEquals(Rule.F32, rule(policy, "SoftmaxCrossEntropyLoss"));
        }
    }

    @Test
    void apex_levels_narrow_nothing_then_functions_then_the_model() {
        assertEquals(DType.F32, ApexLevel.O0.policy().low());
        assertEquals(Rule.F32, rule(ApexLevel.O0.policy(), "Linear"));
        assertEquals(Rule.LOW, rule(ApexLevel.O1.policy(), "Linear"));
        assertEquals(Rule.F32, rule(ApexLevel.O1.policy(), "Gelu"));
        assertEquals(Rule.WIDEST, rule(ApexLevel.O1.policy(), "Add"));
        assertEquals(Rule.LOW, rule(ApexLevel.O2.policy(), "Add"));
        assertEquals(Rule.F32, rule(ApexLevel.O2.policy(), "BatchNormalization"));
        assertEquals(Rule.LOW, rule(ApexLevel.O2.policy(false), "BatchNormalization"));
        assertEquals(Rule.LOW, rule(ApexLevel.O3.policy(), "BatchNormalization"));
    }

    @Test
    void apex_levels_scale_the_loss_where_sensitive_functions_are_narrow() {
        assertEquals(LossScaling.Fixed.NONE, ApexLevel.O0.lossScaling());
        assertEquals(LossScaling.ApexScaler.DEFAULT, ApexLevel.O1.lossScaling());
        assertEquals(LossScaling.ApexScaler.DEFAULT, ApexLevel.O2.lossScaling());
        assertEquals(LossScaling.Fixed.NONE, ApexLevel.O3.lossScaling());
    }
}
