package dev.octet.trainer.kernel;

import dev.octet.trainer.kernel.CudaStream.Grid;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * A launch of a kernel with many arguments, each named as in the kernel: {@code cuda.kernel(source, "norm_weights", grid).pointer("pieces",
 * at).value("count", pieces).launch()}. They are passed in the order in which they are named here. Where assertions are enabled, the names are
 * held against the source.
 */
public final class CudaLaunch {
    private final CudaStream cuda;
    private final CudaSource source;
    private final String kernel;
    private final Grid grid;
    private final List<String> names = new ArrayList<>();
    private final List<Object> arguments = new ArrayList<>();

    CudaLaunch(CudaStream cuda, CudaSource source, String kernel, Grid grid) {
        this.cuda = cuda;
        this.source = source;
        this.kernel = kernel;
        this.grid = grid;
    }

    private CudaLaunch add(String name, Object argument) {
        names.add(name);
        arguments.add(argument);
        return this;
    }

    /** The elements of a tensor; a null pointer when it is absent. */
    public CudaLaunch pointer(String name, @Nullable CudaTensor tensor) {
        return add(name, tensor == null ? (Object) 0L : tensor);
    }

    /** An address in device memory; 0 when what lies there is absent. */
    public CudaLaunch pointer(String name, long address) {
        return add(name, address);
    }

    /** A tensor whose element type the kernel learns when it runs: the number of the type ({@link CudaSource#code}), then the elements. */
    public CudaLaunch typed(String typeName, String name, CudaTensor tensor) {
        return value(typeName, CudaSource.code(tensor.dtype())).pointer(name, tensor);
    }

    /** As {@link #typed(String, String, CudaTensor)}; type 0 and a null pointer when the tensor is absent. */
    public CudaLaunch typedOrAbsent(String typeName, String name, @Nullable CudaTensor tensor) {
        return tensor == null ? value(typeName, 0).pointer(name, 0L) : typed(typeName, name, tensor);
    }

    /** A 32-bit integer. */
    public CudaLaunch value(String name, int value) {
        return add(name, value);
    }

    /** A 64-bit integer. */
    public CudaLaunch value(String name, long value) {
        return add(name, value);
    }

    /** A number in F32. */
    public CudaLaunch value(String name, float value) {
        return add(name, value);
    }

    /** A number in F64. */
    public CudaLaunch value(String name, double value) {
        return add(name, value);
    }

    /** 1 or 0 as a 32-bit integer. */
    public CudaLaunch flag(String name, boolean value) {
        return add(name, value ? 1 : 0);
    }

    /** Writes the launch. */
    public void launch() {
        assert namesFit() : kernel + " of " + source + " does not have the arguments " + names;
        cuda.launch(source, kernel, grid, arguments.toArray());
    }

    /** Whether the kernel's parameters have these names; true where the source does not show them. */
    private boolean namesFit() {
        String text = source.text().replaceAll("\\s*\\\\\n\\s*", " ");
        Matcher m = Pattern.compile("KERNEL\\((\\w+)(##\\w+)?,\\s*\\w+,\\s*\\(([^()]*)\\)")
                .matcher(text);
        boolean isMade = false;
        boolean fits = false;
        while (m.find()) {
            boolean exact = m.group(2) == null && kernel.equals(m.group(1));
            if (exact) {
                return fit(m.group(3));
            }
            if (m.group(2) != null && kernel.startsWith(m.group(1))) {
                isMade = true;
                fits |= fit(m.group(3));
            }
        }
        return fits || !isMade;
    }

    /** Whether parameters have these names; true where a macro stands for some of them. */
    private boolean fit(String parameters) {
        List<String> theirs = new ArrayList<>();
        for (String parameter : parameters.split(",", -1)) {
            String[] words = parameter.strip().split("[\\s*]+", -1);
            if (words.length < 2) {
                return true;
            }
            theirs.add(words[words.length - 1]);
        }
        return theirs.equals(names);
    }
}
