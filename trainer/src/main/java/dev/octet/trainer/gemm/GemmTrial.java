package dev.octet.trainer.gemm;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.file.AtomicFile;
import dev.octet.formats.file.NativeTrial;
import dev.octet.formats.file.PrivateFolder;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.VectorUnit;
import dev.octet.trainer.gemm.OneDnn.Operand;
import dev.octet.trainer.gemm.OneDnn.Product;
import dev.octet.trainer.kernel.MatrixProducts;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.BooleanSupplier;

/**
 * Measures how fast oneDNN multiplies on this processor: once, in a separate Java process. The result is cached by processor, library build
 * and instruction-set cap. Thus a processor on which the library crashes does not end a run, and two runs on one machine take the same
 * routes and give the same bits.
 *
 * <p>A function being available does not mean it is fast: without AVX-512 the library's BF16 product is a scalar loop, a hundred times
 * slower than F32; with AVX-512 but without BF16 instructions it is five times slower than widening to F32.
 */
final class GemmTrial {
    private static final System.Logger LOG = System.getLogger(GemmTrial.class.getName());
    private static final Duration LIMIT = Duration.ofSeconds(60);
    private static final String CRASHED = "crashed\n";
    private static final String RETRY = "delete this file to try it again";
    private static final String JAVA = "Octet computes in Java";

    // a product that takes about a millisecond, with F32 operands larger than a first-level cache
    private static final int ROWS = 256;
    private static final int COLUMNS = 512;
    private static final int TERMS = 512;
    private static final int RUNS = 5;

    /** Warm-up time, after which the optimising compiler has finished. */
    private static final long WARM_NANOS = 2_000_000_000L;

    private GemmTrial() {}

    /**
     * The rates on this processor, cached or measured now.
     *
     * @param cache the user's cache folder
     * @param library folder of the unpacked library
     * @throws UnavailableException when the library cannot be loaded or crashes
     */
    static Rates rates(Path cache, Path library) {
        Optional<Path> place = place(cache, library);
        Optional<String> kept = place.flatMap(GemmTrial::read);
        if (kept.isPresent()) {
            if (kept.get().equals(CRASHED)) {
                throw crash(place.get().toString(), RETRY);
            }
            try {
                return Rates.parse(kept.get(), place.get().toString());
            } catch (UnavailableException e) {
                LOG.log(System.Logger.Level.DEBUG, "measured again", e);
            }
        }
        Rates rates = tried(library, place);
        place.ifPresent(p -> keep(p, rates.lines()));
        return rates;
    }

    private static Rates tried(Path library, Optional<Path> place) {
        Optional<NativeTrial.Ended> trial;
        try {
            trial = NativeTrial.run(
                    GemmTrial.class, options(), Map.of("octet.gemm.library", library.toString()), new byte[0], LIMIT);
        } catch (IOException e) {
            LOG.log(System.Logger.Level.DEBUG, "measured in this process", e);
            trial = Optional.empty();
        }
        if (trial.isEmpty()) {
            return measure(OneDnn.load(library));
        }
        NativeTrial.Ended ended = trial.get();
        if (ended.crashed()) {
            place.ifPresent(p -> keep(p, CRASHED));
            throw place.map(p -> crash(p.toString(), RETRY)).orElseGet(() -> crash(library.toString(), JAVA));
        }
        if (ended.exit() != 0) {
            throw new UnavailableException(
                    "the native library cannot be tried: "
                            + ended.errors().lines().findFirst().orElse("exit code " + ended.exit()),
                    library.toString(),
                    JAVA);
        }
        return Rates.parse(ended.output(), library.toString());
    }

    /** JVM options of the measuring process: Java is measured as it will run, with vectors and the optimising compiler. */
    private static List<String> options() {
        return comparesJava() ? List.of("--add-modules", "jdk.incubator.vector", "-XX:TieredStopAtLevel=4") : List.of();
    }

    private static boolean comparesJava() {
        return !OneDnn.X86 && VectorUnit.isInJvm();
    }

    private static UnavailableException crash(String where, String fix) {
        return new UnavailableException("the native library crashes on this processor", where, fix);
    }

    /** The file of the cached rates; empty when there is no usable cache folder. */
    private static Optional<Path> place(Path cache, Path library) {
        try {
            StringBuilder caps = new StringBuilder();
            for (String variable : OneDnn.CAPPING) {
                caps.append(variable)
                        .append('=')
                        .append(System.getenv().getOrDefault(variable, ""))
                        .append('\n');
            }
            return Optional.of(PrivateFolder.open(cache.resolve("gemm"))
                    .resolve(Sha256.of("rates", library.getFileName().toString(), processor(), caps.toString())));
        } catch (IOException e) {
            LOG.log(System.Logger.Level.DEBUG, "products are measured again in each run", e);
            return Optional.empty();
        }
    }

