package dev.octet.trainer.autodiff;

import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.autodiff.Parameter.Use;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.OperandType;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.BiPredicate;

/**
 * Decides from its consumers whether a constant is a parameter. Operators that only move elements are skipped.
 *
 * <ol>
 *   <li>weight and bias of Linear, Gemm, Conv, ConvTranspose; scale and shift of normalisations (of BatchNormalization not the running
 *       mean and variance); the slope of PRelu: always;
 *   <li>a factor of MatMul or Einsum: unless a sine or cosine is taken of the product, as with the frequencies of rotary embeddings;
 *   <li>the table of a Gather: unless its rows are used only as factors, or a sine or cosine is taken of them: then it is a rotation table;
 *   <li>a summand of Add: unless it is a mask, which either holds only 0 and large negative numbers, or has three or more axes and is added
 *       before a Softmax over the last axis;
 *   <li>a factor of Mul: when it has one axis, as scales of channels have, or when the other factor was divided by a root, as in a
 *       normalisation whose heads have scales of their own;
 *   <li>a part of Concat with computed values;
 *   <li>q, k and v of Attention, and the bias added to its scores, with the exceptions of cases 2 and 4.
 * </ol>
 */
final class ParameterUses {
    /** A summand below this value is a mask, not a bias: early BERT masks with -10000. */
    private static final float MASKING = -1e4f;

    private static final Set<String> MOVES = Set.of(
            "Cast",
            "Dropout",
            "Expand",
            "Flatten",
            "Identity",
            "Reshape",
            "Slice",
            "Split",
            "Squeeze",
            "Transpose",
            "Unsqueeze");

    private static final Set<String> NORMS = Set.of(
            "BatchNormalization",
            "GroupNormalization",
            "InstanceNormalization",
            "LayerNormalization",
            "RMSNormalization");

    private final Map<String, List<Reader>> readers = new HashMap<>();
    private final Map<String, Node> makers = new HashMap<>();
    private final Set<String> constants;

    private record Reader(Node node, int input) {
        boolean moves() {
            return input == 0 && node.domain().isEmpty() && MOVES.contains(node.opType());
        }
    }

    ParameterUses(Graph graph) {
        constants = graph.initializers().keySet();
        for (Node n : graph.nodes()) {
            n.outputs().forEach(o -> makers.put(o, n));
            for (int i = 0; i < n.inputs().size(); i++) {
                if (n.hasInput(i)) {
                    readers.computeIfAbsent(n.input(i), v -> new ArrayList<>()).add(new Reader(n, i));
                }
            }
        }
    }

    /** The role of the constant; empty when it is not a parameter. */
    Optional<Use> of(String name, Tensor t) {
        boolean trainable = switch (t.dtype()) {
            case F32, F16, BF16, F64 -> t.shape().rank() > 0 && t.shape().elementCount() > 0;
            default -> false;
        };
        if (!trainable) {
            return Optional.empty();
        }
        for (Reader r : behindMoves(name)) {
            Optional<Use> use = use(r, t);
            if (use.isPresent()) {
                return use;
            }
        }
        return Optional.empty();
    }

    /** Consumers that compute with the value, directly or behind operators that only move elements. */
    private List<Reader> behindMoves(String name) {
        List<Reader> found = new ArrayList<>();
        Set<String> seen = new HashSet<>(Set.of(name));
        List<String> open = new ArrayList<>(seen);
        while (!open.isEmpty()) {
            for (Reader r : readers.getOrDefault(open.removeLast(), List.of())) {
                if (r.moves()) {
                    r.node().outputs().stream().filter(seen::add).forEach(open::add);
                } else {
                    found.add(r);
                }
            }
        }
        return found;
    }

