package dev.octet.trainer.loss;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.LongStream;
import org.jspecify.annotations.Nullable;

/**
 * What the routers of a mixture of experts add to a loss, over all tokens of all layers that are not padding. A decoder behind an encoder counts for
 * itself, with all of its tokens: each term is the sum of both.
 *
 * <p>Balance (Fedus et al. 2021, arXiv:2101.03961, equations 4 to 6, as transformers pools them over layers): experts times the sum over experts of the
 * share of choices of an expert, times its mean probability. It is least where all are chosen alike: k, the choices of a token. Only the probabilities
 * have a gradient. Where a router has sigmoids in place of probabilities, it is these divided by their sum (DeepSeek-AI 2024, arXiv:2412.19437,
 * equations 17 to 20, where it is divided by k). Z (Zoph et al. 2022, arXiv:2202.08906, equation 5): the mean square of log Σ exp of the scores, which keeps them small.
 */
final class RouterLoss {
    private final GraphEdit edit;
    private final List<Router> routers;

    /**
     * One layer's router.
     *
     * @param scores [.., experts], F32
     * @param chosen I64 [.., k]
     * @param tokens product of the axes before the last
     * @param sigmoid whether sigmoids of the scores stand for probabilities
     * @param padded whether the mask says which tokens are padding
     */
    private record Router(String scores, String chosen, long tokens, long experts, boolean sigmoid, boolean padded) {}

    private RouterLoss(GraphEdit edit, List<Router> routers) {
        this.edit = edit;
        this.routers = routers;
    }

    /**
     * The routers of a graph at concrete shapes.
     *
     * @throws InvalidOptionException when it has none, or they choose among different numbers of experts
     */
    static RouterLoss of(GraphEdit edit) {
        List<Router> found = new ArrayList<>();
        for (Node n : edit.nodes()) {
            if (n.isOctet("Linear") && n.intAttribute(Node.IN_F32, 0) != 0) {
                choice(edit, n).ifPresent(found::add);
            }
        }
        if (found.isEmpty()
                || found.stream().mapToLong(Router::experts).distinct().count() > 1) {
            throw new InvalidOptionException(
                    found.isEmpty()
                            ? "the model has no router that chooses by its probabilities"
                            : "the model's routers choose among different numbers of experts",
                    "loss: {router: ...}",
                    "leave the key out");
        }
        return new RouterLoss(edit, found);
    }

    /** The last choice among all experts that comes of the scores: those before it are among groups. */
    private static Optional<Router> choice(GraphEdit edit, Node linear) {
        if (!(edit.type(linear.output()) instanceof TensorType t) || t.dims() == null) {
            return Optional.empty();
        }
        long count = 1;
        for (Dim d : t.dims()) {
            count *= Objects.requireNonNull(d.size());
        }
        long experts = Objects.requireNonNull(t.dims().getLast().size());
        Set<String> after = new HashSet<>(Set.of(linear.output()));
        String chosen = null;
        for (Node n : edit.nodes()) {
            if (!n.domain().isEmpty() || n.inputs().stream().noneMatch(after::contains)) {
                continue;
            }
            after.addAll(n.outputs());
            if (n.is("TopK")
                    && edit.type(n.input(0)) instanceof TensorType of
                    && of.dims() != null
                    && of.dims().size() == t.dims().size()
                    && of.dims().getLast().equals(t.dims().getLast())) {
                chosen = n.output(1);
            }
        }
        if (chosen == null) {
            return Optional.empty();
        }
        boolean sigmoid = edit.consumers(linear.output()).stream().anyMatch(n -> n.is("Sigmoid"));
        boolean padded = linear.intAttribute(Node.UNMASKED, 0) == 0;
        return Optional.of(new Router(linear.output(), chosen, count / experts, experts, sigmoid, padded));
    }

    /** The balance of the experts, a scalar. */
    String balance(boolean masked, String mask) {
        return each(r -> r.balanceOfOne(masked && r.routers.getFirst().padded(), mask));
    }

    /** The sum of what the routers of an encoder add, or of all, and those of a decoder behind it. */
    private String each(Function<RouterLoss, String> term) {
        String sum = null;
        for (boolean padded : new boolean[] {true, false}) {
            List<Router> some =
                    routers.stream().filter(r -> r.padded() == padded).toList();
            if (!some.isEmpty()) {
                sum = sum(sum, term.apply(new RouterLoss(edit, some)));
            }
        }
        return Objects.requireNonNull(sum);
    }

