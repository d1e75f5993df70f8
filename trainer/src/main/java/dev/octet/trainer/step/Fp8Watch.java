package dev.octet.trainer.step;

import static java.util.Objects.requireNonNull;

import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.Product;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.StepObserver;
import dev.octet.trainer.hook.Fp8Tensor;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.op.fp8.CastCounts;
import dev.octet.trainer.op.fp8.CodedMatrix;
import dev.octet.trainer.op.fp8.Fp8Linear;
import dev.octet.trainer.op.fp8.ProductForm;
import dev.octet.trainer.op.fp8.QuantizeFp8;
import dev.octet.trainer.op.fp8.QuantizeFp8Delayed;
import dev.octet.trainer.precision.Fp8Layer;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Counts what FP8 casts lose while the programs of a step run. Only reads: operands of a step keep their memory until the next step begins,
 * and scales are updated in separate steps.
 */
final class Fp8Watch {
    private static final List<LinearTensor> KINDS =
            List.of(LinearTensor.WEIGHT, LinearTensor.INPUT, LinearTensor.GRAD_OUTPUT);

    private record Seen(Fp8Layer layer, LinearTensor tensor, CastCounts counts, int historyLength) {}

    private final Map<String, Seen> seen = new LinkedHashMap<>();

    /** Weights already cast by an earlier program or for an earlier micro-batch of the step. */
    private final Set<String> prepared = new HashSet<>();

    /** Numbers of the layers, by their weights' slots. */
    private final Map<String, Integer> order = new HashMap<>();

    /** Modules of the layers, in their order. */
    private final Set<String> modules = new LinkedHashSet<>();

    private boolean castsInForward;

    /**
     * An observer of a program with these FP8 layers.
     *
     * @param experts ids of the Linears of experts, by the node that computes them as one
     */
    StepObserver of(List<Fp8Layer> layers, Map<String, List<String>> experts) {
        Map<String, Fp8Layer> byNode = new HashMap<>();
        Map<String, Fp8Layer> byWeight = new HashMap<>();
        layers.forEach(l -> {
            byNode.put(l.node(), l);
            byWeight.put(l.weight(), l);
            modules.add(l.module());
        });
        for (int i = 0; i < layers.size(); i++) {
            order.putIfAbsent(layers.get(i).slot(LinearTensor.WEIGHT), i);
        }
        CastsOfWeights weights = new CastsOfWeights();
        return (step, nanos, running) -> {
            boolean isCast = weights.include(step);
            try (Arena arena = Arena.ofConfined()) {
                if (experts.containsKey(step.node())) {
                    lookAtExperts(byNode, byWeight, experts, step, isCast, running, arena);
                    return;
                }
                Fp8Layer layer = byNode.get(step.node());
                if (layer != null) {
                    look(layer, step, isCast, running, arena);
                }
            }
        };
    }

    /**
     * All tensors counted so far: weights in the order of their layers, then what forward and backward cast. Scale ages are 0;
     * {@link dev.octet.trainer.hook.Fp8Health} fills them in.
     */
    List<Fp8Tensor> tensors() {
        List<Map.Entry<String, Seen>> all = new ArrayList<>(seen.entrySet());
        if (castsInForward) {
            all.sort(Comparator.comparingInt(e -> order.getOrDefault(e.getKey(), Integer.MAX_VALUE)));
        }
        return all.stream().map(e -> tensor(e.getKey(), e.getValue())).toList();
    }

    /** Those of all stages of a pipeline, on each of them: weights and inputs in the order of the model's layers, gradients the other way round. */
    List<Fp8Tensor> tensors(Collectives pipeline) {
        if (pipeline.isAlone()) {
            return tensors();
        }
        List<Fp8Tensor> all = new ArrayList<>(RankReports.tensors(pipeline, tensors()));
        Map<String, Integer> layers = new HashMap<>();
        modules.forEach(module -> layers.putIfAbsent(module, layers.size()));
        all.sort(Comparator.comparing(Fp8Tensor::tensor, Comparator.comparingInt(KINDS::indexOf))
                .thenComparingInt(t -> (t.tensor() == LinearTensor.GRAD_OUTPUT ? -1 : 1)
                        * layers.getOrDefault(t.layer(), layers.size())));
        return all;
    }

    private static Fp8Tensor tensor(String slot, Seen s) {
        CastCounts c = s.counts();
        return new Fp8Tensor(
                slot,
                s.layer().module(),
                s.tensor(),
                c.format(),
                c.elements(),
                c.clipped(),
                c.underflowed(),
                c.amax(),
                c.scale(),
                s.historyLength(),
                0);
    }

