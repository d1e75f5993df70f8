package dev.octet.quant.number;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;

/** How a processor adds up products of integers of 8 bits, which decides whether they can saturate in kernels such as ONNX Runtime's. */
public enum IntegerUnit {
    /** AVX-512 VNNI, AVX-VNNI or Arm: in 32 bits; nothing saturates. */
    WIDE("in 32 bits"),
    /** AVX2 and AVX-512 without VNNI: two products in 16 bits, which can saturate ({@code vpmaddubsw}). */
    PAIRS("two in 16 bits, which can saturate"),
    /** Unknown: a system that does not tell. */
    UNKNOWN("unknown");

    private static final Path CPU_INFO = Path.of("/proc/cpuinfo");

    private final String text;

    IntegerUnit(String text) {
        this.text = text;
    }

    /** In words, after "adds products". */
    public String text() {
        return text;
    }

    /** That of the processor this runs on, as Linux tells it. */
    public static IntegerUnit ofThisMachine() {
        List<String> lines = List.of();
        if (Files.isReadable(CPU_INFO)) {
            try {
                lines = Files.readAllLines(CPU_INFO, StandardCharsets.ISO_8859_1);
            } catch (IOException _) {
                return of(System.getProperty("os.arch"), lines); // what is not told is unknown
            }
        }
        return of(System.getProperty("os.arch"), lines);
    }

    /**
     * That of a processor.
     *
     * @param architecture as Java calls it
     * @param cpuInfo the lines of Linux's {@code /proc/cpuinfo}; none where there is no such file
     */
    static IntegerUnit of(String architecture, List<String> cpuInfo) {
        if (architecture.toLowerCase(Locale.ROOT).matches("aarch64|arm64")) {
            return WIDE;
        }
        Optional<Set<String>> flags = cpuInfo.stream()
                .filter(line -> line.startsWith("flags"))
                .findFirst()
                .map(line -> new HashSet<>(Arrays.asList(
                        line.substring(line.indexOf(':') + 1).strip().split("\\s+"))));
        return flags.map(f -> f.contains("avx512_vnni") || f.contains("avx_vnni")
                        ? WIDE
                        : f.contains("avx2") ? PAIRS : UNKNOWN)
                .orElse(UNKNOWN);
    }
}
