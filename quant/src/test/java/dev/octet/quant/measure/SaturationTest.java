package dev.octet.quant.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import java.lang.foreign.MemorySegment;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class SaturationTest {
    @ParameterizedTest
    @EnumSource(
            value = Float8Format.class,
            names = {"E8M0"},
            mode = EnumSource.Mode.EXCLUDE)
    void every_f16_is_counted_as_its_code_says(Float8Format format) {
        short[] all = new short[1 << 16];
        for (int bits = 0; bits < all.length; bits++) {
            all[bits] = (short) bits;
        }
        for (float scale : new float[] {1, 0.37f}) {
            long clipped = 0;
            long flushed = 0;
            long subnormal = 0;
            for (short bits : all) {
                float x = Float.float16ToFloat(bits);
                float scaled = Math.abs(x / scale);
                float code = Math.abs(format.decode(format.encode(scaled, Overflow.SATURATE)));
                // The largest number, yet at least half a step away from it: only clipping does that.
                float step = format.maxValue() - format.decode(format.maxCode() - 1);
                boolean clips = scaled > format.maxValue() + step / 2
                        || (scaled == format.maxValue() + step / 2 && format.maxCode() % 2 == 1);
                if (clips) {
                    clipped++;
                } else if (code == 0 && x != 0 && !Float.isNaN(x)) {
                    flushed++;
                } else if (code > 0 && code < format.minNormal() && !Float.isNaN(x)) {
                    subnormal++;
                }
            }
            assertEquals(
                    new Saturation(1 << 16, clipped, flushed, subnormal),
                    Saturation.of(DType.F16, MemorySegment.ofArray(all), scale, format));
        }
    }

    @Test
    void shares_are_parts_of_one() {
        float[] values = {1000, 448, 464, Math.nextUp(464f), 0, 1e-9f, 0x1p-8f, Float.NEGATIVE_INFINITY};
        Saturation s = Saturation.of(DType.F32, MemorySegment.ofArray(values), 1, Float8Format.E4M3FN);
        assertEquals(3 / 8.0, s.clippedShare());
        assertEquals(1 / 8.0, s.flushedShare());
        assertEquals(1 / 8.0, s.subnormalShare());
        assertEquals(new Saturation(16, 6, 2, 2), s.plus(s));
        assertEquals(0, Saturation.NONE.clippedShare());
    }
}
