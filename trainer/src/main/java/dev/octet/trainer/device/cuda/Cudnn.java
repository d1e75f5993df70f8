package dev.octet.trainer.device.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.tensor.DType;
import dev.octet.trainer.device.cuda.CudnnAttribute.Kind;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;

/**
 * Binding of cuDNN's backend interface (cudnn_graph.h of cuDNN 9), as far as Octet calls it: descriptors that have attributes and are then finished. Descriptors,
 * handles and device addresses are passed as numbers. Descriptors need no GPU, nor do plans for properties of a GPU that are told; a handle and {@link #execute} do.
 */
final class Cudnn {
    /** Before 9.16, gradients for keys that are no multiple of 128 need a mask of padding around them. */
    static final long OLDEST = 91600;

    private static final int SUCCESS = 0;
    private static final int MOST_TEXT = 2048;

    private final LoadedLibrary library;
    private final long version;
    private final MethodHandle error;
    private final MethodHandle lastError;
    private final MethodHandle create;
    private final MethodHandle destroy;
    private final MethodHandle setStream;
    private final MethodHandle createDescriptor;
    private final MethodHandle destroyDescriptor;
    private final MethodHandle set;
    private final MethodHandle get;
    private final MethodHandle finish;
    private final MethodHandle execute;

    private Cudnn(LoadedLibrary library) {
        this.library = library;
        version = readVersion(library);
        error = library.handle("cudnnGetErrorString", FunctionDescriptor.of(ADDRESS, JAVA_INT));
        lastError = library.handle("cudnnGetLastErrorString", FunctionDescriptor.ofVoid(ADDRESS, JAVA_LONG));
        create = library.function("cudnnCreate", ADDRESS);
        destroy = library.function("cudnnDestroy", JAVA_LONG);
        setStream = library.function("cudnnSetStream", JAVA_LONG, JAVA_LONG);
        createDescriptor = library.function("cudnnBackendCreateDescriptor", JAVA_INT, ADDRESS);
        destroyDescriptor = library.function("cudnnBackendDestroyDescriptor", JAVA_LONG);
        set = library.function("cudnnBackendSetAttribute", JAVA_LONG, JAVA_INT, JAVA_INT, JAVA_LONG, ADDRESS);
        get = library.function("cudnnBackendGetAttribute", JAVA_LONG, JAVA_INT, JAVA_INT, JAVA_LONG, ADDRESS, ADDRESS);
        finish = library.function("cudnnBackendFinalize", JAVA_LONG);
        execute = library.function("cudnnBackendExecute", JAVA_LONG, JAVA_LONG, JAVA_LONG);
    }

    /**
     * Binds the library.
     *
     * @throws UnavailableException when it lacks a function or is too old
     */
    static Cudnn of(LoadedLibrary library) {
        Cudnn cudnn = new Cudnn(library);
        if (cudnn.version < OLDEST) {
            throw new UnavailableException(
                    "cuDNN " + cudnn.versionText() + " is too old: Octet needs 9.16 for attention",
                    library.path(),
                    library.library().remedy());
        }
        return cudnn;
    }

    private static long readVersion(LoadedLibrary library) {
        MethodHandle function = library.handle("cudnnGetVersion", FunctionDescriptor.of(JAVA_LONG));
        try {
            return (long) function.invokeExact();
        } catch (Throwable e) {
            throw LoadedLibrary.unexpected(e);
        }
    }

    /** Version as {@code 9.24.0}. */
    String versionText() {
        return version / 10000 + "." + version / 100 % 100 + "." + version % 100;
    }

    /** Path of the library. */
    String path() {
        return library.path();
    }

    /** {@code cudnnDataType_t} of an element type. */
    static int dataType(DType type) {
        return switch (type) {
            case F32 -> 0;
            case F16 -> 2;
            case I32 -> 4;
            case BF16 -> 9;
            case BOOL -> 11;
            default -> throw new IllegalArgumentException("no attention of " + type);
        };
    }

