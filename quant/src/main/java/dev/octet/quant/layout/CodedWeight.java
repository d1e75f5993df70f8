package dev.octet.quant.layout;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.tensor.CodedTensor;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.scale.ScaleNumbers;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * A quantised matrix in the bytes it is stored in. Owns nothing: the bytes are usually those of a mapped file.
 *
 * @param name the weight's own name
 * @param form what the bytes mean
 * @param codes {@link WeightForm#codeBytes} bytes
 * @param scales {@link WeightForm#scaleBytes} bytes
 * @param zeroPoints {@link WeightForm#zeroPointBytes} bytes; null without zero points
 */
public record CodedWeight(
        String name,
        WeightForm form,
        MemorySegment codes,
        MemorySegment scales,
        @Nullable MemorySegment zeroPoints) implements CodedTensor {
    /** Scales that are checked at once. */
    private static final long CHECKED = 1 << 14;

    /** @throws MalformedModelException when there are fewer bytes than the form needs */
    public CodedWeight {
        require(name, "codes", codes, form.codeBytes());
        require(name, "scales", scales, form.scaleBytes());
        if (zeroPoints != null) {
            require(name, "zero points", zeroPoints, form.zeroPointBytes());
        }
    }

    private static void require(String name, String what, MemorySegment bytes, long needed) {
        if (bytes.byteSize() != needed) {
            throw new MalformedModelException(
                    "its " + what + " take " + needed + " bytes, the file has " + bytes.byteSize(),
                    "weight '" + name + "'",
                    "download or export the checkpoint again");
        }
    }

    /** Whether a weight can be used as it is stored: one matrix with scales that a reader can use, of whole bytes in each row. */
    public static boolean takes(StoredWeight weight) {
        return weight.shape().rank() == 2
                && weight.unread() == null
                && (weight.codes() != QuantType.E2M1 || weight.shape().dim(1) % 2 == 0)
                && (weight.codes().hasZeroPoint() == (weight.zeroPoint() != null));
    }

    /**
     * A weight of a checkpoint.
     *
     * @param weight one that {@link #takes} accepts
     * @param bytes the bytes of a tensor of the checkpoint
     * @throws MalformedModelException when it has no scale
     * @throws InvalidDataException when a scale is not positive and finite
     */
    public static CodedWeight of(StoredWeight weight, Function<String, MemorySegment> bytes) {
        ScaleTensor scale = weight.scale();
        if (scale == null) {
            throw new MalformedModelException(
                    "the quantised weight has no scale",
                    "tensor '" + weight.data().name() + "'",
                    "download or export the checkpoint again; codes without a scale mean nothing");
        }
        ScaleTensor global = weight.globalScale();
        WeightForm.Second second = global == null
                ? null
                : new WeightForm.Second(first(global, bytes.apply(global.name())), global.direction());
        TensorSpec zeroPoint = weight.zeroPoint();
        WeightForm form = new WeightForm(
                weight.shape(),
                weight.codes(),
                weight.granularity(),
                weight.inWords(),
                scale.number(),
                scale.direction(),
                second,
                zeroPoint == null ? 0 : weight.rowsOfZeroPoint());
        CodedWeight coded = new CodedWeight(
                weight.name(),
                form,
                bytes.apply(weight.data().name()),
                bytes.apply(scale.name()),
                zeroPoint == null ? null : bytes.apply(zeroPoint.name()));
        coded.check(scale.name());
        return coded;
    }

    private static float first(ScaleTensor global, MemorySegment bytes) {
        try (Arena scratch = Arena.ofConfined()) {
            MemorySegment f32 = scratch.allocate(Float.BYTES, 64);
            ScaleNumbers.read(global.number(), bytes, 1, f32);
            return f32.get(Tensor.F32_LE, 0);
        }
    }

    /**
     * Reads all scales. Zero is a scale that was rounded to it, where scales are E4M3: all values of its block are zero.
     *
     * @param tensor their name, for messages
     * @throws InvalidDataException when one is not positive and finite
     */
    public void check(String tensor) {
        long count = form.blocks().scaleCount();
        for (long from = 0; from < count; from += CHECKED) {
            long some = Math.min(CHECKED, count - from);
            try (Arena scratch = Arena.ofConfined()) {
                MemorySegment f32 = form.scales(scales, from, some, scratch);
                for (long i = 0; i < some; i++) {
                    float s = f32.get(Tensor.F32_LE, i * Float.BYTES);
                    boolean usable = s > 0 && s < Float.POSITIVE_INFINITY;
                    if (!usable && !(s == 0 && form.scale() == DType.F8_E4M3FN)) {
                        throw new InvalidDataException(
                                "scale " + (from + i) + " is " + s + ", not positive and finite",
                                "tensor '" + tensor + "'",
                                "export the checkpoint again; `octet verify` lists every such scale");
                    }
                }
            }
        }
    }

    @Override
    public TensorSpec spec() {
        return new TensorSpec(name, DType.F32, form.shape());
    }

    @Override
    public long byteSize() {
        return codes.byteSize() + scales.byteSize() + (zeroPoints == null ? 0 : zeroPoints.byteSize());
    }

    @Override
    public void read(long fromRow, long toRow, MemorySegment floats) {
        form.decode(codes, scales, zeroPoints, fromRow, toRow, DType.F32, floats);
    }
}
