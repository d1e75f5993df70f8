package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.kernel.CudaSource;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

/** NVIDIA's run-time compiler (NVRTC documentation, section 3). It needs neither a GPU nor a driver. */
final class Nvrtc implements KernelCompiler {
    private static final int SUCCESS = 0;
    private static final int COMPILATION = 6; // NVRTC_ERROR_COMPILATION

    private final LoadedLibrary library;
    private final MethodHandle createProgram;
    private final MethodHandle compileProgram;
    private final MethodHandle destroyProgram;
    private final MethodHandle errorString;
    private final Getter log;
    private final Getter ptx;
    private final Getter cubin;
    private final String version;
    private final Set<Integer> architectures;

    /** The two functions that give a text: its size, then the bytes. */
    private record Getter(String name, MethodHandle size, MethodHandle bytes) {}

    private Nvrtc(LoadedLibrary library) {
        this.library = library;
        createProgram = library.function(
                "nvrtcCreateProgram",
                ValueLayout.ADDRESS,
                ValueLayout.ADDRESS,
                ValueLayout.ADDRESS,
                ValueLayout.JAVA_INT,
                ValueLayout.ADDRESS,
                ValueLayout.ADDRESS);
        compileProgram =
                library.function("nvrtcCompileProgram", ValueLayout.ADDRESS, ValueLayout.JAVA_INT, ValueLayout.ADDRESS);
        destroyProgram = library.function("nvrtcDestroyProgram", ValueLayout.ADDRESS);
        errorString =
                library.handle("nvrtcGetErrorString", FunctionDescriptor.of(ValueLayout.ADDRESS, ValueLayout.JAVA_INT));
        log = getter("nvrtcGetProgramLog");
        ptx = getter("nvrtcGetPTX");
        cubin = getter("nvrtcGetCUBIN");
        version = readVersion();
        architectures = readArchitectures();
    }

    /**
     * Binds the library.
     *
     * @throws UnavailableException when it lacks a function
     */
    static Nvrtc of(LoadedLibrary library) {
        return new Nvrtc(library);
    }

    private Getter getter(String name) {
        return new Getter(
                name,
                library.function(name + "Size", ValueLayout.ADDRESS, ValueLayout.ADDRESS),
                library.function(name, ValueLayout.ADDRESS, ValueLayout.ADDRESS));
    }

    private String readVersion() {
        MethodHandle function = library.function("nvrtcVersion", ValueLayout.ADDRESS, ValueLayout.ADDRESS);
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment numbers = arena.allocate(8);
            check((int) function.invokeExact(numbers, numbers.asSlice(4)), "nvrtcVersion");
            return "nvrtc " + numbers.get(ValueLayout.JAVA_INT, 0) + "." + numbers.get(ValueLayout.JAVA_INT, 4);
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    private Set<Integer> readArchitectures() {
        MethodHandle count = library.function("nvrtcGetNumSupportedArchs", ValueLayout.ADDRESS);
        MethodHandle list = library.function("nvrtcGetSupportedArchs", ValueLayout.ADDRESS);
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment number = arena.allocate(4);
            check((int) count.invokeExact(number), "nvrtcGetNumSupportedArchs");
            MemorySegment all = arena.allocate(ValueLayout.JAVA_INT, number.get(ValueLayout.JAVA_INT, 0));
            check((int) list.invokeExact(all), "nvrtcGetSupportedArchs");
            Set<Integer> set = new TreeSet<>();
            for (int a : all.toArray(ValueLayout.JAVA_INT)) {
                set.add(a);
            }
            return set;
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    @Override
    public String version() {
        return version;
    }

    @Override
    public Set<Integer> architectures() {
        return architectures;
    }

    @Override
    public byte[] compile(CudaSource source, ComputeCapability architecture) throws CompileException {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment handle = arena.allocate(ValueLayout.ADDRESS);
            check(
                    (int) createProgram.invokeExact(
                            handle,
                            arena.allocateFrom(source.text()),
                            arena.allocateFrom(source.file()),
                            1,
                            strings(arena, List.of(CudaSource.prelude())),
                            strings(arena, List.of(CudaSource.PRELUDE))),
                    "nvrtcCreateProgram");
            MemorySegment program = handle.get(ValueLayout.ADDRESS, 0);
            try {
                List<String> options = new ArrayList<>(List.of("--gpu-architecture=" + architecture.option()));
                options.addAll(OPTIONS);
                options.addAll(KernelCompiler.macros(source));
                int code = (int) compileProgram.invokeExact(program, options.size(), strings(arena, options));
                if (code == COMPILATION) {
                    byte[] text = read(arena, program, log);
                    throw new CompileException(source, version, architecture, text(text));
                }
                check(code, "nvrtcCompileProgram");
                return read(arena, program, architecture.ptx() ? ptx : cubin);
            } finally {
                check((int) destroyProgram.invokeExact(handle), "nvrtcDestroyProgram");
            }
        } catch (CompileException e) {
            throw e;
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    /** Without the zero byte at its end. */
    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8).replace("\0", "");
    }

    private byte[] read(Arena arena, MemorySegment program, Getter getter) {
        try {
            MemorySegment size = arena.allocate(ValueLayout.JAVA_LONG);
            check((int) getter.size().invokeExact(program, size), getter.name() + "Size");
            MemorySegment bytes = arena.allocate(Math.max(1, size.get(ValueLayout.JAVA_LONG, 0)));
            check((int) getter.bytes().invokeExact(program, bytes), getter.name());
            return bytes.toArray(ValueLayout.JAVA_BYTE);
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    private static MemorySegment strings(Arena arena, List<String> texts) {
        MemorySegment array = arena.allocate(ValueLayout.ADDRESS, texts.size());
        for (int i = 0; i < texts.size(); i++) {
            array.setAtIndex(ValueLayout.ADDRESS, i, arena.allocateFrom(texts.get(i)));
        }
        return array;
    }

    private void check(int code, String call) {
        if (code != SUCCESS) {
            throw new UnavailableException(
                    call + " failed: " + error(code),
                    library.path(),
                    "the files of this CUDA may not belong together (libnvrtc-builtins lies next to libnvrtc); "
                            + library.library().remedy());
        }
    }

    private String error(int code) {
        try {
            MemorySegment text = (MemorySegment) errorString.invokeExact(code);
            return text.equals(MemorySegment.NULL)
                    ? "code " + code
                    : text.reinterpret(Integer.MAX_VALUE).getString(0);
        } catch (Throwable e) {
            throw failed(e);
        }
    }

    private static RuntimeException failed(Throwable e) {
        return e instanceof RuntimeException known ? known : LoadedLibrary.unexpected(e);
    }
}
