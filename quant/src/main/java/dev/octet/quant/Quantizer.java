package dev.octet.quant;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.cast.Nibbles;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.Granularity;
import dev.octet.quant.scale.QuantizedTensor;
import dev.octet.quant.scale.ScaleGrid;
import dev.octet.quant.scale.ScaleRule.MseRule;
import dev.octet.quant.scale.StoredScale;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Turns float tensors into codes with scales and back.
 *
 * <p>Same tensor, same {@link OperandSpec}: same bytes, whatever twin of {@link ElementCast} runs and on however many threads. Channels may lie
 * on any axis; nothing is transposed or copied on the way. Instances have no state and may be shared by threads.
 *
 * <p>Tensors must be F32, BF16 or F16, else {@link IllegalArgumentException}. Where a segment is confined to one thread, the calling
 * thread does all the work.
 */
public final class Quantizer {
    /** Never started; stands for the workers when asking whether they may touch a segment. */
    private static final Thread SOME_OTHER_THREAD = new Thread(() -> {}, "octet-quantizer");

    private final ElementCast cast;
    private final int threads;

    private Quantizer(ElementCast cast, int threads) {
        this.cast = cast;
        this.threads = threads;
    }

    /** A quantiser that works in the calling thread. */
    public static Quantizer sequential() {
        return new Quantizer(ElementCast.best(), 1);
    }

    /**
     * A quantiser that works in up to {@code threads} threads of its own per call; small tensors use fewer.
     *
     * @throws IllegalArgumentException when {@code threads} is below 1
     */
    public static Quantizer parallel(int threads) {
        if (threads < 1) {
            throw new IllegalArgumentException(threads + " threads");
        }
        return new Quantizer(ElementCast.best(), threads);
    }

    /** The same quantiser with a chosen twin of the casts, for tests and measurements. */
    public Quantizer with(ElementCast otherCast) {
        return new Quantizer(otherCast, threads);
    }

    /**
     * Finds the scales of {@code source} and encodes it with them, each rounded to its stored type first.
     *
     * @param source F32, BF16 or F16, any shape
     * @param arena owns the codes and scales of the result
     * @return the tensor, named as the source and its scales {@code <name>_scale}; or a refusal when a value is NaN or infinite
     * @throws IllegalArgumentException when the source is of another type or lacks an axis that the granularity names
     */
    public Quantization quantize(Tensor source, OperandSpec spec, Arena arena) {
        ScaleGrid grid = ScaleGrid.of(source.shape(), spec.granularity());
        try (Arena scratch = Arena.ofShared()) {
            MemorySegment amax = scratch.allocate(grid.scaleCount() * Float.BYTES, 64);
            accumulateAmax(source, grid, amax);
            if (!Float.isFinite(cast.amax(DType.F32, amax))) {
                return refuse(source);
            }
            MemorySegment scales = scratch.allocate(amax.byteSize(), 64);
            if (spec.rule() instanceof MseRule rule) {
                new MseSearch(cast, source, grid, spec, rule, threadsFor(source.bytes())).search(amax, scales);
            } else {
                storeScales(amax, spec, scales);
            }
            Tensor codes = allocateCodes(source, spec.format(), arena);
            encodeAll(source, grid, scales, spec.format(), Overflow.SATURATE, codes.bytes());
            Tensor scale = narrowScales(source, scales, spec, arena);
            return new Quantization.Done(
                    new QuantizedTensor(codes.spec(), codes.bytes(), scale, spec.granularity(), spec.format()));
        }
    }

    /**
     * Encodes {@code source} with scales that are already known, such as calibrated ones.
     *
     * @param source F32, BF16 or F16, any shape; NaN and infinity become what {@code overflow} says
     * @param scale F32, BF16, F16 or F8_E8M0 of shape {@code granularity.scaleShape(source.shape())}, positive and finite
     * @param arena owns the codes of the result; the scales stay those given
     * @throws IllegalArgumentException when the source is of another type, or the scales are of the wrong shape or type or hold
     *     one that is not positive and finite
     */
    public QuantizedTensor quantize(
            Tensor source, Tensor scale, Granularity granularity, Float8Format format, Overflow overflow, Arena arena) {
        Tensor codes = allocateCodes(source, format, arena);
        QuantizedTensor result = new QuantizedTensor(codes.spec(), codes.bytes(), scale, granularity, format);
        ScaleGrid grid = ScaleGrid.of(source.shape(), granularity);
        try (Arena scratch = Arena.ofShared()) {
            MemorySegment scales = widenScales(result, scratch);
            encodeAll(source, grid, scales, format, overflow, codes.bytes());
        }
        return result;
    }

