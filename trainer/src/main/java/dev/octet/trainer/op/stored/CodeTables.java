package dev.octet.trainer.op.stored;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.layout.WeightForm;
import dev.octet.quant.number.Float8Format;
import java.util.Optional;

/** What bytes stand for, as tables. */
final class CodeTables {
    private CodeTables() {}

    /** The number of each code as it lies in memory, before zero point and scale: 256 entries, or 16 for codes of half a byte. */
    static float[] codes(WeightForm form) {
        Optional<Float8Format> floats = form.codes().minifloat();
        if (floats.isPresent()) {
            return floats.get().decodeTable();
        }
        int bits = form.inWords() ? form.codes().bits() : 8; // four-bit integers outside of words take a byte
        float[] table = new float[1 << bits];
        for (int i = 0; i < table.length; i++) {
            table[i] = form.inWords() ? i - (1 << (bits - 1)) : (byte) i;
        }
        return table;
    }

    /** The number of each stored scale of one byte; empty for scales of wider types. */
    static float[] scales(DType number) {
        return switch (number) {
            case F8_E8M0, U8 -> Float8Format.E8M0.decodeTable();
            case F8_E4M3FN -> Float8Format.E4M3FN.decodeTable();
            default -> new float[0];
        };
    }
}
