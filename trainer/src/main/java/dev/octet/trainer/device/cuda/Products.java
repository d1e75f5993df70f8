package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.tensor.DType;
import dev.octet.trainer.device.cuda.LtAttribute.Kind;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaProduct.Matrix;
import dev.octet.trainer.kernel.CudaSource;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * Prepares products: checks the rules, creates descriptors, chooses an algorithm. The library's ranking of algorithms is an estimate, so
 * its proposals are timed when a shape first occurs on a GPU model, on operands of noise and by an {@link AlgorithmRace}; the choice is
 * cached.
 */
final class Products implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(Products.class.getName());

    /** Number of proposals to time; in measurements, no later proposal won. */
    private static final int MOST_CANDIDATES = 12;

    /** Largest alignment that an algorithm requires. */
    private static final long MOST_ALIGNMENT = 256;

    private final GpuContext context;
    private final CublasLt lt;
    private final long handle;
    private final CublasLt.Place place;
    private final GpuInfo info;
    private final GpuOptions options;
    private final AlgorithmChoices choices;
    private final Bench bench;
    /** Answers of {@link #computes}, by {@link #key}. */
    private final Map<String, Boolean> computed = new HashMap<>();

    /** Resources for timing. */
    interface Bench {
        /** Memory for results that are discarded; empty when memory does not suffice. */
        OptionalLong scratch(long bytes);

        /** Memory with random numbers of a type; empty when memory does not suffice. */
        OptionalLong noise(DType type, long bytes);

        /** Frees the memory. */
        void release(long address);

        /** Runs the work until the GPU has its clock under load, where it idled before. */
        void warm(Runnable work);

        /** Microseconds per run, of a few runs. */
        double microseconds(Runnable work);

        /** Clock of the multiprocessors now, in MHz; 0 when it is not known. */
        int clock();
    }

    Products(
            GpuContext context,
            CublasLt lt,
            CublasLt.Place place,
            GpuInfo info,
            GpuOptions options,
            AlgorithmChoices choices,
            Bench bench) {
        this.context = context;
        this.lt = lt;
        this.handle = lt.create();
        this.place = place;
        this.info = info;
        this.options = options;
        this.choices = choices;
        this.bench = bench;
    }

    /**
     * Prepares a product.
     *
     * @throws UnavailableException when it breaks a rule of the library, or the library has no algorithm for it
     */
    ProductWork work(CudaProduct p) {
        ProductRules.broken(p, info.capability()).ifPresent(rule -> {
            throw new UnavailableException(
                    "cublasLt does not compute " + p.name() + ": " + rule,
                    p.toString(),
                    p.isFp8()
                            ? "choose mode: bf16, or name the layer under precision.layers with fp8: false"
                            : "use --device cpu and report it");
        });
        ProductDescription description = new ProductDescription(lt, p, options.allowTf32());
        try {
            return new ProductWork(context, lt, handle, p, description, algorithm(p, description), place);
        } catch (RuntimeException e) {
            description.close();
            throw e;
        }
    }

    /**
     * Whether the library has an algorithm for a product. A library may refuse products that meet all rules, for example of FP8 codes with
     * few rows.
     */
    boolean computes(CudaProduct p) {
        boolean isTooNew =
                p.scaleMode() != CudaProduct.ScaleMode.ONE && lt.version() < LtAttribute.SEVERAL_SCALES_SINCE;
        if (isTooNew || ProductRules.broken(p, info.capability()).isPresent()) {
            return false;
        }
        return computed.computeIfAbsent(key(p, options.allowTf32()), k -> {
            try (ProductDescription description = new ProductDescription(lt, p, options.allowTf32());
                    Arena arena = Arena.ofConfined()) {
                boolean has = proposals(p, description, 1, arena.allocate(CublasLt.RESULT_BYTES, 8)) > 0;
                if (!has) {
                    LOG.log(
                            System.Logger.Level.INFO,
                            "cublasLt {0} has no algorithm for {1} on {2}",
                            lt.versionText(),
                            p.name() + scales(p.scaleMode()),
                            info.name());
                }
                return has;
            }
        });
    }

    private byte[] algorithm(CudaProduct p, ProductDescription description) {
        String key = key(p, options.allowTf32());
        if (options.timedAlgorithms()) {
            Optional<byte[]> kept = choices.get(key)
                    .map(c -> HexFormat.of().parseHex(c.algorithm()))
                    .filter(a -> fits(description, a));
            if (kept.isPresent()) {
                return kept.get();
            }
        }
        try (Arena arena = Arena.ofConfined()) {
            int wanted = options.timedAlgorithms() ? MOST_CANDIDATES : 1;
            MemorySegment results = arena.allocate((long) wanted * CublasLt.RESULT_BYTES, 8);
            int count = candidates(p, description, wanted, results);
            if (count == 1 || !options.timedAlgorithms()) {
                return bytes(results, 0);
            }
            return fastest(p, description, key, results, count);
        }
    }

    private boolean fits(ProductDescription description, byte[] algorithm) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment copy = arena.allocate(CublasLt.ALGORITHM_BYTES, 8);
            copy.copyFrom(MemorySegment.ofArray(algorithm));
            return lt.fits(handle, description.descriptors(), copy, place.workspaceBytes());
        }
    }

    private int candidates(CudaProduct p, ProductDescription description, int wanted, MemorySegment results) {
        int count = proposals(p, description, wanted, results);
        if (count == 0) {
            throw new UnavailableException(
                    "cublasLt " + lt.versionText() + " has no algorithm for " + p.name() + " on " + info.name(),
                    p.toString(),
                    p.isFp8()
                            ? "choose mode: bf16, or install a newer CUDA"
                            : "install a newer CUDA, or use --device cpu");
        }
        return count;
    }

    private int proposals(CudaProduct p, ProductDescription description, int wanted, MemorySegment results) {
        long preference = lt.createPreference();
        try {
            lt.set(preference, LtAttribute.MAX_WORKSPACE_BYTES, place.workspaceBytes());
            // F32 sums in a fixed order, otherwise results would not be reproducible
            lt.set(preference, LtAttribute.REDUCTION_SCHEME_MASK, LtAttribute.REDUCTION_COMPUTE_TYPE);
            lt.set(preference, LtAttribute.MIN_ALIGNMENT_A_BYTES, alignment(p.b()));
            lt.set(preference, LtAttribute.MIN_ALIGNMENT_B_BYTES, alignment(p.a()));
            lt.set(preference, LtAttribute.MIN_ALIGNMENT_C_BYTES, alignment(p.d()));
            lt.set(preference, LtAttribute.MIN_ALIGNMENT_D_BYTES, alignment(p.d()));
            return lt.heuristics(handle, description.descriptors(), preference, wanted, results);
        } finally {
            lt.free(Kind.PREFERENCE, preference);
        }
    }

    /**
     * Times the proposals. Results go to separate memory, because d may hold data the run needs; operands are noise where memory suffices for
     * it, because zeros draw less power, so the clock is higher than in a run.
     */
    private byte[] fastest(
            CudaProduct p, ProductDescription description, String key, MemorySegment results, int count) {
        OptionalLong d = bench.scratch(p.d().span(p.m(), p.n(), p.batch()));
        if (d.isEmpty()) {
            return bytes(results, 0);
        }
        OptionalLong a = bench.noise(
                p.a().type(),
                p.transposeA() ? p.a().span(p.k(), p.m(), p.batch()) : p.a().span(p.m(), p.k(), p.batch()));
        OptionalLong b = bench.noise(
                p.b().type(),
                p.transposeB() ? p.b().span(p.n(), p.k(), p.batch()) : p.b().span(p.k(), p.n(), p.batch()));
        ProductWork.Addresses at =
                new ProductWork.Addresses(a.orElse(p.a().address()), b.orElse(p.b().address()), d.getAsLong());
        // not closed: the returned work takes over the description
        ProductWork trial = new ProductWork(context, lt, handle, p, description, bytes(results, 0), place);
        AlgorithmRace.Winner winner;
        int clock;
        try {
            winner = AlgorithmRace.run(count, new AlgorithmRace.Course() {
                @Override
                public void warm(int candidate) {
                    bench.warm(() -> trial.run(at, algorithm(results, candidate)));
                }

                @Override
                public double microseconds(int candidate) {
                    return bench.microseconds(() -> trial.run(at, algorithm(results, candidate)));
                }
            });
            clock = bench.clock();
        } finally {
            trial.release();
            bench.release(d.getAsLong());
            a.ifPresent(bench::release);
            b.ifPresent(bench::release);
        }
        byte[] algorithm = bytes(results, winner.candidate());
        if (winner.microseconds() < Double.POSITIVE_INFINITY) {
            LOG.log(
                    System.Logger.Level.DEBUG,
                    "{0}: algorithm {1} of {2}, {3} microseconds at {4} MHz",
                    p.name(),
                    winner.candidate() + 1,
                    count,
                    winner.microseconds(),
                    clock);
            choices.put(
                    key,
                    new AlgorithmChoices.Choice(
                            HexFormat.of().formatHex(algorithm), winner.microseconds(), count, clock));
        }
        return algorithm;
    }

    private static MemorySegment algorithm(MemorySegment results, int index) {
        return results.asSlice((long) index * CublasLt.RESULT_BYTES, CublasLt.ALGORITHM_BYTES);
    }

    private static byte[] bytes(MemorySegment results, int index) {
        return algorithm(results, index).toArray(ValueLayout.JAVA_BYTE);
    }

    /** Largest power of two that divides the addresses of all matrices of a batch. */
    private static long alignment(Matrix matrix) {
        long bits = matrix.address() | matrix.stride() * matrix.type().bits() / 8 | MOST_ALIGNMENT;
        return Long.lowestOneBit(bits);
    }

    /** Everything that determines the fastest algorithm of a product; of addresses only the alignment. */
    static String key(CudaProduct p, boolean tf32) {
        StringBuilder key = new StringBuilder()
                .append(CudaSource.suffix(p.a().type()))
                .append('*')
                .append(CudaSource.suffix(p.b().type()))
                .append('>')
                .append(CudaSource.suffix(p.d().type()))
                .append(p.transposeA() ? " T" : " N")
                .append(p.transposeB() ? "T " : "N ")
                .append(p.m() + "x" + p.n() + "x" + p.k());
        key.append(" leading " + p.a().leading() + "," + p.b().leading() + "," + p.d().leading());
        if (p.batch() > 1) {
            key.append(
                    " batch " + p.batch() + " strides " + p.a().stride() + "," + p.b().stride() + "," + p.d().stride());
        }
        key.append(" aligned " + alignment(p.a()) + "," + alignment(p.b()) + "," + alignment(p.d()));
        if (p.bias() != 0) {
            key.append(" bias " + CudaSource.suffix(p.biasType()));
        }
        // whether it is added does not count: so the first micro-batch's sums have the order of the others'
        key.append(p.fastSums() ? " fast" : "")
                .append(p.scaleA() != 0 || p.scaleB() != 0 ? " scaled" : "")
                .append(scales(p.scaleMode()))
                .append(tf32 && p.a().type() == DType.F32 ? " tf32" : "");
        return key.toString();
    }

    private static String scales(CudaProduct.ScaleMode mode) {
        return switch (mode) {
            case ONE -> "";
            case PER_VECTOR -> " per vector";
            case PER_RUN -> " per run";
            case PER_RUN_AND_SQUARE -> " per run and square";
            case PER_SQUARE_AND_RUN -> " per square and run";
        };
    }

    @Override
    public void close() {
        lt.destroy(handle);
    }
}