    /** Creates a handle for the thread's current context whose work goes to a stream. */
    long open(long stream) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment made = arena.allocate(JAVA_LONG);
            check((int) create.invokeExact(made), "cudnnCreate");
            long handle = made.get(JAVA_LONG, 0);
            check((int) setStream.invokeExact(handle, stream), "cudnnSetStream");
            return handle;
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    /** Destroys a handle. */
    void close(long handle) {
        try {
            check((int) destroy.invokeExact(handle), "cudnnDestroy");
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    /** Creates a descriptor. */
    long create(Kind kind) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment made = arena.allocate(JAVA_LONG);
            check((int) createDescriptor.invokeExact(kind.number(), made), "cudnnBackendCreateDescriptor " + kind);
            return made.get(JAVA_LONG, 0);
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    /** Frees a descriptor. */
    void free(long descriptor) {
        try {
            check((int) destroyDescriptor.invokeExact(descriptor), "cudnnBackendDestroyDescriptor");
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    /** Sets an attribute from the low bytes of values. */
    void set(long descriptor, CudnnAttribute attribute, long... values) {
        try (Arena arena = Arena.ofConfined()) {
            int width = attribute.type().bytes();
            MemorySegment bytes = arena.allocate(Math.max(1, (long) width * values.length), 8);
            for (int i = 0; i < values.length; i++) {
                put(bytes, width, i, values[i]);
            }
            check(
                    (int) set.invokeExact(
                            descriptor, attribute.number(), attribute.type().number(), (long) values.length, bytes),
                    "cudnnBackendSetAttribute " + attribute);
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    private static void put(MemorySegment bytes, int width, int i, long value) {
        switch (width) {
            case 1 -> bytes.setAtIndex(JAVA_BYTE, i, (byte) value);
            case 4 -> bytes.setAtIndex(JAVA_INT, i, Math.toIntExact(value));
            default -> bytes.setAtIndex(JAVA_LONG, i, value);
        }
    }

    /** Sets an attribute from a text. */
    void set(long descriptor, CudnnAttribute attribute, String text) {
        byte[] ascii = text.getBytes(StandardCharsets.US_ASCII);
        long[] values = new long[ascii.length];
        for (int i = 0; i < values.length; i++) {
            values[i] = ascii[i];
        }
        set(descriptor, attribute, values);
    }

    /** Number of elements of an attribute. */
    int count(long descriptor, CudnnAttribute attribute) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment count = arena.allocate(JAVA_LONG);
            check(read(descriptor, attribute, 0, count, MemorySegment.NULL), "cudnnBackendGetAttribute " + attribute);
            return Math.toIntExact(count.get(JAVA_LONG, 0));
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    /**
     * Elements of an attribute.
     *
     * @param into for an attribute of descriptors, those that receive them; else as many numbers as there may be
     */
    long[] get(long descriptor, CudnnAttribute attribute, long... into) {
        try (Arena arena = Arena.ofConfined()) {
            int width = attribute.type().bytes();
            MemorySegment count = arena.allocate(JAVA_LONG);
            MemorySegment bytes = arena.allocate(Math.max(1, (long) width * into.length), 8);
            for (int i = 0; i < into.length; i++) {
                put(bytes, width, i, into[i]);
            }
            check(read(descriptor, attribute, into.length, count, bytes), "cudnnBackendGetAttribute " + attribute);
            long[] values = new long[Math.toIntExact(Math.min(into.length, count.get(JAVA_LONG, 0)))];
            for (int i = 0; i < values.length; i++) {
                values[i] = switch (width) {
                    case 1 -> bytes.getAtIndex(JAVA_BYTE, i);
                    case 4 -> bytes.getAtIndex(JAVA_INT, i);
                    default -> bytes.getAtIndex(JAVA_LONG, i);
                };
            }
            return values;
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    private int read(long descriptor, CudnnAttribute attribute, long wanted, MemorySegment count, MemorySegment bytes)
            throws Throwable {
        return (int)
                get.invokeExact(descriptor, attribute.number(), attribute.type().number(), wanted, count, bytes);
    }

    /**
     * Finishes a descriptor: then its attributes are read, no longer set.
     *
     * @param what it is, for the message
     * @throws UnavailableException when the library refuses it, with its reason
     */
    void finish(long descriptor, String what) {
        try {
            check((int) finish.invokeExact(descriptor), "cudnnBackendFinalize of " + what);
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    /** Queues a plan's work, with the addresses of a variant pack, on the handle's stream. */
    void execute(long handle, long plan, long pack) {
        try {
            check((int) execute.invokeExact(handle, plan, pack), "cudnnBackendExecute");
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    private void check(int code, String call) throws Throwable {
        if (code == SUCCESS) {
            return;
        }
        String name =
                ((MemorySegment) error.invokeExact(code)).reinterpret(MOST_TEXT).getString(0);
        String reason;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment text = arena.allocate(MOST_TEXT);
            lastError.invokeExact(text, (long) MOST_TEXT);
            reason = text.getString(0).strip().replaceAll("\\s+", " ");
        }
        throw new UnavailableException(
                call + " failed: " + name + " (" + code + ")" + (reason.isEmpty() ? "" : ": " + reason),
                library.path() + ", version " + versionText(),
                "leave octet.cuda.attention at its default, and report it");
    }

    private static RuntimeException failed(Throwable e) {
        return e instanceof RuntimeException known ? known : LoadedLibrary.unexpected(e);
    }
}
