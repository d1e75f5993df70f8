package dev.octet.trainer.kernel;

import dev.octet.formats.tensor.DType;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A CUDA C++ source in the resources. It includes only {@code octet.cuh}, so it compiles without CUDA headers.
 *
 * @param owner a class in the same resource folder
 * @param file its name
 * @param defines macros it is compiled with, by name
 * @param included what its line {@link #INCLUDE} stands for: C++ that its twin writes; empty where there is no such line
 */
public record CudaSource(Class<?> owner, String file, Map<String, String> defines, String included) {
    /** What every source includes. */
    public static final String PRELUDE = "octet.cuh";

    /** The line that {@link #included} takes the place of. */
    public static final String INCLUDE = "#include \"functions.cuh\"";

    /** Types at the end of a kernel's name. */
    private static final Pattern TYPES = Pattern.compile(
            "_(?:(?<code>e4m3|e5m2)_(?<decoded>f32|bf16|f16)|(?<float>f32|bf16|f16)(?:_(?<coded>e4m3|e5m2))?)$");

    private static final Map<Place, Boolean> IN_PARTS = new ConcurrentHashMap<>();

    private record Place(Class<?> owner, String file) {}

    public CudaSource {
        // sorted: the cache key must not depend on the order
        defines = java.util.Collections.unmodifiableMap(new TreeMap<>(defines));
    }

    /** A source without macros. */
    public static CudaSource of(Class<?> owner, String file) {
        return new CudaSource(owner, file, Map.of(), "");
    }

    /** This source with one more macro. */
    public CudaSource define(String name, Object value) {
        Map<String, String> more = new TreeMap<>(defines);
        more.put(name, value.toString());
        return with(more);
    }

    /** The same with these macros alone. */
    public CudaSource with(Map<String, String> macros) {
        return new CudaSource(owner, file, macros, included);
    }

    /** The same with text in place of its line {@link #INCLUDE}. */
    public CudaSource including(String text) {
        return new CudaSource(owner, file, defines, text);
    }

    /**
     * The part of this source that has a kernel, by the types in the kernel's name: {@code cast_amax_bf16_e4m3} is in the part of BF16 and E4M3.
     * The source itself when it is not made of parts, that is, when none of its variants is {@code PART_REST}.
     */
    public CudaSource part(String kernel) {
        if (!defines.isEmpty()
                || !IN_PARTS.computeIfAbsent(new Place(owner, file), p -> text().contains("PART_REST=1"))) {
            return this;
        }
        Matcher types = TYPES.matcher(kernel);
        if (!types.find()) {
            return define("PART_REST", 1);
        }
        boolean codesFirst = types.group("code") != null;
        CudaSource part = define("PART_FLOAT", types.group(codesFirst ? "decoded" : "float"));
        String codes = types.group(codesFirst ? "code" : "coded");
        return codes == null ? part : part.define("PART_CODE", codes);
    }

    /** The text of the file, with what it includes. */
    public String text() {
        return text(owner, file).replace(INCLUDE, included);
    }

    /** The text of {@link #PRELUDE}. */
    public static String prelude() {
        return text(CudaSource.class, PRELUDE);
    }

    /**
     * Suffix of kernel names for an element type: {@code f32}, {@code bf16}, {@code f16}, {@code f64}, {@code i64}, {@code bool},
     * {@code e4m3}.
     */
    public static String suffix(DType type) {
        return switch (type) {
            case F8_E4M3FN -> "e4m3";
            case F8_E5M2 -> "e5m2";
            default -> type.name().toLowerCase(Locale.ROOT);
        };
    }

    /** Number of an element type for kernels that take the type as an argument ({@code read_number} in the prelude). */
    public static int code(DType type) {
        return switch (type) {
            case F32 -> 0;
            case BF16 -> 1;
            case F16 -> 2;
            case F64 -> 3;
            case I64 -> 4;
            case I32 -> 5;
            case I8 -> 6;
            case BOOL, U8 -> 7;
            default -> throw new IllegalStateException(type + " is not an element type of kernels");
        };
    }

    /**
     * Name of an element type in kernel code, as in {@code octet.cuh}: {@code f32}, {@code i64}, {@code e4m3}; {@code boolean} for BOOL.
     */
    public static String type(DType type) {
        return type == DType.BOOL ? "boolean" : suffix(type);
    }

    private static String text(Class<?> owner, String file) {
        try (InputStream in = owner.getResourceAsStream(file)) {
            if (in == null) {
                throw new IllegalStateException("no resource " + file + " next to " + owner.getName());
            }
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException("resource " + file + " next to " + owner.getName(), e);
        }
    }

    /** Format: {@code gelu.cu HEAD=64}. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder(file);
        defines.forEach(
                (name, value) -> text.append(' ').append(name).append('=').append(value));
        return text.toString();
    }
}
