package dev.octet.trainer.precision;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.graph.Node;
import dev.octet.formats.op.Operator;
import dev.octet.formats.op.OperatorTable;
import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.op.Ops;
import dev.octet.trainer.precision.PrecisionPolicy.Rule;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class AutocastTest {
    private static Rule rule(PrecisionPolicy policy, String type) {
        String domain = type.equals("Linear") ? Node.OCTET_DOMAIN : "";
        return policy.rule(Node.of("n", type, domain, List.of("x"), List.of("y")));
    }

    @Test
    void every_operator_that_can_be_trained_is_in_the_table_of_operators() {
        for (OpEntry<?> entry : Ops.ALL) {
            entry.names()
                    .forEach(n ->
                            assertTrue(OperatorTable.of(n.domain(), n.type()).isPresent(), n.type()));
        }
    }

    /** Every name as in the lists of PyTorch 2.13 and Apex, so that a row moved to another class is seen. */
    @Test
    void each_list_narrows_and_widens_these_operators() {
        String low = "Conv ConvTranspose Einsum Gemm GroupedLinear Linear MatMul PRelu";
        String losses = "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss";
        String gpu =
                "Acos Asin Cosh CumSum Exp GroupNormalization LayerNormalization Log LogSoftmax LpNormalization Pow"
                    + " Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceProd ReduceSum ReduceSumSquare"
                    + " Sinh Softmax Softplus Tan ";
        assertEquals(names("Attention " + low), names(AutocastList.CPU, Rule.LOW));
        assertEquals(names("DFT Det GridSample Pad ReduceProd " + losses), names(AutocastList.CPU, Rule.F32));
        assertEquals(names("Attention " + low), names(AutocastList.CUDA, Rule.LOW));
        assertEquals(names(gpu + losses), names(AutocastList.CUDA, Rule.F32));
        assertEquals(names(low), names(AutocastList.APEX, Rule.LOW));
        assertEquals(names(gpu + "Gelu GridSample LRN Resize " + losses), names(AutocastList.APEX, Rule.F32));
        assertEquals(names("BatchNormalization " + losses), names(AutocastList.ALL_BUT_BATCH_NORM, Rule.F32));
        assertEquals(names(losses), names(AutocastList.ALL, Rule.F32));
        for (AutocastList list : AutocastList.values()) {
            assertEquals(
                    names("CosineLoss CutCrossEntropyLoss ExpertCombine ExpertDispatch ExpertRows ExpertSum"
                            + " GridQuantize KlDivergenceLoss MeanSquaredErrorLoss MixedLoss"
                            + " SoftmaxCrossEntropyLoss"),
                    names(list, Rule.AS_THEY_ARE));
        }
    }

    private static Set<String> names(String words) {
        return new TreeSet<>(List.of(words.split(" ")));
    }

    private static Set<String> names(AutocastList list, Rule rule) {
        return OperatorTable.ALL.stream()
                .filter(o -> list.rule(Node.of("n", o.name(), o.domain(), List.of("x"), List.of("y"))) == rule)
                .map(Operator::name)
                .collect(Collectors.toCollection(TreeSet::new));
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