    /**
     * The values that the codes stand for: {@code code * scale} rounded to FP32, then to {@code type}.
     *
     * @param type F32, BF16 or F16
     * @param arena owns the result
     * @throws IllegalArgumentException when {@code type} is another type or a scale is not positive and finite
     */
    public Tensor dequantize(QuantizedTensor tensor, DType type, Arena arena) {
        ScaleGrid grid = ScaleGrid.of(tensor.spec().shape(), tensor.granularity());
        TensorSpec spec =
                new TensorSpec(tensor.spec().name(), type, tensor.spec().shape());
        Tensor target = Tensor.allocate(arena, spec);
        try (Arena scratch = Arena.ofShared()) {
            MemorySegment scales = widenScales(tensor, scratch);
            int workers = threadsFor(tensor.codes(), target.bytes());
            Stripes.run(
                    grid.elementCount(), workers, (from, to) -> decodeStripe(tensor, grid, scales, target, from, to));
        }
        return target;
    }

    /** Sets {@code amax} (zero-filled F32, one per scale) to the largest magnitudes. */
    private void accumulateAmax(Tensor source, ScaleGrid grid, MemorySegment amax) {
        Object lock = new Object();
        Stripes.run(grid.elementCount(), threadsFor(source.bytes()), (from, to) -> {
            ScaleGrid.Range range = grid.scalesOf(from, to);
            try (Arena scratch = Arena.ofConfined()) {
                MemorySegment local = scratch.allocate(range.count() * Float.BYTES, 64);
                accumulateStripe(source, grid, local, range.first(), from, to);
                synchronized (lock) { // the largest of all, so the order of the stripes does not matter
                    cast.amaxEach(DType.F32, local, floats(amax, range.first(), range.count()));
                }
            }
        });
    }

    private void accumulateStripe(
            Tensor source, ScaleGrid grid, MemorySegment local, long firstScale, long from, long to) {
        grid.forEachRun(from, to, new ScaleGrid.Visitor() {
            @Override
            public void shared(long first, long count, long scale) {
                float runAmax = cast.amax(source.dtype(), elements(source, first, count));
                long offset = (scale - firstScale) * Float.BYTES;
                // Bits, as in Cast: finite, infinity, NaN is their order as integers.
                int larger = Math.max(local.get(Tensor.I32_LE, offset), Float.floatToRawIntBits(runAmax));
                local.set(Tensor.I32_LE, offset, larger);
            }

            @Override
            public void each(long first, long count, long scale) {
                cast.amaxEach(source.dtype(), elements(source, first, count), floats(local, scale - firstScale, count));
            }
        });
    }

    private static Quantization refuse(Tensor source) {
        long count = source.shape().elementCount();
        for (long i = 0; i < count; i++) {
            float value = Floats.get(source.dtype(), source.bytes(), i);
            if (!Float.isFinite(value)) {
                return new Quantization.Refused(source.name(), i, value);
            }
        }
        throw new IllegalStateException(source.spec() + " changed while it was quantised");
    }

    private static void storeScales(MemorySegment amax, OperandSpec spec, MemorySegment scales) {
        for (long at = 0; at < amax.byteSize(); at += Float.BYTES) {
            scales.set(Tensor.F32_LE, at, spec.storedScale(amax.get(Tensor.F32_LE, at)));
        }
    }

    private static Tensor allocateCodes(Tensor source, Float8Format format, Arena arena) {
        return Tensor.allocate(arena, new TensorSpec(source.name(), format.dtype(), source.shape()));
    }

