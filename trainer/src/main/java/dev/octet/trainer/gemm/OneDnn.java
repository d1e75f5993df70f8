package dev.octet.trainer.gemm;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.file.NativeFiles;
import dev.octet.formats.file.Platform;
import dev.octet.formats.tensor.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.NoSuchElementException;
import java.util.Set;

/**
 * Binding of oneDNN's C interface, as far as products need it: the two functions without descriptors (F32, and BF16 with F32 sums), and the
 * functions that {@link MatmulPrimitives} uses. Row-major.
 *
 * <p>The library parallelises with OpenMP; each calling thread is limited to one OpenMP thread, because Octet has its own threads.
 */
final class OneDnn {
    /** Folder of the library in the artifact {@code org.bytedeco:dnnl}. */
    private static final String FOLDER = "org/bytedeco/dnnl/";

    private static final int SUCCESS = 0;

    /** Whether the library generates machine code for products; for ARM it has auto-vectorised loops. */
    static final boolean X86 = Platform.current().map(Platform::isX86).orElse(false);

    /** Bit of {@code dnnl_cpu_isa_avx512_core}, without those of smaller instruction sets. */
    private static final int AVX512 = 0x20;

    /** The library's names for the largest instruction set it may use. */
    private static final Set<String> CAPS = Set.of(
            "",
            "all",
            "default",
            "sse41",
            "avx",
            "avx2",
            "avx2_vnni",
            "avx2_vnni_2",
            "avx512_core",
            "avx512_core_vnni",
            "avx512_core_bf16",
            "avx512_core_fp16",
            "avx512_core_amx",
            "avx512_core_amx_fp16",
            "avx10_1_512",
            "avx10_1_512_amx",
            "avx10_1_512_amx_fp16",
            "avx10_2",
            "avx10_2_512",
            "avx10_2_amx_2",
            "avx10_2_512_amx_2");

    /** Environment variables that cap the library's instruction set. */
    static final List<String> CAPPING = List.of("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA");

    private final Linker linker = Linker.nativeLinker();
    private final SymbolLookup library;
    private final MethodHandle setThreads;
    private final MethodHandle sgemm;
    private final MethodHandle bgemm;
    private final String name;
    private final int isa;
    private final ThreadLocal<Boolean> alone = ThreadLocal.withInitial(this::oneThread);

    /**
     * A matrix in memory.
     *
     * @param transposed whether memory holds its transpose
     * @param stride elements from one row in memory to the next
     */
    record Operand(MemorySegment bytes, boolean transposed, long stride) {}

    /** {@code C = A·B} or {@code C += A·B}; A is [m, k], B is [k, n]. */
    record Product(int m, int n, int k, Operand a, Operand b, Operand c, boolean accumulate) {}

    /**
     * Library files of a platform.
     *
     * @param openMp its OpenMP runtime; loaded first, since otherwise the library does not find it on macOS
     */
    private record Files(String library, String openMp) {
        static Files of(Platform platform) {
            return switch (platform) {
                case LINUX_X86_64, LINUX_ARM64 -> new Files("libdnnl.so.3", "libgomp.so.1");
                case MACOS_ARM64 -> new Files("libdnnl.3.dylib", "libomp.dylib");
                case MACOS_X86_64 -> new Files("libdnnl.3.dylib", "libiomp5.dylib");
                case WINDOWS_X86_64 -> new Files("dnnl.dll", "vcomp140.dll");
            };
        }

        /** Whether the system provides OpenMP: on Windows it comes with Microsoft's Visual C++ Redistributable. */
        boolean openMpIsOfTheSystem() {
            return openMp.endsWith(".dll");
        }

        List<String> unpacked() {
            return openMpIsOfTheSystem() ? List.of(library) : List.of(library, openMp);
        }
    }

    private OneDnn(Path folder) {
        // never unloaded: OpenMP leaves thread-local destructors behind
        Files files = Files.of(Platform.current().orElseThrow());
        SymbolLookup openMp = files.openMpIsOfTheSystem()
                ? SymbolLookup.libraryLookup(files.openMp, Arena.global())
                : SymbolLookup.libraryLookup(folder.resolve(files.openMp), Arena.global());
        library = SymbolLookup.libraryLookup(folder.resolve(files.library), Arena.global());
        setThreads = linker.downcallHandle(
                openMp.findOrThrow("omp_set_num_threads"), FunctionDescriptor.ofVoid(ValueLayout.JAVA_INT));
        sgemm = gemm("dnnl_sgemm");
        bgemm = gemm("dnnl_gemm_bf16bf16f32");
        isa = instructionSet();
        MemorySegment version = version().reinterpret(12);
        name = "oneDNN " + version.get(ValueLayout.JAVA_INT, 0) + "." + version.get(ValueLayout.JAVA_INT, 4) + "."
                + version.get(ValueLayout.JAVA_INT, 8) + (X86 ? ", " + instructions(isa) : "");
    }