    /** Identifies the processor model. */
    private static String processor() throws IOException {
        Path linux = Path.of("/proc/cpuinfo");
        if (!Files.isReadable(linux)) {
            return System.getProperty("os.arch") + " "
                    + System.getenv().getOrDefault("PROCESSOR_IDENTIFIER", System.getProperty("os.name"));
        }
        StringBuilder text = new StringBuilder();
        for (String line : Files.readAllLines(linux, StandardCharsets.UTF_8)) {
            if (line.isEmpty()) {
                break; // all cores are alike
            }
            if (!line.contains("MHz") && !line.startsWith("bogomips")) {
                text.append(line).append('\n');
            }
        }
        return text.toString();
    }

    private static Optional<String> read(Path file) {
        try {
            return Optional.of(Files.readString(file));
        } catch (NoSuchFileException e) {
            return Optional.empty();
        } catch (IOException e) {
            LOG.log(System.Logger.Level.DEBUG, "measured again", e);
            return Optional.empty();
        }
    }

    private static void keep(Path file, String text) {
        try (AtomicFile whole = AtomicFile.create(file)) {
            whole.write(ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8)));
            whole.commit();
        } catch (IOException e) {
            LOG.log(System.Logger.Level.DEBUG, "products will be measured again in the next run", e);
        }
    }

    /** Measures the library in the folder {@code octet.gemm.library} and prints the rates; main method of the separate process. */
    public static void main(String... words) {
        NativeTrial.answer(() -> measure(OneDnn.load(Path.of(System.getProperty("octet.gemm.library"))))
                .lines());
    }

    /** Measures in this process, on this thread. */
    static Rates measure(OneDnn library) {
        MatmulPrimitives primitives = new MatmulPrimitives(library);
        Map<DType, Map<Route, Double>> rates = new EnumMap<>(DType.class);
        List<DType> types = library.multipliesNarrow() ? List.of(DType.F32, DType.BF16, DType.F16) : List.of(DType.F32);
        try (Arena arena = Arena.ofConfined()) {
            for (DType type : types) {
                Map<Route, Double> own = new EnumMap<>(Route.class);
                rates.put(type, own);
                Product summed = product(arena, type, DType.F32);
                Product rounded = product(arena, type, type);
                if (type != DType.F16) {
                    put(own, Route.GEMM, () -> {
                        library.multiply(type, summed);
                        return true;
                    });
                }
                if (type == DType.F32 && comparesJava()) {
                    own.put(Route.JAVA, java(summed));
                }
                if (type != DType.F32) {
                    put(own, Route.MATMUL, () -> primitives.multiply(type, type, rounded));
                }
            }
        }
        return new Rates(rates);
    }

    private static void put(Map<Route, Double> rates, Route route, BooleanSupplier product) {
        long best = Long.MAX_VALUE;
        for (int i = 0; i <= RUNS; i++) {
            long start = System.nanoTime();
            if (!product.getAsBoolean()) {
                return;
            }
            if (i > 0) { // the first run compiles
                best = Math.min(best, System.nanoTime() - start);
            }
        }
        rates.put(route, 2.0 * ROWS * COLUMNS * TERMS / best);
    }

    private static double java(Product p) {
        MatrixProducts.Call call =
                MatrixProducts.Call.of(false, true, ROWS, COLUMNS, TERMS, DType.F32, DType.F32, false);
        VectorGemm gemm = new VectorGemm();
        long best = Long.MAX_VALUE;
        long start = System.nanoTime();
        for (long now = start; now - start < WARM_NANOS; ) {
            gemm.single(call, p.a().bytes(), p.b().bytes(), p.c().bytes());
            long end = System.nanoTime();
            best = Math.min(best, end - now);
            now = end;
        }
        return 2.0 * ROWS * COLUMNS * TERMS / best;
    }

    private static Product product(Arena arena, DType operands, DType result) {
        return new Product(
                ROWS,
                COLUMNS,
                TERMS,
                new Operand(ones(arena, operands, ROWS * TERMS), false, TERMS),
                new Operand(ones(arena, operands, COLUMNS * TERMS), true, TERMS),
                new Operand(ones(arena, result, ROWS * COLUMNS), false, COLUMNS),
                false);
    }

    /** Small normal numbers of any type. */
    private static MemorySegment ones(Arena arena, DType type, int count) {
        return arena.allocate((long) count * type.bits() / 8, 64).fill((byte) 0x3C);
    }
}