    /** Experts that are computed as one: a cast of a weight is one of its expert's; rows are cast where they are multiplied. */
    private void lookAtExperts(
            Map<String, Fp8Layer> byNode,
            Map<String, Fp8Layer> byWeight,
            Map<String, List<String>> experts,
            Step step,
            boolean isCast,
            Executable running,
            Arena arena) {
        if (isCast) {
            Value source = step.inputs().isEmpty() ? null : step.inputs().getFirst();
            Fp8Layer layer = source == null ? null : byWeight.get(source.name());
            if (layer != null) {
                look(layer, step, true, running, arena);
            }
            return;
        }
        for (LinearStep linear : LinearStep.of(step, experts, running, arena)) {
            Fp8Layer layer = byNode.get(linear.node());
            if (layer != null && linear.fp8() != null) {
                if (step.backward()) {
                    gradient(layer, linear);
                } else {
                    rows(layer, linear);
                }
            }
        }
    }

    /** Counts an expert's rows: each form in which its products take them, once for all Linears that read them. */
    private void rows(Fp8Layer layer, LinearStep linear) {
        Fp8Linear op = requireNonNull(linear.fp8());
        if (!layer.node().equals(layer.inputOwner())) {
            return;
        }
        Set<CodedMatrix> forms = new LinkedHashSet<>();
        for (CodedMatrix form : new CodedMatrix[] {op.fprop().left(), op.wgrad().right()}) {
            if (form != null) {
                forms.add(form);
            }
        }
        for (CodedMatrix form : forms) {
            if (form.isDelayed()) {
                CastCounts counts = CastCounts.delayed(linear.x(), form.format(), linear.rowsQuantScale());
                add(layer, LinearTensor.INPUT, counts, linear.rowsHistory());
            } else {
                add(layer, LinearTensor.INPUT, CastCounts.current(linear.x(), form), 0);
            }
        }
    }

    private void look(Fp8Layer layer, Step step, boolean isCast, Executable running, Arena arena) {
        switch (step.op()) {
            case QuantizeFp8 op
            when !isCast || isNew(step) -> {
                CpuTensor x = Readings.of(operand(step.inputs(), 0), running, arena);
                add(layer, tensorOf(layer, step, isCast), CastCounts.current(x, op.form()), 0);
            }
            case QuantizeFp8Delayed op
            when !isCast || isNew(step) -> {
                CpuTensor x = Readings.of(operand(step.inputs(), 0), running, arena);
                float quantScale = Readings.number(operand(step.inputs(), 1), running, arena);
                CastCounts counts = CastCounts.delayed(x, op.format(), quantScale);
                add(layer, tensorOf(layer, step, isCast), counts, op.historyLength());
            }
            case Fp8Linear _
            when step.backward() ->
                LinearStep.of(step, Map.of(), running, arena).forEach(linear -> gradient(layer, linear));
            default -> {}
        }
    }

    private static Value operand(List<@Nullable Value> values, int i) {
        return requireNonNull(values.get(i));
    }

    private boolean isNew(Step step) {
        castsInForward |= step.phase() == Phase.FORWARD;
        return prepared.add(operand(step.outputs(), 0).name());
    }

    private static LinearTensor tensorOf(Fp8Layer layer, Step step, boolean isCast) {
        boolean isWeight = isCast || operand(step.inputs(), 0).name().equals(layer.weight());
        return isWeight ? LinearTensor.WEIGHT : LinearTensor.INPUT;
    }

    /** Counts the upstream gradient: backward casts it once for all products that take it in the same form. */
    private void gradient(Fp8Layer layer, LinearStep linear) {
        Fp8Linear op = requireNonNull(linear.fp8());
        Set<CodedMatrix> forms = new LinkedHashSet<>();
        addForm(forms, op.dgrad(), linear.computes(Product.DGRAD));
        addForm(forms, op.wgrad(), linear.computes(Product.WGRAD));
        if (forms.isEmpty()) {
            return;
        }
        CpuTensor dy = requireNonNull(linear.dy());
        for (CodedMatrix form : forms) {
            if (!form.isDelayed()) {
                add(layer, LinearTensor.GRAD_OUTPUT, CastCounts.current(dy, form), 0);
            } else {
                float quantScale = linear.number(requireNonNull(linear.input(Fp8Linear.DY_QUANT_SCALE)));
                Value history = requireNonNull(linear.input(Fp8Linear.DY_HISTORY));
                CastCounts counts = CastCounts.delayed(dy, form.format(), quantScale);
                add(layer, LinearTensor.GRAD_OUTPUT, counts, (int)
                        history.type().count());
            }
        }
    }

    private static void addForm(Set<CodedMatrix> forms, ProductForm product, boolean computed) {
        if (computed && product.left() != null) {
            forms.add(product.left());
        }
    }

    private void add(Fp8Layer layer, LinearTensor tensor, CastCounts counts, int historyLength) {
        seen.merge(
                layer.slot(tensor),
                new Seen(layer, tensor, counts, historyLength),
                (a, b) -> new Seen(a.layer(), a.tensor(), a.counts().and(b.counts()), b.historyLength()));
    }
}
