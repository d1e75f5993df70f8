package dev.octet.converter.compare;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.QuantType;

/** Describes how weights are stored, and gives their shapes as matrices. */
final class StoredForm {
    private StoredForm() {}

    /** For example {@code E4M3FN per 128 x 128, scale F32}. */
    static String text(QuantType codes, Granularity granularity, DType scaleNumber, boolean twoLevels) {
        return codes + " " + text(granularity) + ", scale " + scaleNumber + (twoLevels ? " x F32" : "");
    }

    private static String text(Granularity granularity) {
        return switch (granularity) {
            case Granularity.PerTensor() -> "per tensor";
            case Granularity.PerChannel(int axis) -> axis == -2 ? "per channel" : "per index of axis " + axis;
            case Granularity.PerToken() -> "per row";
            case Granularity.PerGroup(int axis, int size) -> "per " + size + (axis == -1 ? "" : " along axis " + axis);
            case Granularity.PerBlock(int rows, int cols) -> "per " + rows + " x " + cols;
            case Granularity.Mx(int axis, int size) -> "per " + size + (axis == -1 ? "" : " along axis " + axis);
        };
    }
}
