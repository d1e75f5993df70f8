package dev.octet.trainer.step;

import static java.util.Objects.requireNonNull;

import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.Product;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.op.experts.ExpertGroup;
import dev.octet.trainer.op.experts.GroupedLinear;
import dev.octet.trainer.op.fp8.Fp8GroupedLinear;
import dev.octet.trainer.op.fp8.Fp8Linear;
import dev.octet.trainer.op.product.Linear;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * A Linear in a step of a program, for who watches the step: what it reads and makes, copied from the device. A step that computes the Linears of experts as one is a
 * Linear for each expert that has rows, with these rows alone.
 */
final class LinearStep {
    /** Index of x among the inputs of all these operators. */
    private static final int X = 0;

    /** Index of the offsets of experts' rows. */
    private static final int OFFSETS = 1;

    /** Shape of a Linear, and how its weight lies. */
    record Form(boolean transB, int rows, int in, int out) {}

    /** Values that were copied, for all experts of a step. */
    private record Copies(Step step, Executable running, Arena arena, Map<Value, CpuTensor> known) {
        CpuTensor of(Value value) {
            return known.computeIfAbsent(value, v -> Readings.of(v, running, arena));
        }
    }

    private final Copies copies;
    private final String node;
    private final int expert;
    private final @Nullable ExpertGroup group;
    private final Form form;
    private final @Nullable Fp8Linear fp8;
    private final int weight;

    private LinearStep(
            Copies copies,
            String node,
            int expert,
            @Nullable ExpertGroup group,
            Form form,
            @Nullable Fp8Linear fp8,
            int weight) {
        this.copies = copies;
        this.node = node;
        this.expert = expert;
        this.group = group;
        this.form = form;
        this.fp8 = fp8;
        this.weight = weight;
    }

    /**
     * The Linears that a step computes; none where it computes something else.
     *
     * @param experts ids of the Linears of experts, by the node that computes them as one
     * @param arena owns the copies
     */
    static List<LinearStep> of(Step step, Map<String, List<String>> experts, Executable running, Arena arena) {
        Copies copies = new Copies(step, running, arena, new HashMap<>());
        return switch (step.op()) {
            case Fp8Linear l -> List.of(new LinearStep(copies, step.node(), 0, null, form(l), l, Fp8Linear.W));
            case Linear l ->
                List.of(new LinearStep(
                        copies, step.node(), 0, null, new Form(l.transB(), l.rows(), l.in(), l.out()), null, 1));
            case Fp8GroupedLinear _, GroupedLinear _ -> ofExperts(copies, experts.getOrDefault(step.node(), List.of()));
            default -> List.of();
        };
    }

    /** Whether a step computes a Linear, or those of experts. */
    static boolean isOne(Step step) {
        return step.op() instanceof Fp8Linear
                || step.op() instanceof Linear
                || step.op() instanceof Fp8GroupedLinear
                || step.op() instanceof GroupedLinear;
    }

    /** The products that a step computes of a Linear, or of some expert: those of gradients that something wants. */
    static Set<Product> products(Step step) {
        Set<Product> products = EnumSet.noneOf(Product.class);
        if (!step.backward()) {
            products.add(Product.FPROP);
            return products;
        }
        for (int i = 0; i < step.gradients().size(); i++) {
            if (step.gradients().get(i) != null && i == X) {
                products.add(Product.DGRAD);
            } else if (step.gradients().get(i) != null && isWeight(step, i)) {
                products.add(Product.WGRAD);
            }
        }
        return products;
    }

    private static boolean isWeight(Step step, int i) {
        return switch (step.op()) {
            case Fp8GroupedLinear l -> {
                boolean is = false;
                for (int e = 0; e < l.experts(); e++) {
                    is |= i == Fp8GroupedLinear.at(e, Fp8GroupedLinear.W);
                }
                yield is;
            }
            case GroupedLinear l -> i >= GroupedLinear.WEIGHTS && i < GroupedLinear.WEIGHTS + l.experts();
            default -> i == Fp8Linear.W;
        };
    }

    private static Form form(Fp8Linear l) {
        return new Form(l.transB(), l.rows(), l.in(), l.out());
    }

    private static List<LinearStep> ofExperts(Copies copies, List<String> nodes) {
        List<LinearStep> all = new ArrayList<>();
        CpuTensor offsets = nodes.isEmpty()
                ? null
                : copies.of(requireNonNull(copies.step.inputs().get(OFFSETS)));
        for (int e = 0; e < nodes.size(); e++) {
            ExpertGroup group = ExpertGroup.of(requireNonNull(offsets), e);
            if (group.count() == 0) {
                continue;
            }
            if (copies.step.op() instanceof Fp8GroupedLinear l) {
                Fp8Linear own = l.expert(group.count());
                int weight = Fp8GroupedLinear.at(e, Fp8GroupedLinear.W);
                all.add(new LinearStep(copies, nodes.get(e), e, group, form(own), own, weight));
            } else if (copies.step.op() instanceof GroupedLinear l) {
                Form form = new Form(l.transB(), group.count(), l.in(), l.out());
                all.add(new LinearStep(copies, nodes.get(e), e, group, form, null, GroupedLinear.WEIGHTS + e));
            }
        }
        return all;
    }

