package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.tensor.DType;
import dev.octet.trainer.device.cuda.LtAttribute.Kind;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.EnumMap;
import java.util.Map;
import java.util.Objects;

/**
 * Binding of cublasLt's C interface, as far as Octet calls it. Objects are opaque pointers; device addresses are passed as numbers.
 * Descriptors work without a GPU, everything else needs one.
 */
final class CublasLt {
    /** {@code sizeof(cublasLtMatmulHeuristicResult_t)}: 64 bytes algorithm, workspace size, state, waves, four reserved numbers. */
    static final int RESULT_BYTES = 96;

    /** {@code sizeof(cublasLtMatmulAlgo_t)}, the first member of the result. */
    static final int ALGORITHM_BYTES = 64;

    static final int RESULT_WORKSPACE = 64;
    static final int RESULT_STATE = 72;

    private static final int SUCCESS = 0;
    private static final int NOT_SUPPORTED = 15;

    private final LoadedLibrary library;
    private final long version;
    private final MethodHandle create;
    private final MethodHandle destroy;
    private final MethodHandle createProduct;
    private final MethodHandle createLayout;
    private final MethodHandle createPreference;
    private final Map<Kind, MethodHandle> free = new EnumMap<>(Kind.class);
    private final Map<Kind, MethodHandle> set = new EnumMap<>(Kind.class);
    private final Map<Kind, MethodHandle> get = new EnumMap<>(Kind.class);
    private final MethodHandle heuristic;
    private final MethodHandle checkAlgorithm;
    private final MethodHandle matmul;

    private CublasLt(LoadedLibrary library) {
        this.library = library;
        version = readVersion(library);
        create = library.function("cublasLtCreate", ValueLayout.ADDRESS);
        destroy = library.function("cublasLtDestroy", ValueLayout.JAVA_LONG);
        createProduct = library.function(
                "cublasLtMatmulDescCreate", ValueLayout.ADDRESS, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT);
        createLayout = library.function(
                "cublasLtMatrixLayoutCreate",
                ValueLayout.ADDRESS,
                ValueLayout.JAVA_INT,
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG);
        createPreference = library.function("cublasLtMatmulPreferenceCreate", ValueLayout.ADDRESS);
        for (Kind kind : Kind.values()) {
            free.put(kind, library.function(kind.prefix() + "Destroy", ValueLayout.JAVA_LONG));
            set.put(
                    kind,
                    library.function(
                            kind.prefix() + "SetAttribute",
                            ValueLayout.JAVA_LONG,
                            ValueLayout.JAVA_INT,
                            ValueLayout.ADDRESS,
                            ValueLayout.JAVA_LONG));
            get.put(
                    kind,
                    library.function(
                            kind.prefix() + "GetAttribute",
                            ValueLayout.JAVA_LONG,
                            ValueLayout.JAVA_INT,
                            ValueLayout.ADDRESS,
                            ValueLayout.JAVA_LONG,
                            ValueLayout.ADDRESS));
        }
        heuristic = library.function(
                "cublasLtMatmulAlgoGetHeuristic",
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_INT,
                ValueLayout.ADDRESS,
                ValueLayout.ADDRESS);
        checkAlgorithm = library.function(
                "cublasLtMatmulAlgoCheck",
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG,
                ValueLayout.ADDRESS,
                ValueLayout.ADDRESS);
        matmul = library.function(
                "cublasLtMatmul",
                ValueLayout.JAVA_LONG, // handle
                ValueLayout.JAVA_LONG, // product
                ValueLayout.ADDRESS, // alpha
                ValueLayout.JAVA_LONG, // A
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG, // B
                ValueLayout.JAVA_LONG,
                ValueLayout.ADDRESS, // beta
                ValueLayout.JAVA_LONG, // C
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG, // D
                ValueLayout.JAVA_LONG,
                ValueLayout.ADDRESS, // algorithm
                ValueLayout.JAVA_LONG, // workspace
                ValueLayout.JAVA_LONG,
                ValueLayout.JAVA_LONG); // stream
    }

