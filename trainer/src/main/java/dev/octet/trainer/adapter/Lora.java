package dev.octet.trainer.adapter;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.peft.LoraConfig;
import dev.octet.formats.peft.PeftKeys;
import dev.octet.formats.peft.PeftRole;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.adapter.AdapterEdit.Behind;
import dev.octet.trainer.adapter.BaseModules.Table;
import dev.octet.trainer.precision.LinearModule;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * LoRA: {@code y = x·Wᵀ + b + B·(A·x)·scaling} for each target, A [r, in], B [out, r]. See Hu et al., arXiv:2106.09685; names, defaults and initial values are those of
 * PEFT's {@code tuners/lora}. With {@code use_dora} the columns of the sum are scaled to trained lengths m: {@code y = m/‖W + s·B·A‖·(x·Wᵀ + s·B·(A·x)) + b}, the norm
 * without gradient (Liu et al., arXiv:2402.09353, §4.3).
 */
final class Lora {
    private final LoraConfig config;
    private final AdapterEdit edit;
    private final AdapterSettings settings;
    private Optional<MergeAwareness> merge = Optional.empty();

    Lora(LoraConfig config, AdapterEdit edit, AdapterSettings settings) {
        this.config = config;
        this.edit = edit;
        this.settings = settings;
    }

    /**
     * Adds the products.
     *
     * @throws InvalidOptionException when a rank is larger than a dimension
     */
    void apply(Targets targets) {
        merge = MergeAwareness.of(settings, edit, targets.linears());
        targets.linears().forEach(this::linear);
        targets.tables().forEach(this::table);
    }

    private void linear(LinearModule target) {
        String module = target.name();
        BaseWeight weight = new BaseWeight(edit.constant(target.weight()), !target.transB());
        int in = weight.in();
        int out = weight.out();
        int r = rank(module, in, out);
        double scaling = config.scaling(module);
        LoraStart start = LoraStart.of(config.initLoraWeights(), settings);
        LoraStart.Pair pair = edit.isContinued()
                ? LoraStart.Pair.UNUSED
                : start.pair(weight, r, scaling, edit.random(PeftKeys.key(module, PeftRole.LORA_A)));
        String a = edit.parameter(PeftKeys.key(module, PeftRole.LORA_A), Shape.of(r, in), pair.a());
        String b = edit.parameter(PeftKeys.key(module, PeftRole.LORA_B), Shape.of(out, r), pair.b());
        Node node = edit.node(target);
        Behind behind = edit.behind(node);
        boolean merged = merge.isPresent() && merge.get().apply(target, behind, a, b);
        String x = merged
                ? behind.detached(module + ".lora_x", node.input(0)) // the quantised weight gives the gradient of x
                : behind.dropout(module + ".lora_dropout", node.input(0), config.loraDropout(), settings.seed());
        String s = edit.number(module + ".lora_scaling", scaling);
        // scaled where it is narrow: r columns rather than the layer's
        String low = behind.op(module + ".lora_scaled", "Mul", List.of(behind.linear(module + ".lora_A", x, a), s));
        List<String> upInputs = new ArrayList<>(List.of(low, b));
        if (config.loraBias()) {
            String bias = edit.parameter(PeftKeys.key(module, PeftRole.LORA_B_BIAS), Shape.of(out), start.bias(r));
            upInputs.add(behind.op(module + ".lora_bias", "Mul", List.of(bias, s)));
        }
        String up = behind.linear(module + ".lora_B", upInputs);
        if (merged) {
            // its value is zero, its gradient that of the product: the rounding is taken for the identity
            String through = behind.op(
                    module + ".lora_through", "Sub", List.of(up, behind.detached(module + ".lora_value", up)));
            behind.result(module + ".lora", "Add", List.of(behind.output(), through));
            return;
        }
        String residual = behind.output();
        String normA = a;
        String normB = b;
        if (pair.isTakenFromBase() && !edit.isContinued()) {
            // the base keeps its bytes: what the pair started from is subtracted from its product instead
            String a0 = edit.frozen(module + ".lora_start_A", Shape.of(r, in), pair.aElements(Shape.of(r, in)));
            String b0 = edit.frozen(module + ".lora_start_B", Shape.of(out, r), pair.bElements(Shape.of(out, r)));
            String low0 = behind.op(
                    module + ".lora_start_scaled",
                    "Mul",
                    List.of(behind.linear(module + ".lora_start", node.input(0), a0), s));
            residual = behind.op(
                    module + ".lora_residual",
                    "Sub",
                    List.of(residual, behind.linear(module + ".lora_start_up", low0, b0)));
            edit.subtracted(module, a0, b0);
            if (config.useDora()) {
                normA = behind.wideOp(module + ".lora_norm_A", "Concat", List.of(a, a0), Attribute.of("axis", 0L));
                normB = behind.wideOp(
                        module + ".lora_norm_B",
                        "Concat",
                        List.of(b, behind.wideOp(module + ".lora_norm_B0", "Neg", List.of(b0))),
                        Attribute.of("axis", 1L));
            }
        }
        if (!config.useDora()) {
            behind.result(module + ".lora", "Add", List.of(residual, up));
            return;
        }
        String m = edit.parameter(
                PeftKeys.key(module, PeftRole.LORA_MAGNITUDE),
                Shape.of(out),
                (_, _) -> pair.isTakenFromBase()
                        ? roots(weight.squares())
                        : Dora.norms(
                                weight, scaling, pair.aElements(Shape.of(r, in)), pair.bElements(Shape.of(out, r)), r));
        String norm = new Dora(edit, behind, module, scaling)
                .norm(normA, normB, target.weight(), target.transB(), weight.squares());
        String gain = behind.wideOp(module + ".lora_gain", "Div", List.of(m, norm));
        String bias = node.input(2);
        if (config.loraDropout() == 0) {
            behind.input(2, "");
            String scaled = behind.op(
                    module + ".lora_dora",
                    "Mul",
                    List.of(behind.op(module + ".lora_sum", "Add", List.of(residual, up)), gain));
            if (bias.isEmpty()) {
                behind.result(module + ".lora", "Identity", List.of(scaled));
            } else {
                behind.result(module + ".lora", "Add", List.of(scaled, bias));
            }
            return;
        }
        // PEFT: y = x·Wᵀ + b + (gain - 1)·(x'·Wᵀ) + gain·s·B·(A·x'), x' with elements dropped
        String one = edit.number(module + ".lora_one", 1);
        String less = behind.op(module + ".lora_gain_less_1", "Sub", List.of(gain, one));
        String dropped = behind.again(module + ".lora_dropped", x);
        String more = behind.op(
                module + ".lora_dora",
                "Add",
                List.of(
                        behind.op(module + ".lora_base_part", "Mul", List.of(dropped, less)),
                        behind.op(module + ".lora_part", "Mul", List.of(up, gain))));
        behind.result(module + ".lora", "Add", List.of(residual, more));
    }