    /** Id of its node. */
    String node() {
        return node;
    }

    Form form() {
        return form;
    }

    /** How it computes in FP8; null where it does not. */
    @Nullable
    Fp8Linear fp8() {
        return fp8;
    }

    CpuTensor x() {
        return rows(copies.of(requireNonNull(copies.step.inputs().get(X))), form.in());
    }

    CpuTensor w() {
        return copies.of(requireNonNull(copies.step.inputs().get(weight)));
    }

    CpuTensor y() {
        return rows(copies.of(requireNonNull(copies.step.outputs().getFirst())), form.out());
    }

    /** The gradient of y; null where none comes. */
    @Nullable
    CpuTensor dy() {
        Value upstream = copies.step.upstream().getFirst();
        return upstream == null ? null : rows(copies.of(upstream), form.out());
    }

    /** Index in the step of what a product makes the gradient of: x or the weight. */
    int differentiated(Product product) {
        return product == Product.DGRAD ? X : weight;
    }

    /** What a gradient of these rows is in one of all rows; that of a weight is its own. */
    CpuTensor own(Product product, CpuTensor gradient) {
        return product == Product.DGRAD ? rows(gradient, form.in()) : gradient;
    }

    private CpuTensor rows(CpuTensor matrix, int columns) {
        return group == null ? matrix : group.rowsOf(matrix, columns);
    }

    /** Whether the step computes a product: those of gradients that something wants. */
    boolean computes(Product product) {
        Step step = copies.step;
        return switch (product) {
            case FPROP -> !step.backward();
            case DGRAD, WGRAD -> step.backward() && step.gradients().get(differentiated(product)) != null;
        };
    }

    /** An input of a {@link Fp8Linear} by its index there; null where there is none, as codes of experts' rows. */
    @Nullable
    Value input(int i) {
        int at = group == null ? i : Fp8GroupedLinear.of(i, expert);
        return fp8 == null || at < 0 ? null : copies.step.inputs().get(at);
    }

    /** The multiplier that experts' rows are cast with by a delayed scale; NaN where there is none. */
    float rowsQuantScale() {
        return copies.step.op() instanceof Fp8GroupedLinear l && l.hasDelayedInput()
                ? number(requireNonNull(
                        copies.step.inputs().get(Fp8GroupedLinear.at(expert, Fp8GroupedLinear.X_QUANT_SCALE))))
                : Float.NaN;
    }

    /** Whether these are rows of an expert among those of others. */
    boolean isOfExpert() {
        return group != null;
    }

    /** Steps that the history of experts' rows has. */
    int rowsHistory() {
        Value history = copies.step.op() instanceof Fp8GroupedLinear
                ? copies.step.inputs().get(Fp8GroupedLinear.at(expert, Fp8GroupedLinear.X_HISTORY))
                : null;
        return history == null ? 0 : Math.toIntExact(history.type().count());
    }

    float number(Value value) {
        float[] one = new float[1];
        copies.of(value).read(0, one, 0, 1);
        return one[0];
    }

    /** The multiplier that the step casts an operand of a product with; null when it casts the operand for another product only. */
    @Nullable
    Float quantScale(Product product, LinearTensor tensor) {
        if (fp8 == null) {
            return null;
        }
        if (group != null && tensor == LinearTensor.INPUT) {
            float rows = rowsQuantScale();
            return Float.isNaN(rows) ? null : rows;
        }
        int scale = switch (tensor) {
            case INPUT ->
                product == Product.WGRAD && fp8.wgradHasOwnInput() ? Fp8Linear.X_SCALE_WGRAD : Fp8Linear.X_SCALE;
            case WEIGHT ->
                product == Product.DGRAD && fp8.dgradHasOwnWeight() ? Fp8Linear.W_SCALE_DGRAD : Fp8Linear.W_SCALE;
            case GRAD_OUTPUT -> Fp8Linear.DY_QUANT_SCALE;
        };
        Value value = input(scale);
        if (value == null || value.type().shape().elementCount() != 1) {
            return null;
        }
        float number = number(value);
        return tensor == LinearTensor.GRAD_OUTPUT ? number : QuantScaleRule.scale(number);
    }
}