    private Optional<Use> use(Reader r, Tensor t) {
        Node n = r.node();
        boolean several = t.shape().elementCount() > 1;
        // case 1
        if (n.isOctet("Linear") || n.is("Conv") || n.is("ConvTranspose")) {
            return r.input() == 0 ? Optional.empty() : Optional.of(r.input() == 1 ? Use.WEIGHT : Use.BIAS);
        }
        if (n.isOctet("GroupedLinear")) {
            return r.input() < 2 ? Optional.empty() : Optional.of(t.shape().rank() == 2 ? Use.WEIGHT : Use.BIAS);
        }
        if (n.is("Gemm")) {
            return Optional.of(r.input() == 2 ? Use.BIAS : Use.WEIGHT);
        }
        if (NORMS.contains(n.opType()) && (r.input() == 1 || r.input() == 2)) {
            return Optional.of(Use.NORM);
        }
        if (n.is("PRelu") && r.input() == 1) {
            return Optional.of(Use.WEIGHT);
        }
        if (!several) {
            return Optional.empty();
        }
        boolean is = switch (n.domain().isEmpty() ? n.opType() : "") {
            case "MatMul", "Einsum" -> !becomesAngle(n.output()); // case 2
            case "Gather" -> r.input() == 0 && !isRotationTable(n.output()); // case 3
            case "Add" -> !isMask(n.output(), t); // case 4
            case "Mul" ->
                (t.shape().rank() == 1 && !becomesAngle(n.output())) || isNormalised(n.input(1 - r.input())); // case 5
            case "Concat" -> n.inputs().stream().anyMatch(i -> !constants.contains(i)); // case 6
            case "Attention" -> r.input() < 3 || (r.input() == 3 && t.shape().rank() < 3 && !hides(t)); // case 7
            default -> false;
        };
        return is ? Optional.of(useOf(n, r.input())) : Optional.empty();
    }

    private static Use useOf(Node n, int input) {
        return switch (n.opType()) {
            case "Gather" -> Use.EMBEDDING;
            case "Add" -> Use.BIAS;
            case "Mul" -> Use.NORM;
            case "Concat" -> Use.TOKEN;
            case "Attention" -> input == 3 ? Use.BIAS : Use.WEIGHT;
            default -> Use.WEIGHT;
        };
    }

    private boolean isNormalised(String value) {
        Node division = makers.get(value);
        Node divisor = division == null || !division.is("Div") ? null : makers.get(division.input(1));
        return divisor != null && divisor.is("Sqrt");
    }

    /** Whether a sine or cosine is taken of a value, after no more than constant scaling and concatenation. */
    private boolean becomesAngle(String value) {
        Set<String> seen = new HashSet<>(Set.of(value));
        List<String> open = new ArrayList<>(seen);
        while (!open.isEmpty()) {
            for (Reader r : behindMoves(open.removeLast())) {
                Node n = r.node();
                if (n.is("Sin") || n.is("Cos")) {
                    return true;
                }
                if (n.is("Concat") || ((n.is("Mul") || n.is("Div")) && isConstant(n.input(1 - r.input())))) {
                    n.outputs().stream().filter(seen::add).forEach(open::add);
                }
            }
        }
        return false;
    }

    private boolean isConstant(String value) {
        return constants.contains(value);
    }

    private boolean isRotationTable(String looked) {
        List<Reader> uses = behindMoves(looked);
        BiPredicate<Node, Integer> rotates = (n, i) ->
                (n.is("Mul") && !isConstant(n.input(1 - i))) || (n.is("RotaryEmbedding") && (i == 1 || i == 2));
        return becomesAngle(looked)
                || (!uses.isEmpty() && uses.stream().allMatch(r -> rotates.test(r.node(), r.input())));
    }

    private boolean isMask(String sum, Tensor t) {
        boolean beforeSoftmax = t.shape().rank() >= 3
                && behindMoves(sum).stream().anyMatch(r -> r.node().is("Softmax"));
        return beforeSoftmax || hides(t);
    }

    private static boolean hides(Tensor t) {
        Shape shape = t.shape();
        CpuTensor elements = new CpuTensor(new OperandType(t.dtype(), shape), t.bytes());
        float[] one = new float[1];
        boolean hides = false;
        for (long i = 0; i < shape.elementCount(); i++) {
            elements.read(i, one, 0, 1);
            if (one[0] <= MASKING) {
                hides = true;
            } else if (one[0] != 0) {
                return false;
            }
        }
        return hides;
    }
}
