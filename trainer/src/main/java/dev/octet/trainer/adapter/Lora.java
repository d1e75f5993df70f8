package dev.octet.trainer.adapter;

import dev.octet.formats.graph.Node;
import dev.octet.formats.peft.LoraConfig;
import dev.octet.formats.peft.PeftKeys;
import dev.octet.formats.peft.PeftRole;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.adapter.AdapterEdit.Behind;
import dev.octet.trainer.precision.LinearModule;
import java.util.List;

/**
 * LoRA: {@code y = x·Wᵀ + b + B·(A·x)·scaling} for each Linear that is a target, A [r, in], B [out, r]. See Hu et al., arXiv:2106.09685; names, defaults and
 * initial values are those of PEFT's {@code tuners/lora}.
 */
final class Lora {
    private final LoraConfig config;

    Lora(LoraConfig config) {
        this.config = config;
    }

    void apply(AdapterEdit edit, List<LinearModule> targets) {
        targets.forEach(t -> apply(edit, t));
    }

    private void apply(AdapterEdit edit, LinearModule target) {
        String module = target.name();
        Shape weight = edit.shape(target.weight());
        long in = weight.dim(target.transB() ? 1 : 0);
        long out = weight.dim(target.transB() ? 0 : 1);
        int r = config.rank(module);
        String a = edit.parameter(PeftKeys.key(module, PeftRole.LORA_A), Shape.of(r, in), InitialValues.kaimingUniform());
        String b = edit.parameter(PeftKeys.key(module, PeftRole.LORA_B), Shape.of(out, r), InitialValues.ZEROS);
        Node linear = edit.node(target);
        Behind behind = edit.behind(linear);
        String low = behind.linear(module + ".lora_A", linear.input(0), a);
        // scaled where it is narrow: r columns rather than the layer's
        String scaling = edit.number(module + ".lora_scaling", config.scaling(module));
        String scaled = behind.op(module + ".lora_scaled", "Mul", List.of(low, scaling));
        String up = behind.linear(module + ".lora_B", scaled, b);
        behind.result(module + ".lora", "Add", List.of(behind.output(), up));
    }
}
