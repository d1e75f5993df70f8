package dev.octet.formats.gguf;

import java.util.Arrays;
import java.util.Optional;

/**
 * The mix of types that the writer of a file aimed at: {@code general.file_type}. Most matrices have the type of that name; of K mixes (S, M, L)
 * some are larger. Source: llama.cpp, include/llama.h (enum llama_ftype).
 */
public enum GgufFileType {
    F32(0),
    F16(1),
    Q4_0(2),
    Q4_1(3),
    Q8_0(7),
    Q5_0(8),
    Q5_1(9),
    Q2_K(10),
    Q3_K_S(11),
    Q3_K_M(12),
    Q3_K_L(13),
    Q4_K_S(14),
    Q4_K_M(15),
    Q5_K_S(16),
    Q5_K_M(17),
    Q6_K(18),
    IQ2_XXS(19),
    IQ2_XS(20),
    Q2_K_S(21),
    IQ3_XS(22),
    IQ3_XXS(23),
    IQ1_S(24),
    IQ4_NL(25),
    IQ3_S(26),
    IQ3_M(27),
    IQ2_S(28),
    IQ2_M(29),
    IQ4_XS(30),
    IQ1_M(31),
    BF16(32),
    TQ1_0(36),
    TQ2_0(37),
    MXFP4(38),
    NVFP4(39),
    Q1_0(40);

    /** The key that has its number. */
    public static final String KEY = "general.file_type";

    private final int id;

    GgufFileType(int id) {
        this.id = id;
    }

    /** Its number in files. */
    public int id() {
        return id;
    }

    /** The one with this number; empty for one that is not known. */
    public static Optional<GgufFileType> of(long id) {
        return Arrays.stream(values()).filter(t -> t.id == id).findFirst();
    }

    /** The one of files whose matrices are of a type; empty where llama.cpp has none for it. */
    public static Optional<GgufFileType> of(GgufType type) {
        return Arrays.stream(values()).filter(t -> t.name().equals(type.name())).findFirst();
    }
}
