package dev.octet.trainer.adapter;

import dev.octet.formats.graph.Node;
import dev.octet.formats.peft.Ia3Config;
import dev.octet.formats.peft.PeftKeys;
import dev.octet.formats.peft.PeftRole;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.adapter.AdapterEdit.Behind;
import dev.octet.trainer.precision.LinearModule;
import java.util.List;

/**
 * IA3: factors l on what a Linear returns, {@code y = (x·Wᵀ + b)·l}, or in feedforward modules on what it reads, {@code y = (x·l)·Wᵀ + b}. See Liu et al.,
 * arXiv:2205.05638, §3.3; shapes as PEFT stores them.
 */
final class Ia3 {
    private final Ia3Config config;
    private final AdapterEdit edit;

    Ia3(Ia3Config config, AdapterEdit edit) {
        this.config = config;
        this.edit = edit;
    }

    void apply(Targets targets) {
        targets.linears().forEach(this::apply);
    }

    private void apply(LinearModule target) {
        String module = target.name();
        BaseWeight weight = new BaseWeight(edit.constant(target.weight()), !target.transB());
        boolean feedforward = config.isFeedforward(module);
        Shape shape = feedforward ? Shape.of(1, weight.in()) : Shape.of(weight.out(), 1);
        String l = edit.parameter(
                PeftKeys.key(module, PeftRole.IA3),
                shape,
                config.initIa3Weights() ? InitialValues.ONES : InitialValues.normal(1));
        Node node = edit.node(target);
        Behind around = edit.behind(node);
        if (feedforward) {
            around.ahead();
        }
        String factors = around.op(module + ".ia3_l", "Reshape", List.of(l, edit.longs(module + ".ia3_shape", -1)));
        if (feedforward) {
            around.input(0, around.op(module + ".ia3_x", "Mul", List.of(node.input(0), factors)));
            around.result();
        } else {
            around.result(module + ".ia3", "Mul", List.of(around.output(), factors));
        }
    }
}
