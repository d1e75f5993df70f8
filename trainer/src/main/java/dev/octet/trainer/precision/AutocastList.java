package dev.octet.trainer.precision;

import dev.octet.formats.graph.Node;
import dev.octet.trainer.precision.PrecisionPolicy.Rule;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Which operators autocast computes in the narrow type and which in F32, by the names of ONNX and Octet's domain; all others in the widest
 * type among their inputs, which is what PyTorch's type promotion comes to.
 *
 * <p>Where PyTorch's functions and ONNX's operators do not match one to one: {@code bmm}, {@code mm}, {@code addmm}, {@code linear} are
 * MatMul, Gemm, Linear and Einsum; sums and norms are ReduceSum, ReduceL1 and their like; every operator whose name ends in Loss is a
 * loss. One difference is wanted: a normalisation with a narrow input and F32 weights gives F32 here and the input's type in
 * PyTorch.
 */
public enum AutocastList {
    /** PyTorch's for processors, and the default: softmax, normalisations, sums and exponentials are not widened. */
    CPU(products(), Set.of("ReduceProd", "Pad", "GridSample", "DFT", "Det")),
    /** PyTorch's for CUDA, the same for F16 and BF16. */
    CUDA(products(), sensitive()),
    /** Apex O1's: the CUDA list with GELU and interpolation in F32, without attention in the narrow type. */
    APEX(without(products(), "Attention"), with(sensitive(), "Gelu", "LRN", "Resize", "GridSample")),
    /** Apex O2's: a narrow model except for batch normalisation. */
    ALL_BUT_BATCH_NORM(Set.of(), Set.of("BatchNormalization")),
    /** Apex O3's: a narrow model. */
    ALL(Set.of(), Set.of());

    @SuppressWarnings("ImmutableEnumChecker") // Set.of
    private final Set<String> low;

    @SuppressWarnings("ImmutableEnumChecker") // Set.of
    private final Set<String> f32;

    AutocastList(Set<String> low, Set<String> f32) {
        this.low = low;
        this.f32 = f32;
    }

    private static Set<String> products() {
        return Set.of("Conv", "ConvTranspose", "MatMul", "Gemm", "Linear", "Einsum", "PRelu", "Attention");
    }

    /** What loses too much in eight or ten bits of mantissa, or overflows. */
    private static Set<String> sensitive() {
        return Set.of(
                "Pow",
                "Acos",
                "Asin",
                "Cosh",
                "Sinh",
                "Tan",
                "Exp",
                "Log",
                "Reciprocal",
                "Softplus",
                "Softmax",
                "LogSoftmax",
                "LayerNormalization",
                "GroupNormalization",
                "LpNormalization",
                "CumSum",
                "ReduceProd",
                "ReduceSum",
                "ReduceL1",
                "ReduceL2",
                "ReduceSumSquare",
                "ReduceLogSum",
                "ReduceLogSumExp");
    }

    private static Set<String> with(Set<String> set, String... more) {
        return Stream.concat(set.stream(), Stream.of(more)).collect(Collectors.toUnmodifiableSet());
    }

    private static Set<String> without(Set<String> set, String one) {
        return set.stream().filter(s -> !s.equals(one)).collect(Collectors.toUnmodifiableSet());
    }

    /** The rule for an operator. */
    public Rule rule(Node node) {
        String type = node.opType();
        if (node.domain().equals(Node.OCTET_DOMAIN) && type.endsWith("Loss")) {
            return Rule.AS_THEY_ARE; // computes in F32 and gives F32; narrow scores need no wide copy, nor one for a
            // teacher's F32
        }
        if (f32.contains(type) || type.endsWith("Loss")) {
            return Rule.F32;
        }
        return low.contains(type) || this == ALL || this == ALL_BUT_BATCH_NORM ? Rule.LOW : Rule.WIDEST;
    }
}
