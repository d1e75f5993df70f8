package dev.octet.trainer.op.fp8;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.scale.TorchaoScale;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.OperandType;
import java.lang.foreign.Arena;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CastCountsTest {
    private static final int ALL = 1 << 16;

    private static CpuTensor tensor(DType dtype, float... x) {
        OperandType type = new OperandType(dtype, Shape.of(x.length));
        CpuTensor t = new CpuTensor(type, Arena.ofAuto().allocate(type.byteSize(), 64));
        t.write(0, x, 0, x.length);
        return t;
    }

    /** Every number of a type, one tensor each, next to what the cast itself does. */
    @ParameterizedTest
    @EnumSource(
            value = Float8Format.class,
            names = {"E4M3FN", "E5M2"})
    void every_bf16_and_f16_is_counted_as_its_cast_goes(Float8Format format) {
        CpuTensor bf16 = tensor(DType.BF16, 0);
        CpuTensor f16 = tensor(DType.F16, 0);
        for (float quantScale : new float[] {1, 3.7f, 0x1p-20f}) {
            for (int bits = 0; bits < ALL; bits++) {
                check(bf16, BFloat16.toFloat((short) bits), format, quantScale);
                check(f16, Float.float16ToFloat((short) bits), format, quantScale);
            }
        }
    }

    private static void check(CpuTensor one, float x, Float8Format format, float quantScale) {
        if (Float.isNaN(x) && Float.floatToRawIntBits(x) != Float.floatToRawIntBits(Float.NaN)) {
            return; // one NaN is enough
        }
        float scaled = x * quantScale;
        int code = format.encode(scaled, Overflow.SATURATE);
        boolean zero = (code & ~format.signBit()) == 0;
        boolean clipped = !Float.isNaN(x) && code != format.encode(scaled, Overflow.NON_SATURATING);
        CastCounts counts = counts(one, x, format, quantScale);
        assertEquals(
                new CastCounts(
                        format,
                        1,
                        clipped ? 1 : 0,
                        zero && x != 0 && !Float.isNaN(x) ? 1 : 0,
                        Float.isNaN(x) ? 0 : Math.abs(x),
                        1 / quantScale),
                counts,
                () -> format + " " + one.dtype() + " " + x + " * " + quantScale);
    }

    private static CastCounts counts(CpuTensor one, float x, Float8Format format, float quantScale) {
        one.write(0, new float[] {x}, 0, 1);
        return CastCounts.delayed(one, format, quantScale);
    }

    @Test
    void what_rounds_to_the_largest_number_is_not_clipped() {
        CpuTensor x = tensor(DType.F32, 464, -464, Math.nextUp(464f), -1000, Float.POSITIVE_INFINITY, 448, 0);
        CastCounts counts = CastCounts.delayed(x, Float8Format.E4M3FN, 1);
        assertEquals(3, counts.clipped());
        assertEquals(0, counts.underflowed());
    }

    @Test
    void rows_count_with_their_own_scales() {
        OperandType type = new OperandType(DType.F32, Shape.of(2, 3));
        CpuTensor x = new CpuTensor(type, Arena.ofAuto().allocate(type.byteSize(), 64));
        x.write(0, new float[] {1, 0.5f, 0x1p-30f, 0x1p-40f, 0x1p-41f, 0}, 0, 6);
        Blocks rows = CodedMatrix.blocks(new Granularity.PerToken(), 2, 3);
        TorchaoScale rule = new TorchaoScale(false);
        CastCounts own = CastCounts.current(x, new CodedMatrix(Float8Format.E4M3FN, rows, rule));
        assertEquals(1, own.underflowed(), "of the first row");
        CodedMatrix whole = new CodedMatrix(Float8Format.E4M3FN, CodedMatrix.whole(2, 3), rule);
        assertEquals(3, CastCounts.current(x, whole).underflowed());
        assertEquals(0, own.clipped());
        assertEquals(1f / 448, own.scale(), 1e-9, "the largest of both rows");
    }

    @Test
    void counts_of_two_casts_are_added() {
        CastCounts a = CastCounts.delayed(tensor(DType.F32, 1000, 1), Float8Format.E4M3FN, 1);
        CastCounts b = CastCounts.delayed(tensor(DType.F32, 1e-9f, 2, 3), Float8Format.E4M3FN, 2);
        assertEquals(new CastCounts(Float8Format.E4M3FN, 5, 1, 1, 1000, 0.5f), a.and(b));
    }
}
