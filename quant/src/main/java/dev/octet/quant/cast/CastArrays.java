package dev.octet.quant.cast;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.number.QuantType;
import java.lang.foreign.MemorySegment;

/**
 * The twin that leaves vectors to the compiler: a block of elements at a time, in plain arrays, by loops that the compiler vectorises for
 * whatever the processor has. Needs no module, is compiled in a fraction of the time that {@link ElementCastVector} takes and not boxed until
 * then, and is slower after that: so it is the faster one for a few gigabytes (docs/decisions/0015), and serves processors with
 * vectors of 128 bits.
 */
public final class CastArrays implements ElementCast {
    private final ElementCastScalar scalar = new ElementCastScalar();

    /** An array twin; it has no state but arrays for each thread. */
    public CastArrays() {}

    @Override
    public String name() {
        return "arrays";
    }

    /** One block: {@code n} elements from {@code from} on. */
    private interface Kernel {
        void run(ArrayBlock block, long from, int n);
    }

    private static void forEachBlock(long count, Kernel kernel) {
        ArrayBlock block = ArrayBlock.ofThread();
        for (long from = 0; from < count; from += ArrayBlock.ELEMENTS) {
            kernel.run(block, from, (int) Math.min(ArrayBlock.ELEMENTS, count - from));
        }
    }

    @Override
    public void encode(
            DType type,
            MemorySegment source,
            float scale,
            Float8Format format,
            Overflow overflow,
            MemorySegment codes) {
        if (format == Float8Format.E8M0) {
            scalar.encode(type, source, scale, format, overflow, codes);
            return;
        }
        Sizes.requireScale(scale);
        long count = Sizes.count(codes, type, source);
        Rounding r = Rounding.to(format, overflow);
        forEachBlock(count, (block, from, n) -> {
            block.load(type, source, from, n);
            block.scale(scale);
            block.encode(r);
            block.storeCodes(codes, from, n);
        });
    }

    @Override
    public void encodeGroups(
            DType type,
            MemorySegment source,
            MemorySegment scales,
            long size,
            Float8Format format,
            Overflow overflow,
            MemorySegment codes) {
        if (format == Float8Format.E8M0) {
            scalar.encodeGroups(type, source, scales, size, format, overflow, codes);
            return;
        }
        long count = Sizes.count(codes, type, source);
        Sizes.requireGroups(scales, count, size);
        Rounding r = Rounding.to(format, overflow);
        forEachBlock(count, (block, from, n) -> {
            block.load(type, source, from, n);
            block.divisors(scales, from, size, n);
            block.encode(r);
            block.storeCodes(codes, from, n);
        });
    }

    @Override
    public void decode(Float8Format format, MemorySegment codes, float scale, DType type, MemorySegment target) {
        if (format == Float8Format.E8M0) {
            scalar.decode(format, codes, scale, type, target);
            return;
        }
        Sizes.requireScale(scale);
        long count = Sizes.count(codes, type, target);
        forEachBlock(count, (block, from, n) -> {
            block.loadCodes(codes, from, n);
            block.scale(scale);
            block.decode(format);
            block.store(type, target, from, n);
        });
    }

    @Override
    public void decodeGroups(
            Float8Format format,
            MemorySegment codes,
            MemorySegment scales,
            long size,
            DType type,
            MemorySegment target) {
        if (format == Float8Format.E8M0) {
            scalar.decodeGroups(format, codes, scales, size, type, target);
            return;
        }
        long count = Sizes.count(codes, type, target);
        Sizes.requireGroups(scales, count, size);
        forEachBlock(count, (block, from, n) -> {
            block.loadCodes(codes, from, n);
            block.scales(scales, from, size, n);
            block.decode(format);
            block.store(type, target, from, n);
        });
    }

    @Override
    public float amax(DType type, MemorySegment source) {
        long count = Sizes.count(type, source);
        int[] most = {0};
        forEachBlock(count, (block, from, n) -> most[0] = Math.max(most[0], block.amaxBits(type, source, from, n)));
        return Float.intBitsToFloat(most[0]);
    }

    @Override
    public void amaxGroups(DType type, MemorySegment source, long size, MemorySegment running) {
        long count = Sizes.count(type, source);
        Sizes.requireGroups(running, count, size);
        if (size == 1) {
            forEachBlock(count, (block, from, n) -> block.amaxEach(type, source, from, running, n));
            return;
        }
        if (size % 2 == 0) {
            forEachBlock(count, (block, from, n) -> block.amaxGroups(type, source, from, size, running, n));
            return;
        }
        ArrayBlock block = ArrayBlock.ofThread();
        for (long from = 0; from < count; from += size) {
            long to = Math.min(from + size, count);
            int most = running.get(Tensor.I32_LE, from / size * Integer.BYTES);
            for (long at = from; at < to; at += ArrayBlock.ELEMENTS) {
                int n = (int) Math.min(ArrayBlock.ELEMENTS, to - at);
                most = Math.max(most, block.amaxBits(type, source, at, n));
            }
            running.set(Tensor.I32_LE, from / size * Integer.BYTES, most);
        }
    }

    @Override
    public void encodeIntegers(
            DType type, MemorySegment source, float scale, int zeroPoint, QuantType integers, MemorySegment codes) {
        long count = Sizes.count(codes, type, source);
        float divisor = Sizes.divisor(scale);
        forEachBlock(count, (block, from, n) -> {
            block.load(type, source, from, n);
            block.scale(divisor);
            block.encodeIntegers(zeroPoint, integers);
            block.storeCodes(codes, from, n);
        });
    }

    @Override
    public void decodeIntegers(MemorySegment codes, float scale, int zeroPoint, DType type, MemorySegment target) {
        long count = Sizes.count(codes, type, target);
        forEachBlock(count, (block, from, n) -> {
            block.loadCodes(codes, from, n);
            block.scale(scale);
            block.decodeIntegers(zeroPoint);
            block.store(type, target, from, n);
        });
    }

    @Override
    public Range range(DType type, MemorySegment source) {
        return scalar.range(type, source);
    }
}