    private static Tensor narrowScales(Tensor source, MemorySegment scales, OperandSpec spec, Arena arena) {
        TensorSpec scaleSpec = new TensorSpec(
                source.name() + "_scale", spec.scaleType(), spec.granularity().scaleShape(source.shape()));
        Tensor scale = Tensor.allocate(arena, scaleSpec);
        for (long i = 0; i < scaleSpec.shape().elementCount(); i++) {
            StoredScale.set(spec.scaleType(), scale.bytes(), i, scales.get(Tensor.F32_LE, i * Float.BYTES));
        }
        return scale;
    }

    private static MemorySegment widenScales(QuantizedTensor tensor, Arena scratch) {
        long count = tensor.scale().shape().elementCount();
        MemorySegment scales = scratch.allocate(count * Float.BYTES, 64);
        for (long i = 0; i < count; i++) {
            float scale = tensor.scaleAt(i);
            if (!(scale > 0 && scale < Float.POSITIVE_INFINITY)) {
                throw new IllegalArgumentException(
                        tensor.scale().spec() + ": scale " + i + " is " + scale + ", not positive and finite");
            }
            scales.set(Tensor.F32_LE, i * Float.BYTES, scale);
        }
        return scales;
    }

    private void encodeAll(
            Tensor source,
            ScaleGrid grid,
            MemorySegment scales,
            Float8Format format,
            Overflow overflow,
            MemorySegment codes) {
        RunEncoder encoder = new RunEncoder(cast, source, grid, format, overflow);
        Stripes.run(grid.elementCount(), threadsFor(source.bytes(), codes), (from, to) -> {
            if (format == Float8Format.E2M1) {
                try (Arena scratch = Arena.ofConfined()) {
                    MemorySegment unpacked = scratch.allocate(to - from, 64);
                    encoder.encode(scales, from, to, unpacked);
                    Nibbles.pack(unpacked, codes.asSlice(from / 2, Math.ceilDiv(to - from, 2L)));
                }
            } else {
                encoder.encode(scales, from, to, codes.asSlice(from, to - from));
            }
        });
    }

    private void decodeStripe(
            QuantizedTensor tensor, ScaleGrid grid, MemorySegment scales, Tensor target, long from, long to) {
        try (Arena scratch = Arena.ofConfined()) {
            MemorySegment codes = unpackedCodes(tensor, from, to, scratch);
            grid.forEachRun(from, to, new ScaleGrid.Visitor() {
                @Override
                public void shared(long first, long count, long scale) {
                    cast.decode(
                            tensor.format(),
                            codes.asSlice(first - from, count),
                            scales.get(Tensor.F32_LE, scale * Float.BYTES),
                            target.dtype(),
                            elements(target, first, count));
                }

                @Override
                public void each(long first, long count, long scale) {
                    cast.decodeEach(
                            tensor.format(),
                            codes.asSlice(first - from, count),
                            floats(scales, scale, count),
                            target.dtype(),
                            elements(target, first, count));
                }
            });
        }
    }

    private static MemorySegment unpackedCodes(QuantizedTensor tensor, long from, long to, Arena scratch) {
        if (tensor.format() != Float8Format.E2M1) {
            return tensor.codes().asSlice(from, to - from);
        }
        MemorySegment unpacked = scratch.allocate(to - from, 64);
        Nibbles.unpack(tensor.codes().asSlice(from / 2, Math.ceilDiv(to - from, 2L)), unpacked);
        return unpacked;
    }

    /** Elements {@code first .. first + count - 1} of a tensor. */
    static MemorySegment elements(Tensor tensor, long first, long count) {
        long width = tensor.dtype().bits() / 8;
        return tensor.bytes().asSlice(first * width, count * width);
    }

    /** Floats {@code first .. first + count - 1} of F32 memory. */
    static MemorySegment floats(MemorySegment floats, long first, long count) {
        return floats.asSlice(first * Float.BYTES, count * Float.BYTES);
    }

    private int threadsFor(MemorySegment... segments) {
        for (MemorySegment segment : segments) {
            if (!segment.isAccessibleBy(SOME_OTHER_THREAD)) {
                return 1;
            }
        }
        return threads;
    }
}