    /** {@code status f(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)}. */
    private MethodHandle gemm(String function) {
        return function(
                function,
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

    /** A function of the library that returns a status. */
    MethodHandle function(String function, MemoryLayout... arguments) {
        return linker.downcallHandle(
                library.findOrThrow(function), FunctionDescriptor.of(ValueLayout.JAVA_INT, arguments));
    }

    /** A function of the library that returns something else. */
    MethodHandle function(String function, FunctionDescriptor type) {
        return linker.downcallHandle(library.findOrThrow(function), type);
    }

    /**
     * Unpacks the library for this machine.
     *
     * @return its folder, whose name has the library's checksum
     * @throws UnavailableException when there is no library for this platform, it cannot be unpacked, or the environment caps its
     *     instructions with a name that it does not know
     */
    static Path unpack(Path cache) {
        Platform platform = Platform.current()
                .orElseThrow(() -> new UnavailableException(
                        "there is no native library for " + Platform.text(), "oneDNN", "Octet computes in Java"));
        if (!OneDnn.class.getModule().isNativeAccessEnabled()) {
            throw new UnavailableException(
                    "native access is not enabled", "oneDNN", "start java with --enable-native-access=ALL-UNNAMED");
        }
        for (String variable : CAPPING) {
            checkCap(variable);
        }
        return NativeFiles.unpack(
                cache,
                OneDnn.class.getClassLoader(),
                FOLDER + platform.artifact() + "/",
                Files.of(platform).unpacked());
    }

    /**
     * Loads the library from the folder it was unpacked to.
     *
     * @throws UnavailableException when it cannot be loaded
     */
    static OneDnn load(Path folder) {
        try {
            return new OneDnn(folder);
        } catch (IllegalArgumentException | NoSuchElementException | UnsatisfiedLinkError e) {
            throw new UnavailableException(
                    "the native library cannot be loaded: " + e.getMessage(),
                    folder.toString(),
                    "Octet computes in Java",
                    e);
        }
    }

    /** Rejects an unknown instruction-set cap: the library would silently ignore it. */
    private static void checkCap(String variable) {
        String cap = System.getenv().getOrDefault(variable, "");
        if (!CAPS.contains(cap.toLowerCase(Locale.ROOT))) {
            throw new UnavailableException(
                    variable + "=" + cap + " is not an instruction set that oneDNN knows",
                    "the environment",
                    "set it to AVX2, for example, or unset it");
        }
    }

    /** Name, version, instruction set. */
    String name() {
        return name;
    }

    /** Whether 16-bit operands can be fast: below AVX-512 the library multiplies them with scalar code, a hundred times slower than F32. */
    boolean multipliesNarrow() {
        return X86 && (isa & AVX512) != 0;
    }

    /** C = A·B or C += A·B in F32. */
    void multiply(DType operands, Product p) {
        alone();
        try {
            int status = (int) (operands == DType.F32 ? sgemm : bgemm)
                    .invokeExact(
                            (byte) (p.a.transposed ? 'T' : 'N'),
                            (byte) (p.b.transposed ? 'T' : 'N'),
                            (long) p.m,
                            (long) p.n,
                            (long) p.k,
                            1f,
                            p.a.bytes,
                            p.a.stride,
                            p.b.bytes,
                            p.b.stride,
                            p.accumulate ? 1f : 0f,
                            p.c.bytes,
                            p.c.stride);
            check(status);
        } catch (Throwable e) {
            throw unexpected(e);
        }
    }

    /** Throws unless {@code status} is success. */
    static void check(int status) {
        if (status != SUCCESS) {
            throw new IllegalStateException("a oneDNN call failed: status " + status);
        }
    }

    /** Limits the calling thread to one OpenMP thread. */
    void alone() {
        alone.get();
    }

    private Boolean oneThread() {
        try {
            setThreads.invokeExact(1);
            return true;
        } catch (Throwable e) {
            throw unexpected(e);
        }
    }

    private int instructionSet() {
        try {
            return (int) function("dnnl_get_effective_cpu_isa").invokeExact();
        } catch (Throwable e) {
            throw unexpected(e);
        }
    }

    private MemorySegment version() {
        try {
            return (MemorySegment) function("dnnl_version", FunctionDescriptor.of(ValueLayout.ADDRESS))
                    .invokeExact();
        } catch (Throwable e) {
            throw unexpected(e);
        }
    }

    /** A downcall declares {@code Throwable}, but throws only for invalid arguments. */
    static IllegalStateException unexpected(Throwable e) {
        return e instanceof IllegalStateException known
                ? known
                : new IllegalStateException("a call of the native library failed", e);
    }

    /** The library's name of an instruction set ({@code dnnl_cpu_isa_t}: each value has the bits of the smaller sets and its own). */
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
