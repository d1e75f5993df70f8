package dev.octet.converter.compare;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.QuantType;

/** Describes how weights are stored, and gives their shapes as matrices. */
final class StoredForm {
    private StoredForm() {}

    /** For example {@code E4M3FN per 128 x 128, scale F32}. */
    static String text(QuantType codes, Granularity granularity, DType scaleNumber, boolean twoLevels) {
        return codes + " " + granularity.text() + ", scale " + scaleNumber + (twoLevels ? " x F32" : "");
    }
}
