package dev.octet.pipeline.plan;

import dev.octet.formats.error.InvalidOptionException;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

/**
 * A kind of accelerator, as its vendor describes it.
 *
 * @param name as {@code --hardware} takes it
 * @param memory bytes of one
 * @param bf16 operations a second of dense products in BF16 that are added in F32
 * @param fp8 the same in FP8; 0 where it has none
 * @param bandwidth bytes a second of its memory
 * @param link bytes a second that one sends to the others of its node, and receives from them at the same time
 * @param node how many are joined by that link
 * @param network bytes a second that one sends to other nodes; what the vendor's reference system has
 * @param source where the numbers are from
 */
public record Accelerator(
        String name,
        long memory,
        double bf16,
        double fp8,
        double bandwidth,
        double link,
        int node,
        double network,
        String source) {
    private static final long GB = 1_000_000_000L;
    private static final double TERA = 1e12;

    /** All that are known. Data sheets that quote products with two of four weights zero are halved. */
    public static final List<Accelerator> ALL = List.of(
            of("A100-40GB", 40, 312, 0, 1.555, 300, 8, 25, "NVIDIA A100 data sheet (2022), SXM; DGX A100 data sheet"),
            of("A100", 80, 312, 0, 2.039, 300, 8, 25, "NVIDIA A100 data sheet (2022), 80 GB SXM; DGX A100 data sheet"),
            of("H100", 80, 989.4, 1978.9, 3.35, 450, 8, 50, "NVIDIA H100 data sheet (2024), SXM; DGX H100 data sheet"),
            of("H100-PCIe", 80, 756, 1513, 2.0, 64, 1, 25, "NVIDIA H100 PCIe product brief PB-11133 (2022)"),
            of("H200", 141, 989.4, 1978.9, 4.8, 450, 8, 50, "NVIDIA H200 data sheet (2024), SXM; DGX H200 data sheet"),
            of("B200", 180, 2250, 4500, 8.0, 900, 8, 50, "NVIDIA DGX B200 data sheet (2024), an eighth of it"),
            of("GB200", 186, 2500, 5000, 8.0, 900, 72, 50, "NVIDIA GB200 NVL72 data sheet (2024), one of 72"),
            of("L40S", 48, 362.05, 733, 0.864, 32, 1, 25, "NVIDIA L40S data sheet (2023)"),
            of("L4", 24, 121, 242.5, 0.3, 32, 1, 12.5, "NVIDIA L4 data sheet (2023)"),
            of("RTX-4090", 24, 165.2, 330.3, 1.008, 32, 1, 12.5, "NVIDIA Ada GPU architecture paper (2023), F32 sums"),
            of("MI300X", 192, 1307.4, 2614.9, 5.3, 448, 8, 50, "AMD Instinct MI300X data sheet (2023)"));

    /**
     * @param memory in GB
     * @param bf16 in TFLOP/s
     * @param fp8 in TFLOP/s
     * @param bandwidth in TB/s
     * @param link in GB/s, one way
     * @param network in GB/s, one way
     */
    private static Accelerator of(
            String name,
            long memory,
            double bf16,
            double fp8,
            double bandwidth,
            double link,
            int node,
            double network,
            String source) {
        return new Accelerator(
                name, memory * GB, bf16 * TERA, fp8 * TERA, bandwidth * TERA, link * GB, node, network * GB, source);
    }

    /**
     * The accelerator of a name, in any case.
     *
     * @throws InvalidOptionException for an unknown name; the message lists those that are known
     */
    public static Accelerator named(String name, String where) {
        return ALL.stream()
                .filter(a -> a.name().equalsIgnoreCase(name))
                .findFirst()
                .orElseThrow(() -> new InvalidOptionException(
                        "unknown hardware '" + name + "'", where, "known are " + names() + ", and this"));
    }

    /** All names, as a list. */
    public static String names() {
        return ALL.stream().map(Accelerator::name).collect(Collectors.joining(", "));
    }

    /** Operations a second of dense products. */
    double peak(ProductType type) {
        return type == ProductType.FP8 && fp8 > 0 ? fp8 : type == ProductType.FP32 ? bf16 / F32_SHARE : bf16;
    }

    /** Products of F32 run as TF32, at half the rate of BF16 on all of them. */
    private static final double F32_SHARE = 2;

    /** Number types of a model's Linears. */
    public enum ProductType {
        /** F32, which accelerators multiply as TF32. */
        FP32,
        /** BF16 or F16. */
        BF16,
        /** E4M3 and E5M2; attention and the head stay in BF16. */
        FP8;

        /** For people. */
        public String text() {
            return name().toLowerCase(Locale.ROOT);
        }
    }
}
