package dev.octet.quant;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.cast.BlockCast;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.AffineScale;
import dev.octet.quant.scale.QuantizedTensor;
import dev.octet.quant.scale.ScaleRule.MseRule;
import dev.octet.quant.scale.StoredScale;
import dev.octet.quant.work.Workers;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.function.Consumer;

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

    /**
     * Elements of a stripe: large enough that starting one costs nothing, small enough that two threads finish together. Even, so that
     * no byte of packed codes belongs to two stripes.
     */
    private static final long STRIPE = 1L << 20;

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
        Blocks blocks = Blocks.of(source.shape(), spec.granularity());
        if (spec.type().hasZeroPoint()) {
            return quantizeAffine(source, blocks, spec, arena);
        }
        try (Arena scratch = Arena.ofShared()) {
            MemorySegment amax = scratch.allocate(blocks.scaleCount() * Float.BYTES, 64);
            accumulateAmax(source, blocks, amax);
            if (!Float.isFinite(cast.amax(DType.F32, amax))) {
                return refuse(source);
            }
            MemorySegment scales = scratch.allocate(amax.byteSize(), 64);
            if (spec.rule() instanceof MseRule rule) {
                new MseSearch(cast, source, blocks, spec, rule, threadsFor(source.bytes())).search(amax, scales);
            } else {
                storeScales(amax, spec, scales);
            }
            Tensor codes = allocateCodes(source, spec.type(), arena);
            encodeAll(source, blocks, scales, spec.type(), Overflow.SATURATE, codes.bytes());
            Tensor scale = narrowScales(source, scales, spec, arena);
            return new Quantization.Done(
                    new QuantizedTensor(codes.spec(), codes.bytes(), scale, spec.granularity(), spec.type()));
        }
    }

    /** With the range of each block laid over all codes. */
    private Quantization quantizeAffine(Tensor source, Blocks blocks, OperandSpec spec, Arena arena) {
        if (!Float.isFinite(cast.amax(source.dtype(), source.bytes()))) {
            return refuse(source);
        }
        ScaleRuns runs = blocks.runs();
        BlockCast blockCast = new BlockCast(cast, Overflow.SATURATE);
        Tensor codes = allocateCodes(source, spec.type(), arena);
        Tensor zeroPoints = Tensor.allocate(
                arena,
                new TensorSpec(
                        source.name() + "_zero_point",
                        DType.I8,
                        spec.granularity().scaleShape(source.shape())));
        try (Arena scratch = Arena.ofShared()) {
            MemorySegment scales = scratch.allocate(Math.max(1, blocks.scaleCount() * Float.BYTES), 64);
            AffineScale.of(
                    blockCast.ranges(source.dtype(), source.bytes(), runs),
                    spec.type(),
                    spec.scaleType(),
                    scales,
                    zeroPoints.bytes());
            blockCast.encodeAffine(
                    spec.type(), source.dtype(), source.bytes(), runs, scales, zeroPoints.bytes(), codes.bytes());
            return new Quantization.Done(new QuantizedTensor(
                    codes.spec(),
                    codes.bytes(),
                    narrowScales(source, scales, spec, arena),
                    zeroPoints,
                    spec.granularity(),
                    spec.type()));
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
        Tensor codes = allocateCodes(source, codes(format), arena);
        QuantizedTensor result = new QuantizedTensor(codes.spec(), codes.bytes(), scale, granularity, format);
        Blocks blocks = Blocks.of(source.shape(), granularity);
        try (Arena scratch = Arena.ofShared()) {
            MemorySegment scales = widenScales(result, scratch);
            encodeAll(source, blocks, scales, codes(format), overflow, codes.bytes());
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
        TensorSpec spec =
                new TensorSpec(tensor.spec().name(), type, tensor.spec().shape());
        Tensor target = Tensor.allocate(arena, spec);
        QuantType codes = tensor.type();
        BlockCast blockCast = new BlockCast(cast, Overflow.SATURATE);
        Blocks blocks = Blocks.of(spec.shape(), tensor.granularity());
        try (Arena scratch = Arena.ofShared()) {
            MemorySegment scales = widenScales(tensor, scratch);
            forEachStripe(blocks, threadsFor(tensor.codes(), target.bytes()), stripe -> {
                MemorySegment from = packed(codes, tensor.codes(), stripe);
                blockCast.decode(codes, from, stripe, floats(scales, stripe), type, elements(target, stripe));
            });
        }
        return target;
    }

    /**
     * A tensor in stripes. Where they end depends on the number of elements only, so results that follow from one stripe each are the same
     * on any number of threads.
     */
    static List<ScaleRuns> stripes(Blocks blocks) {
        return blocks.runs().cut(STRIPE);
    }

    private static void forEachStripe(Blocks blocks, int threads, Consumer<ScaleRuns> body) {
        List<ScaleRuns> stripes = stripes(blocks);
        Workers.run(stripes.size(), threads, i -> body.accept(stripes.get(i)));
    }

    /** Sets {@code amax} (zero-filled F32, one per scale) to the largest magnitudes. */
    private void accumulateAmax(Tensor source, Blocks blocks, MemorySegment amax) {
        Object lock = new Object();
        BlockCast blockCast = new BlockCast(cast, Overflow.SATURATE);
        forEachStripe(blocks, threadsFor(source.bytes()), stripe -> {
            try (Arena scratch = Arena.ofConfined()) {
                MemorySegment local = scratch.allocate(stripe.scaleCount() * Float.BYTES, 64);
                blockCast.amax(source.dtype(), elements(source, stripe), stripe, local);
                synchronized (lock) { // the largest of all, so the order of the stripes does not matter
                    cast.amaxGroups(DType.F32, local, 1, floats(amax, stripe));
                }
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

    private static Tensor allocateCodes(Tensor source, QuantType type, Arena arena) {
        return Tensor.allocate(arena, new TensorSpec(source.name(), type.dtype(), source.shape()));
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
            Blocks blocks,
            MemorySegment scales,
            QuantType type,
            Overflow overflow,
            MemorySegment codes) {
        BlockCast blockCast = new BlockCast(cast, overflow);
        forEachStripe(blocks, threadsFor(source.bytes(), codes), stripe -> {
            MemorySegment to = packed(type, codes, stripe);
            blockCast.encode(type, source.dtype(), elements(source, stripe), stripe, floats(scales, stripe), to);
        });
    }

    /** @throws IllegalArgumentException for E8M0 */
    static QuantType codes(Float8Format format) {
        return QuantType.of(format)
                .orElseThrow(() -> new IllegalArgumentException(format + " is a format for scales, not values"));
    }

    /** The codes of a stripe. */
    private static MemorySegment packed(QuantType type, MemorySegment codes, ScaleRuns stripe) {
        return codes.asSlice(type.bytes(stripe.from()), type.bytes(stripe.elements()));
    }

    /** The elements of a stripe. */
    static MemorySegment elements(Tensor tensor, ScaleRuns stripe) {
        long width = tensor.dtype().bits() / 8;
        return tensor.bytes().asSlice(stripe.from() * width, stripe.elements() * width);
    }

    /** The F32 scales of a stripe. */
    static MemorySegment floats(MemorySegment scales, ScaleRuns stripe) {
        return scales.asSlice(stripe.firstScale() * Float.BYTES, stripe.scaleCount() * Float.BYTES);
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
