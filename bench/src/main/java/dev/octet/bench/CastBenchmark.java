package dev.octet.bench;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.Quantization;
import dev.octet.quant.Quantizer;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.cast.ElementCastReference;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.recipe.OperandSpec;
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
 * Casts of 2^26 normally distributed elements in native memory, far more than caches hold, by one thread with one scale. Results are
 * elements per nanosecond, that is Gelem/s.
 */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.Throughput)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@OperationsPerInvocation(CastBenchmark.ELEMENTS)
// Many short iterations: the comparison takes the best one, as the peer script takes the best round.
@Warmup(iterations = 10, time = 200, timeUnit = TimeUnit.MILLISECONDS)
@Measurement(iterations = 30, time = 100, timeUnit = TimeUnit.MILLISECONDS)
@Fork(
        value = 1,
        jvmArgsAppend = {"--add-modules", "jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED"})
public class CastBenchmark {
    /** Elements per call: 128 MiB of BF16. */
    static final int ELEMENTS = 1 << 26;

    private static final int ROW = 4096;
    private static final int CHECKED = 1 << 16;

    /** Type of the floats. */
    @Param({"BF16", "F32", "F16"})
    public DType type = DType.BF16;

    /** The codes. */
    @Param({"E4M3FN", "E5M2"})
    public Float8Format format = Float8Format.E4M3FN;

    private final ElementCast cast = ElementCast.best();
    private final Arena arena = Arena.ofShared();
    private float scale = 1;
    private MemorySegment floats = MemorySegment.NULL;
    private MemorySegment codes = MemorySegment.NULL;
    private MemorySegment decoded = MemorySegment.NULL;

    /** Fills the memory and compares the twin with the reference. */
    @Setup(Level.Trial)
    public void setUp() {
        long bytes = (long) ELEMENTS * type.bits() / 8;
        floats = arena.allocate(bytes, 64);
        decoded = arena.allocate(bytes, 64);
        codes = arena.allocate(ELEMENTS, 64);
        SplittableRandom random = new SplittableRandom(1);
        for (int i = 0; i < CHECKED; i++) {
            Floats.set(type, floats, i, (float) (random.nextGaussian() * 0.02));
        }
        // The rest repeats the beginning: drawing 2^26 normal numbers takes longer than the benchmark.
        long part = bytes / (ELEMENTS / CHECKED);
        for (long at = part; at < bytes; at += part) {
            MemorySegment.copy(floats, 0, floats, at, part);
        }
        scale = cast.amax(type, floats) / format.maxValue();
        encode();
        decode();
        check(part);
    }

    private void check(long part) {
        ElementCast reference = new ElementCastReference();
        MemorySegment expected = arena.allocate(CHECKED);
        reference.encode(type, floats.asSlice(0, part), scale, format, Overflow.SATURATE, expected);
        MemorySegment expectedFloats = arena.allocate(part);
        reference.decode(format, expected, scale, type, expectedFloats);
        if (expected.mismatch(codes.asSlice(0, CHECKED)) != -1
                || expectedFloats.mismatch(decoded.asSlice(0, part)) != -1) {
            throw new IllegalStateException(cast.name() + " differs from the reference for " + type + " " + format);
        }
    }

    /** Frees the memory. */
    @TearDown(Level.Trial)
    public void tearDown() {
        arena.close();
    }

    /** Floats to codes with a known scale. */
    @Benchmark
    public void encode() {
        cast.encode(type, floats, scale, format, Overflow.SATURATE, codes);
    }

    /** Codes to floats. */
    @Benchmark
    public void decode() {
        cast.decode(format, codes, scale, type, decoded);
    }

    /** The largest magnitude. */
    @Benchmark
    public float amax() {
        return cast.amax(type, floats);
    }

    /** Largest magnitudes, scales and codes of rows of 4096: a weight per output channel. */
    @Benchmark
    public Quantization quantizePerChannel() {
        Shape shape = Shape.of(ELEMENTS / ROW, ROW);
        Tensor source = new Tensor(new TensorSpec("w", type, shape), floats);
        try (Arena result = Arena.ofConfined()) {
            return Quantizer.sequential()
                    .quantize(source, OperandSpec.fromValues(format, new Granularity.PerChannel(0)), result);
        }
    }
}