    /** A table of embeddings: E[i] + (A[:, i])ᵀ·Bᵀ·scaling, A [r, rows], B [columns, r]. */
    private void table(Table target) {
        String module = target.name();
        Shape shape = edit.shape(target.weight());
        int rows = Math.toIntExact(shape.dim(0));
        int columns = Math.toIntExact(shape.dim(1));
        int r = rank(module, rows, columns);
        if (config.loraBias()) {
            throw new InvalidOptionException(
                    "lora_bias does not go with the embeddings '" + module + "'",
                    settings.where("lora_bias"),
                    "leave " + Targets.lastName(module) + " out of target_modules, or set lora_bias to false");
        }
        double scaling = config.scaling(module);
        String a = edit.parameter(
                PeftKeys.key(module, PeftRole.LORA_EMBEDDING_A),
                Shape.of(r, rows),
                config.initLoraWeights().equals("false") ? InitialValues.normal(1) : InitialValues.ZEROS);
        String b = edit.parameter(
                PeftKeys.key(module, PeftRole.LORA_EMBEDDING_B), Shape.of(columns, r), InitialValues.normal(1));
        Node node = edit.node(target.node());
        Behind behind = edit.behind(node);
        String s = edit.number(module + ".lora_scaling", scaling);
        String at = behind.op(module + ".lora_AT", "Transpose", List.of(a), Attribute.of("perm", List.of(1L, 0L)));
        String low = behind.gather(module + ".lora_A", at, node);
        String up = behind.linear(module + ".lora_B", behind.op(module + ".lora_scaled", "Mul", List.of(low, s)), b);
        if (!config.useDora()) {
            behind.result(module + ".lora", "Add", List.of(behind.output(), up));
            return;
        }
        // as in PEFT, lengths are those of the columns of the table
        BaseWeight weight = new BaseWeight(edit.constant(target.weight()), true);
        String m = edit.parameter(
                PeftKeys.key(module, PeftRole.LORA_MAGNITUDE), Shape.of(columns), (_, _) -> roots(weight.squares()));
        String norm = new Dora(edit, behind, module, scaling).norm(a, b, target.weight(), false, weight.squares());
        String gain = behind.wideOp(module + ".lora_gain", "Div", List.of(m, norm));
        behind.result(
                module + ".lora",
                "Mul",
                List.of(behind.op(module + ".lora_sum", "Add", List.of(behind.output(), up)), gain));
    }

    private static float[] roots(double[] squares) {
        float[] roots = new float[squares.length];
        for (int i = 0; i < roots.length; i++) {
            roots[i] = (float) Math.sqrt(squares[i]);
        }
        return roots;
    }

    private int rank(String module, int in, int out) {
        int r = config.rank(module);
        if (r > Math.min(in, out)) {
            String key = r == config.r() ? "r" : "rank_pattern";
            throw new InvalidOptionException(
                    "rank " + r + " is larger than the smaller dimension of '" + module + "', [" + out + ", " + in
                            + "]",
                    settings.where(key),
                    "lower " + key + " to " + Math.min(in, out) + " or less; 8 to 64 are usual, or set rank_pattern: {"
                            + Targets.lastName(module) + ": " + Math.min(in, out) + "}");
        }
        return r;
    }

    /** "r 8", "r 4 to 16". */
    String ranks(Targets targets) {
        List<Integer> ranks =
                targets.names().stream().map(config::rank).sorted().distinct().toList();
        return "r " + ranks.getFirst() + (ranks.size() == 1 ? "" : " to " + ranks.getLast());
    }

    /** The method's name, with its variants. */
    String name() {
        return (config.useRslora() ? "rs" : "") + (config.useDora() ? "DoRA" : "LoRA");
    }
}
