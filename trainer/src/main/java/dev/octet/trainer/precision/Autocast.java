package dev.octet.trainer.precision;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;

/**
 * Mixed precision without FP8: products in a narrow type, the rest as a list says.
 *
 * @param name as in the configuration
 * @param low BF16 or F16, or F32 where nothing is narrowed
 * @param list which operators are narrowed
 */
public record Autocast(String name, DType low, AutocastList list) implements PrecisionPolicy {
    public Autocast {
        if (low != DType.BF16 && low != DType.F16 && low != DType.F32) {
            throw new IllegalArgumentException(low + " is not F32, BF16 or F16");
        }
    }

    /** Everything in F32. */
    public static Autocast fp32() {
        return new Autocast("fp32", DType.F32, AutocastList.ALL);
    }

    /** BF16 products, list of processors. */
    public static Autocast bf16() {
        return new Autocast("bf16", DType.BF16, AutocastList.CPU);
    }

    /** F16 products, list of processors; wants loss scaling. */
    public static Autocast fp16() {
        return new Autocast("fp16", DType.F16, AutocastList.CPU);
    }

    @Override
    public Rule rule(Node node) {
        return low == DType.F32 || node.intAttribute(Node.IN_F32, 0) != 0 ? Rule.F32 : list.rule(node);
    }
}
