package dev.octet.trainer.gemm;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.file.NativeFiles;
import dev.octet.formats.tensor.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;
import java.util.List;

/**
 * The two products of oneDNN's C interface that need no descriptors: F32, and BF16 with F32 sums. Row-major.
 *
 * <p>The library shares work out by OpenMP; each thread that calls it is told to have one OpenMP thread, as Octet has threads of its
 * own.
 */
final class OneDnn {
    /** Where the artifact {@code org.bytedeco:dnnl} keeps its files. */
    private static final String FOLDER = "org/bytedeco/dnnl/";

    private static final int SUCCESS = 0;

    private final MethodHandle setThreads;
    private final MethodHandle sgemm;
    private final MethodHandle bgemm;
    private final String name;
    private final boolean multipliesBf16;
    private final ThreadLocal<Boolean> alone = ThreadLocal.withInitial(this::oneThread);

    private OneDnn(Path folder) {
        Linker linker = Linker.nativeLinker();
        // never unloaded: OpenMP leaves thread-local destructors behind
        SymbolLookup openMp = SymbolLookup.libraryLookup(folder.resolve("libgomp.so.1"), Arena.global());
        SymbolLookup library = SymbolLookup.libraryLookup(folder.resolve("libdnnl.so.3"), Arena.global());
        setThreads = linker.downcallHandle(
                openMp.findOrThrow("omp_set_num_threads"), FunctionDescriptor.ofVoid(ValueLayout.JAVA_INT));
        sgemm = linker.downcallHandle(library.findOrThrow("dnnl_sgemm"), gemm());
        bgemm = linker.downcallHandle(library.findOrThrow("dnnl_gemm_bf16bf16f32"), gemm());
        int isa = call(linker.downcallHandle(
                library.findOrThrow("dnnl_get_effective_cpu_isa"), FunctionDescriptor.of(ValueLayout.JAVA_INT)));
        MemorySegment version = pointer(linker.downcallHandle(
                        library.findOrThrow("dnnl_version"), FunctionDescriptor.of(ValueLayout.ADDRESS)))
                .reinterpret(12);
        name = "oneDNN " + version.get(ValueLayout.JAVA_INT, 0) + "." + version.get(ValueLayout.JAVA_INT, 4) + "."
                + version.get(ValueLayout.JAVA_INT, 8) + ", " + instructions(isa);
        multipliesBf16 = tryBf16();
    }

    /** {@code status f(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)}. */
    private static FunctionDescriptor gemm() {
        return FunctionDescriptor.of(
                ValueLayout.JAVA_INT,
                ValueLayout.JAVA_BYTE,
                ValueLayout.JAVA_BYTE,
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_FLOAT,
                ValueLayout.ADDRESS,
                ValueLayout.JAVA_LONG,
                ValueLayout.ADDRESS,
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_FLOAT,
                ValueLayout.ADDRESS,
                ValueLayout.JAVA_LONG);
    }

    /**
     * Loads the library for this machine.
     *
     * @throws UnavailableException when there is none, or it cannot be loaded
     */
    static OneDnn load(Path cache) {
        String platform = NativeFiles.platform();
        if (!platform.equals("linux-x86_64")) {
            throw new UnavailableException("no native library is bundled for " + platform, "oneDNN", "go on in Java");
        }
        if (!OneDnn.class.getModule().isNativeAccessEnabled()) {
            throw new UnavailableException(
                    "native access is not enabled", "oneDNN", "start java with --enable-native-access=ALL-UNNAMED");
        }
        try {
            return new OneDnn(NativeFiles.unpack(
                    cache,
                    OneDnn.class.getClassLoader(),
                    FOLDER + platform + "/",
                    List.of("libdnnl.so.3", "libgomp.so.1")));
        } catch (IllegalArgumentException | UnsatisfiedLinkError e) {
            throw new UnavailableException(
                    "the native library cannot be loaded: " + e.getMessage(), cache.toString(), "go on in Java", e);
        }
    }

    /** Name, version, instruction set. */
    String name() {
        return name;
    }

    /** Whether products of BF16 work on this processor. */
    boolean multipliesBf16() {
        return multipliesBf16;
    }

    /**
     * C = op(A)·op(B) in F32, or added to C; strides in elements.
     *
     * @param operands type of A and B: F32, or BF16 where {@link #multipliesBf16}
     */
    void multiply(
            DType operands,
            boolean transA,
            boolean transB,
            long m,
            long n,
            long k,
            MemorySegment a,
            long lda,
            MemorySegment b,
            long ldb,
            boolean accumulate,
            MemorySegment c,
            long ldc) {
        MethodHandle function = operands == DType.F32 ? sgemm : bgemm;
        check(run(function, transA, transB, m, n, k, a, lda, b, ldb, accumulate, c, ldc));
    }

    private int run(
            MethodHandle function,
            boolean transA,
            boolean transB,
            long m,
            long n,
            long k,
            MemorySegment a,
            long lda,
            MemorySegment b,
            long ldb,
            boolean accumulate,
            MemorySegment c,
            long ldc) {
        alone.get();
        try {
            return (int) function.invokeExact(
                    (byte) (transA ? 'T' : 'N'),
                    (byte) (transB ? 'T' : 'N'),
                    m,
                    n,
                    k,
                    1f,
                    a,
                    lda,
                    b,
                    ldb,
                    accumulate ? 1f : 0f,
                    c,
                    ldc);
        } catch (Throwable e) {
            throw unexpected(e);
        }
    }

    private static void check(int status) {
        if (status != SUCCESS) {
            throw new IllegalStateException("oneDNN refused a product: status " + status);
        }
    }

    private boolean tryBf16() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment one = arena.allocate(64, 64);
            return run(bgemm, false, false, 1, 1, 1, one, 1, one, 1, false, arena.allocate(64, 64), 1) == SUCCESS;
        }
    }

    private Boolean oneThread() {
        try {
            setThreads.invokeExact(1);
            return true;
        } catch (Throwable e) {
            throw unexpected(e);
        }
    }

    private static int call(MethodHandle function) {
        try {
            return (int) function.invokeExact();
        } catch (Throwable e) {
            throw unexpected(e);
        }
    }

    private static MemorySegment pointer(MethodHandle function) {
        try {
            return (MemorySegment) function.invokeExact();
        } catch (Throwable e) {
            throw unexpected(e);
        }
    }

    /** A downcall declares {@code Throwable} but throws only what is wrong with its arguments. */
    private static IllegalStateException unexpected(Throwable e) {
        return new IllegalStateException("a call of the native library failed", e);
    }

    /** The library's name of an instruction set ({@code dnnl_cpu_isa_t}: each is the bits of those before and one of its own). */
    private static String instructions(int isa) {
        return switch (isa) {
            case 0x1 -> "sse41";
            case 0x3 -> "avx";
            case 0x7 -> "avx2";
            case 0xf -> "avx2_vnni";
            case 0x1f -> "avx2_vnni_2";
            case 0x27 -> "avx512_core";
            case 0x67 -> "avx512_core_vnni";
            case 0xe7 -> "avx512_core_bf16";
            case 0x1ef -> "avx512_core_fp16";
            case 0xfef -> "avx512_core_amx";
            default -> "instruction set 0x" + Integer.toHexString(isa);
        };
    }
}
