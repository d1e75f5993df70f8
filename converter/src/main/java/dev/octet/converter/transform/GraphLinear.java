package dev.octet.converter.transform;

import dev.octet.quant.merge.WeightDelta.Axis;
import org.jspecify.annotations.Nullable;

/**
 * A Linear of a graph.
 *
 * @param node its id
 * @param weight the constant's name
 * @param bias the constant's name; null without
 * @param outIn whether the weight lies as [out, in], otherwise [in, out]
 * @param in channels of its input
 * @param out channels of its output
 */
public record GraphLinear(
        String node, String weight, @Nullable String bias, boolean outIn, int in, int out) {
    private static final String WEIGHT = ".weight";

    /** The axis of the stored weight along which input channels lie. */
    Axis inputs() {
        return outIn ? Axis.COLUMN : Axis.ROW;
    }

    /** The axis of the stored weight along which output channels lie. */
    Axis outputs() {
        return outIn ? Axis.ROW : Axis.COLUMN;
    }

    /** The name of the module: the weight's without {@code .weight}. */
    public String module() {
        return module(weight);
    }

    static String module(String weight) {
        return weight.endsWith(WEIGHT) ? weight.substring(0, weight.length() - WEIGHT.length()) : weight;
    }
}