    private String balanceOfOne(boolean masked, String mask) {
        long experts = routers.getFirst().experts();
        String numbers = longs(LongStream.range(0, experts).toArray());
        String chosen = null;
        String probable = null;
        for (Router r : routers) {
            String hits = cast(onnx("Equal", List.of(onnx("Unsqueeze", List.of(r.chosen(), longs(-1))), numbers)));
            String counts = onnx("ReduceSum", List.of(hits, longs(-2)), Attribute.of("keepdims", 0L)); // [.., experts]
            String probabilities = probabilities(r);
            chosen = sum(chosen, overTokens(counts, masked, mask));
            probable = sum(probable, overTokens(probabilities, masked, mask));
        }
        String tokens = tokens(masked, mask);
        String shares = onnx("Div", List.of(Objects.requireNonNull(chosen), tokens));
        String means = onnx("Div", List.of(Objects.requireNonNull(probable), tokens));
        String product = onnx("ReduceSum", List.of(onnx("Mul", List.of(shares, means))), Attribute.of("keepdims", 0L));
        return onnx("Mul", List.of(product, number((double) experts)));
    }

    private String probabilities(Router r) {
        if (!r.sigmoid()) {
            return onnx("Softmax", List.of(r.scores()), Attribute.of("axis", -1L));
        }
        String sigmoids = onnx("Sigmoid", List.of(r.scores()));
        String all = onnx("ReduceSum", List.of(sigmoids, longs(-1)), Attribute.of("keepdims", 1L));
        return onnx("Div", List.of(sigmoids, all));
    }

    /** The mean square of the scores' log Σ exp, a scalar. */
    String squares(boolean masked, String mask) {
        return each(r -> r.squaresOfOne(masked && r.routers.getFirst().padded(), mask));
    }

    private String squaresOfOne(boolean masked, String mask) {
        String total = null;
        for (Router r : routers) {
            String log = onnx("ReduceLogSumExp", List.of(r.scores(), longs(-1)), Attribute.of("keepdims", 1L));
            total = sum(total, overTokens(onnx("Mul", List.of(log, log)), masked, mask));
        }
        String mean = onnx("Div", List.of(Objects.requireNonNull(total), tokens(masked, mask)));
        return onnx("ReduceSum", List.of(mean), Attribute.of("keepdims", 0L));
    }

    /** Sums over all tokens that are not padding: [columns]. */
    private String overTokens(String value, boolean masked, String mask) {
        String kept = masked ? onnx("Mul", List.of(value, real(mask))) : value;
        return onnx("ReduceSum", List.of(kept, longs(0, 1)), Attribute.of("keepdims", 0L));
    }

    /** 1 for a token, 0 for padding: [batch, sequence, 1]. */
    private String real(String mask) {
        return onnx("Unsqueeze", List.of(cast(mask), longs(-1)));
    }

    /** Tokens of all layers that are not padding: [1], or a scalar. */
    private String tokens(boolean masked, String mask) {
        if (!masked) {
            return number((double) routers.size() * routers.getFirst().tokens());
        }
        String count = onnx("ReduceSum", List.of(real(mask), longs(0, 1)), Attribute.of("keepdims", 0L));
        return onnx("Mul", List.of(count, number(routers.size())));
    }

    private String sum(@Nullable String a, String b) {
        return a == null ? b : onnx("Add", List.of(a, b));
    }

    private String cast(String value) {
        return onnx("Cast", List.of(value), Attribute.of("to", (long) DType.F32.onnxId()));
    }

    private String onnx(String opType, List<String> inputs, Attribute... attributes) {
        String fresh = edit.freshName("octet.loss.router");
        edit.append(Node.of(fresh, opType, "", inputs, List.of(fresh), attributes));
        return fresh;
    }

    private String number(double value) {
        String name = edit.freshName("octet.loss.router.number");
        edit.putInitializer(Initializer.of(Tensor.ofFloats(Arena.ofAuto(), name, Shape.SCALAR, (float) value)));
        return name;
    }

    private String longs(long... values) {
        String name = edit.freshName("octet.loss.router.axes");
        edit.putInitializer(Initializer.of(Tensor.ofLongs(Arena.ofAuto(), name, Shape.of(values.length), values)));
        return name;
    }
}