    /** Pointers to the library's descriptors of a product and its matrices. */
    record Descriptors(long product, long a, long b, long d) {}

    /** Device memory and stream for a product. */
    record Place(long workspace, long workspaceBytes, long stream) {}

    /**
     * Binds the library.
     *
     * @throws UnavailableException when it lacks a function or is older than FP8
     */
    static CublasLt of(LoadedLibrary library) {
        CublasLt lt = new CublasLt(library);
        if (lt.version < LtAttribute.FP8_SINCE) {
            throw new UnavailableException(
                    "cublasLt " + lt.versionText() + " is too old: FP8 came with 12.0",
                    library.path(),
                    library.library().remedy());
        }
        return lt;
    }

    private static long readVersion(LoadedLibrary library) {
        MethodHandle function = library.handle("cublasLtGetVersion", FunctionDescriptor.of(ValueLayout.JAVA_LONG));
        try {
            return (long) function.invokeExact();
        } catch (Throwable e) {
            throw LoadedLibrary.unexpected(e);
        }
    }

    /** Version number, as 120603 or 130100. */
    long version() {
        return version;
    }

    /** Version as {@code 12.6.3}. */
    String versionText() {
        return version / 10000 + "." + version / 100 % 100 + "." + version % 100;
    }

    /** Path of the library. */
    String path() {
        return library.path();
    }

