package dev.octet.bench;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.cast.BlockCast;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.scale.AffineScale;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/**
 * What the streaming quantiser does to a tile between reading and writing it: one tile of 128 x 2048 normally distributed elements, 512
 * KiB of BF16, by one thread, over and over, so that it stays in a core's cache. Results are elements per nanosecond, that is Gelem/s.
 */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.Throughput)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@OperationsPerInvocation(TileBenchmark.ELEMENTS)
@Warmup(iterations = 10, time = 100, timeUnit = TimeUnit.MILLISECONDS)
@Measurement(iterations = 15, time = 100, timeUnit = TimeUnit.MILLISECONDS)
@Fork(
        value = 1,
        jvmArgsAppend = {"--add-modules", "jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED"})
public class TileBenchmark {
    private static final int ROWS = 128;
    private static final int COLS = 2048;

    /** Elements per call. */
    static final int ELEMENTS = ROWS * COLS;

    /** Codes and granularity, as the recipes for checkpoints have them. */
    public enum Scheme {
        /** E4M3, one scale per row. */
        FP8_ROW(QuantType.E4M3FN),
        /** E4M3, blocks of 128 x 128. */
        FP8_BLOCK(QuantType.E4M3FN),
        /** E4M3, one scale per 32 elements. */
        MXFP8(QuantType.E4M3FN),
        /** E2M1, one scale per 16 elements. */
        NVFP4(QuantType.E2M1),
        /** Symmetric integers, one scale per row. */
        INT8(QuantType.INT8),
        /** Integers with a zero point, per row. */
        INT8_ASYMMETRIC(QuantType.INT8_ASYMMETRIC);

        private final QuantType codes;

        Scheme(QuantType codes) {
            this.codes = codes;
        }

        Granularity granularity() {
            return switch (this) {
                case FP8_ROW, INT8, INT8_ASYMMETRIC -> new Granularity.PerChannel(-2);
                case FP8_BLOCK -> new Granularity.PerBlock(128, 128);
                case MXFP8 -> new Granularity.Mx(32);
                case NVFP4 -> new Granularity.PerGroup(-1, 16);
            };
        }
    }

    /** What is measured. */
    @Param
    public Scheme scheme = Scheme.FP8_ROW;

    /** Type of the floats. */
    @Param("BF16")
    public DType type = DType.BF16;

    private final BlockCast cast = BlockCast.best();
    private final Arena arena = Arena.ofShared();
    private ScaleRuns tile =
            Blocks.of(Shape.of(ROWS, COLS), scheme.granularity()).runs();
    private MemorySegment floats = MemorySegment.NULL;
    private MemorySegment scales = MemorySegment.NULL;
    private MemorySegment zeroPoints = MemorySegment.NULL;
    private MemorySegment codes = MemorySegment.NULL;
    private MemorySegment decoded = MemorySegment.NULL;

    /** Fills the memory. */
    @Setup(Level.Trial)
    public void setUp() {
        tile = Blocks.of(Shape.of(ROWS, COLS), scheme.granularity()).runs();
        long bytes = (long) ELEMENTS * type.bits() / 8;
        floats = arena.allocate(bytes, 64);
        decoded = arena.allocate(bytes, 64);
        codes = arena.allocate(scheme.codes.bytes(tile.elements()), 64);
        scales = arena.allocate(tile.scaleCount() * Float.BYTES, 64);
        zeroPoints = arena.allocate(tile.scaleCount(), 64);
        SplittableRandom random = new SplittableRandom(1);
        for (int i = 0; i < ELEMENTS; i++) {
            Floats.set(type, floats, i, (float) (random.nextGaussian() * 0.02));
        }
        quantize();
        dequantize();
    }

    /** Frees the memory. */
    @TearDown(Level.Trial)
    public void tearDown() {
        arena.close();
    }

    /** Largest magnitudes (or ranges), scales and codes. */
    @Benchmark
    public void quantize() {
        if (scheme.codes == QuantType.INT8_ASYMMETRIC) {
            AffineScale.of(cast.ranges(type, floats, tile), QuantType.INT8_ASYMMETRIC, DType.F32, scales, zeroPoints);
            cast.encodeAffine(QuantType.INT8_ASYMMETRIC, type, floats, tile, scales, zeroPoints, codes);
            return;
        }
        cast.amax(type, floats, tile, scales);
        for (long at = 0; at < scales.byteSize(); at += Float.BYTES) {
            scales.set(Tensor.F32_LE, at, scales.get(Tensor.F32_LE, at) / scheme.codes.maxValue());
        }
        cast.encode(scheme.codes, type, floats, tile, scales, codes);
    }

    /** The largest magnitudes alone. */
    @Benchmark
    public void amax() {
        cast.amax(type, floats, tile, scales);
    }

    /** Codes to floats. */
    @Benchmark
    public void dequantize() {
        if (scheme.codes == QuantType.INT8_ASYMMETRIC) {
            cast.decodeAffine(codes, tile, scales, zeroPoints, type, decoded);
        } else {
            cast.decode(scheme.codes, codes, tile, scales, type, decoded);
        }
    }
}
