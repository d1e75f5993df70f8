package dev.octet.trainer.adapter;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.peft.LoraConfig;
import dev.octet.formats.peft.PeftKeys;
import dev.octet.formats.peft.PeftRole;
import dev.octet.trainer.precision.LinearModule;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/** Trains biases of the base: {@code bias: all} and {@code lora_only} of LoRA, and BitFit (Ben Zaken et al., arXiv:2106.10199). */
final class Biases {
    private static final String BIAS = ".bias";

    private final AdapterEdit edit;

    Biases(AdapterEdit edit) {
        this.edit = edit;
    }

    /**
     * Trains the biases.
     *
     * @param targets modules that LoRA wraps
     * @return what is trained in words; empty for nothing
     * @throws InvalidOptionException when there is no bias to train
     */
    String apply(Targets targets, LoraConfig.Bias which, AdapterSettings settings) {
        if (which == LoraConfig.Bias.NONE) {
            return "";
        }
        Set<String> wrapped = targets.linears().stream().map(LinearModule::name).collect(Collectors.toSet());
        Map<String, String> keys = new LinkedHashMap<>();
        for (LinearModule linear : edit.modules().linears()) {
            String bias = edit.baseNode(linear.node()).input(2);
            boolean isWrapped = wrapped.contains(linear.name());
            if (edit.isConstant(bias) && (isWrapped || which == LoraConfig.Bias.ALL)) {
                keys.put(
                        bias,
                        isWrapped
                                ? PeftKeys.key(linear.name(), PeftRole.BASE_BIAS)
                                : PeftKeys.key(linear.name() + BIAS, PeftRole.SAVED));
            }
        }
        if (which == LoraConfig.Bias.ALL) {
            for (String name : edit.parameterNames()) {
                if (name.endsWith(BIAS)) {
                    keys.putIfAbsent(name, PeftKeys.key(name, PeftRole.SAVED));
                }
            }
        }
        if (keys.isEmpty()) {
            throw new InvalidOptionException(
                    which == LoraConfig.Bias.ALL ? "the model has no biases" : "the targets have no biases",
                    settings.where("bias"),
                    wrapped.isEmpty() ? "use peft_type: LORA" : "set bias: none");
        }
        keys.forEach((bias, key) -> edit.trainCopy(bias, key, edit.readers(bias)));
        return (wrapped.isEmpty() ? "BitFit of " : "") + keys.size() + (keys.size() == 1 ? " bias" : " biases");
    }
}
