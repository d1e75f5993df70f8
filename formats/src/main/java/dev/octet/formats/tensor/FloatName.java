package dev.octet.formats.tensor;

import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;

/** What people call the float types that models are computed and stored in. Octet writes {@link #of(DType)} and reads all others too. */
public enum FloatName {
    /** IEEE single precision. */
    FP32(DType.F32, "f32 float32 float single"),
    /** The upper half of single precision. */
    BF16(DType.BF16, "bfloat16"),
    /** IEEE half precision. */
    FP16(DType.F16, "f16 float16 half");

    /** What names in Python start with: {@code torch.float16}, {@code jnp.bfloat16}. */
    private static final List<String> PREFIXES = List.of("torch.", "np.", "jnp.");

    private final DType type;
    /** Other spellings, with spaces between. */
    private final String others;

    FloatName(DType type, String others) {
        this.type = type;
        this.others = others;
    }

    /** The spelling in help, configurations and messages: {@code fp32}, {@code bf16}, {@code fp16}. */
    public String text() {
        return name().toLowerCase(Locale.ROOT);
    }

    /** The number type that it names. */
    public DType type() {
        return type;
    }

    /** The name of a number type; empty unless it is F32, BF16 or F16. */
    public static Optional<FloatName> of(DType type) {
        return List.of(values()).stream().filter(n -> n.type == type).findFirst();
    }

    /** What {@code typed} names in any of its spellings, upper or lower case. */
    public static Optional<FloatName> of(String typed) {
        String lower = typed.toLowerCase(Locale.ROOT);
        String word = PREFIXES.stream()
                .filter(lower::startsWith)
                .findFirst()
                .map(p -> lower.substring(p.length()))
                .orElse(lower);
        return List.of(values()).stream()
                .filter(n ->
                        n.text().equals(word) || List.of(n.others.split(" ")).contains(word))
                .findFirst();
    }

    /** Octet's spelling of {@code typed} where it names one of these types, else {@code typed} itself. */
    public static String normal(String typed) {
        return of(typed).map(FloatName::text).orElse(typed);
    }

    /** The types by the spelling in help. */
    public static Map<String, DType> types() {
        return List.of(values()).stream().collect(Collectors.toUnmodifiableMap(FloatName::text, FloatName::type));
    }
}
