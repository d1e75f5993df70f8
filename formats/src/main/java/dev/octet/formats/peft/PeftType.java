package dev.octet.formats.peft;

import dev.octet.formats.error.Nearest;
import dev.octet.formats.error.UnsupportedModelException;
import java.util.Arrays;
import java.util.List;

/** Methods of fine-tuning with few parameters. The names are the values of {@code peft_type}. */
public enum PeftType {
    /** Low-rank products next to weights: Hu et al. 2021 (arXiv:2106.09685); rsLoRA and DoRA are keys of its configuration. */
    LORA,
    /** Factors on what Linears read or return: Liu et al. 2022 (arXiv:2205.05638). */
    IA3,
    /** The weights of norms, trained: Zhao et al. 2023 (arXiv:2312.11420). */
    LN_TUNING,
    /** Trained vectors in front of the embedded tokens: Lester et al. 2021 (arXiv:2104.08691). */
    PROMPT_TUNING,
    /** Prompt tuning whose vectors come out of a small network: Liu et al. 2021 (arXiv:2103.10385). */
    P_TUNING,
    /** Trained keys and values in front of those of each attention: Li and Liang 2021 (arXiv:2101.00190). */
    PREFIX_TUNING,
    /** Small networks behind the parts of a layer: Houlsby et al. 2019 (arXiv:1902.00751). Octet's own value; PEFT doesn't have it. */
    BOTTLENECK;

    /**
     * The method that {@code peft_type} names.
     *
     * @param where for the message
     * @throws UnsupportedModelException for any other name
     */
    public static PeftType of(String name, String where) {
        List<String> known = Arrays.stream(values()).map(PeftType::name).toList();
        int i = known.indexOf(name);
        if (i < 0) {
            throw new UnsupportedModelException(
                    "peft_type is '" + name + "', a method that Octet does not have",
                    where,
                    Nearest.advice(name, known));
        }
        return values()[i];
    }

    /** Whether PEFT reads adapters of this method. */
    public boolean isOfPeft() {
        return this != BOTTLENECK;
    }

    /** Whether the adapter is one tensor of virtual tokens, which belongs to no module. */
    public boolean isPrompt() {
        return switch (this) {
            case PROMPT_TUNING, P_TUNING, PREFIX_TUNING -> true;
            case LORA, IA3, LN_TUNING, BOTTLENECK -> false;
        };
    }
}