    /** Creates a handle for the thread's current context. */
    long create() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment handle = arena.allocate(ValueLayout.JAVA_LONG);
            check((int) create.invokeExact(handle), "cublasLtCreate");
            return handle.get(ValueLayout.JAVA_LONG, 0);
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    /** Destroys a handle. */
    void destroy(long handle) {
        try {
            check((int) destroy.invokeExact(handle), "cublasLtDestroy");
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    /** Creates the descriptor of a product with F32 scales; {@code compute} is a {@code cublasComputeType_t}. */
    long createProduct(int compute) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment made = arena.allocate(ValueLayout.JAVA_LONG);
            check(
                    (int) createProduct.invokeExact(made, compute, LtAttribute.dataType(DType.F32)),
                    "cublasLtMatmulDescCreate");
            return made.get(ValueLayout.JAVA_LONG, 0);
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    /** Creates the layout of a column-major matrix. */
    long createLayout(DType type, long rows, long cols, long leading) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment made = arena.allocate(ValueLayout.JAVA_LONG);
            check(
                    (int) createLayout.invokeExact(made, LtAttribute.dataType(type), rows, cols, leading),
                    "cublasLtMatrixLayoutCreate");
            return made.get(ValueLayout.JAVA_LONG, 0);
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    /** Creates a preference, the limits for the choice of algorithms. */
    long createPreference() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment made = arena.allocate(ValueLayout.JAVA_LONG);
            check((int) createPreference.invokeExact(made), "cublasLtMatmulPreferenceCreate");
            return made.get(ValueLayout.JAVA_LONG, 0);
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    /** Frees a product, a layout or a preference. */
    void free(Kind kind, long object) {
        try {
            check((int) handle(free, kind).invokeExact(object), kind.prefix() + "Destroy");
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    /** Sets an attribute from the low bytes of {@code value}. */
    void set(long object, LtAttribute attribute, long value) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment bytes = arena.allocate(ValueLayout.JAVA_LONG);
            bytes.set(ValueLayout.JAVA_LONG, 0, value);
            check(
                    (int) handle(set, attribute.kind())
                            .invokeExact(object, attribute.number(), bytes, (long) attribute.bytes()),
                    attribute.kind().prefix() + "SetAttribute " + attribute);
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    /** Value of an attribute. */
    long get(long object, LtAttribute attribute) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment bytes = arena.allocate(ValueLayout.JAVA_LONG);
            MemorySegment written = arena.allocate(ValueLayout.JAVA_LONG);
            check(
                    (int) handle(get, attribute.kind())
                            .invokeExact(object, attribute.number(), bytes, (long) attribute.bytes(), written),
                    attribute.kind().prefix() + "GetAttribute " + attribute);
            if (written.get(ValueLayout.JAVA_LONG, 0) != attribute.bytes()) {
                throw new IllegalStateException(attribute + " has " + written.get(ValueLayout.JAVA_LONG, 0) + " bytes");
            }
            return bytes.get(ValueLayout.JAVA_LONG, 0);
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    /**
     * Algorithms for a product, by the library's estimate, fastest first.
     *
     * @param results receives {@code wanted} results of {@link #RESULT_BYTES} each
     * @return their number; 0 when the library cannot compute the product
     */
    int heuristics(long handle, Descriptors of, long preference, int wanted, MemorySegment results) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment count = arena.allocate(ValueLayout.JAVA_INT);
            int code = (int) heuristic.invokeExact(
                    handle, of.product(), of.a(), of.b(), of.d(), of.d(), preference, wanted, results, count);
            if (code == NOT_SUPPORTED) {
                return 0;
            }
            check(code, "cublasLtMatmulAlgoGetHeuristic");
            return count.get(ValueLayout.JAVA_INT, 0);
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    /** Whether a cached algorithm is valid for this product, GPU and workspace. */
    boolean fits(long handle, Descriptors of, MemorySegment algorithm, long workspaceBytes) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment result = arena.allocate(RESULT_BYTES, 8);
            int code = (int)
                    checkAlgorithm.invokeExact(handle, of.product(), of.a(), of.b(), of.d(), of.d(), algorithm, result);
            return code == SUCCESS
                    && result.get(ValueLayout.JAVA_INT, RESULT_STATE) == SUCCESS
                    && result.get(ValueLayout.JAVA_LONG, RESULT_WORKSPACE) <= workspaceBytes;
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    /** Queues a product on a stream; reads d if beta is not zero. Addresses are device addresses. */
    void multiply(
            long handle,
            Descriptors of,
            MemorySegment alpha,
            long a,
            long b,
            MemorySegment beta,
            long d,
            MemorySegment algorithm,
            Place place) {
        try {
            check(
                    (int) matmul.invokeExact(
                            handle,
                            of.product(),
                            alpha,
                            a,
                            of.a(),
                            b,
                            of.b(),
                            beta,
                            d,
                            of.d(),
                            d,
                            of.d(),
                            algorithm,
                            place.workspace(),
                            place.workspaceBytes(),
                            place.stream()),
                    "cublasLtMatmul");
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    private static MethodHandle handle(Map<Kind, MethodHandle> handles, Kind kind) {
        return Objects.requireNonNull(handles.get(kind));
    }

    private void check(int code, String call) {
        if (code != SUCCESS) {
            throw new UnavailableException(
                    call + " failed: " + name(code),
                    library.path() + ", version " + versionText(),
                    "if other processes use the GPU, wait until they end; compute-sanitizer finds out-of-bounds"
                            + " accesses; or use --device cpu");
        }
    }

    /** {@code cublasStatus_t} by name. */
    static String name(int code) {
        return switch (code) {
            case 0 -> "CUBLAS_STATUS_SUCCESS";
            case 1 -> "CUBLAS_STATUS_NOT_INITIALIZED";
            case 3 -> "CUBLAS_STATUS_ALLOC_FAILED";
            case 7 -> "CUBLAS_STATUS_INVALID_VALUE";
            case 8 -> "CUBLAS_STATUS_ARCH_MISMATCH";
            case 11 -> "CUBLAS_STATUS_MAPPING_ERROR";
            case 13 -> "CUBLAS_STATUS_EXECUTION_FAILED";
            case 14 -> "CUBLAS_STATUS_INTERNAL_ERROR";
            case NOT_SUPPORTED -> "CUBLAS_STATUS_NOT_SUPPORTED";
            case 16 -> "CUBLAS_STATUS_LICENSE_ERROR";
            default -> "cublasStatus_t " + code;
        };
    }

    private static RuntimeException failed(Throwable e) {
        return e instanceof RuntimeException known ? known : LoadedLibrary.unexpected(e);
    }
}
