package dev.octet.trainer.precision;

import static dev.octet.formats.op.AutocastClass.F32_IN_APEX;
import static dev.octet.formats.op.AutocastClass.F32_IN_LOW_MODELS;
import static dev.octet.formats.op.AutocastClass.F32_ON_BOTH;
import static dev.octet.formats.op.AutocastClass.F32_ON_CPU;
import static dev.octet.formats.op.AutocastClass.F32_ON_CPU_AND_IN_APEX;
import static dev.octet.formats.op.AutocastClass.F32_ON_GPU;
import static dev.octet.formats.op.AutocastClass.LOSS;
import static dev.octet.formats.op.AutocastClass.LOW;
import static dev.octet.formats.op.AutocastClass.LOW_IN_PYTORCH;

import dev.octet.formats.graph.Node;
import dev.octet.formats.op.AutocastClass;
import dev.octet.formats.op.Operator;
import dev.octet.formats.op.OperatorTable;
import dev.octet.trainer.precision.PrecisionPolicy.Rule;
import java.util.Set;

/**
 * Which operators autocast computes in the narrow type and which in F32, by their {@link AutocastClass}.
 *
 * <p>One difference is wanted: a normalisation with a narrow input and F32 weights gives F32 here and the input's type in PyTorch.
 */
public enum AutocastList {
    /** PyTorch's for processors, and the default: softmax, normalisations, sums and exponentials are not widened. */
    CPU(Set.of(LOW, LOW_IN_PYTORCH), Set.of(LOSS, F32_ON_CPU, F32_ON_BOTH, F32_ON_CPU_AND_IN_APEX), Rule.WIDEST),
    /** PyTorch's for CUDA, the same for F16 and BF16. */
    CUDA(Set.of(LOW, LOW_IN_PYTORCH), Set.of(LOSS, F32_ON_GPU, F32_ON_BOTH), Rule.WIDEST),
    /** Apex O1's: the CUDA list with GELU and interpolation in F32, without attention in the narrow type. */
    APEX(Set.of(LOW), Set.of(LOSS, F32_ON_GPU, F32_ON_BOTH, F32_IN_APEX, F32_ON_CPU_AND_IN_APEX), Rule.WIDEST),
    /** Apex O2's: a narrow model except for batch normalisation. */
    ALL_BUT_BATCH_NORM(Set.of(), Set.of(LOSS, F32_IN_LOW_MODELS), Rule.LOW),
    /** Apex O3's: a narrow model. */
    ALL(Set.of(), Set.of(LOSS), Rule.LOW);

    @SuppressWarnings("ImmutableEnumChecker") // Set.of
    private final Set<AutocastClass> low;

    @SuppressWarnings("ImmutableEnumChecker") // Set.of
    private final Set<AutocastClass> f32;

    private final Rule others;

    AutocastList(Set<AutocastClass> low, Set<AutocastClass> f32, Rule others) {
        this.low = low;
        this.f32 = f32;
        this.others = others;
    }

    /** The rule for an operator. */
    public Rule rule(Node node) {
        AutocastClass autocast = OperatorTable.of(node).map(Operator::autocast).orElse(AutocastClass.WIDEST);
        if (autocast == AutocastClass.WIDENS_ITSELF) {
            return Rule.AS_THEY_ARE;
        }
        return f32.contains(autocast) ? Rule.F32 : low.contains(autocast) ? Rule.LOW : others;
    }
}
