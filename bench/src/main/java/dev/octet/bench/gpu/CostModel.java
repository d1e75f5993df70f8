package dev.octet.bench.gpu;

import dev.octet.bench.gpu.KernelTraffic.Traffic;
import dev.octet.bench.gpu.RecordedWork.Attention;
import dev.octet.bench.gpu.RecordedWork.Kernel;
import dev.octet.bench.gpu.RecordedWork.Product;
import dev.octet.bench.gpu.RecordedWork.Transfer;
import dev.octet.trainer.kernel.CudaProduct;
import java.util.List;
import java.util.Map;

/** How long recorded works take on an H200, by {@link Assumptions}. */
final class CostModel {
    private static final double GIGA = 1e3; // bytes a microsecond
    private static final double TERA = 1e6; // operations a microsecond

    private CostModel() {}

    /** Microseconds of a work by itself, without its launch. */
    static double micros(RecordedWork work) {
        return switch (work) {
            case Product p -> product(p);
            case Attention a -> a.attention().flops() / (Assumptions.cudnnTeraflops(a.attention()) * TERA);
            case Kernel k -> k.name().startsWith("flash_") ? attention(k) : kernel(k);
            case Transfer t ->
                t.bytes()
                        / (t.name().contains("Hto") || t.name().contains("DtoH")
                                ? Assumptions.UPLOAD_GIGABYTES * GIGA
                                : Assumptions.COPY_GIGABYTES * GIGA);
        };
    }

    /** Microseconds of a step: its works one behind the other as a graph, the batch copied before. */
    static double stepMicros(RecordedStep step) {
        double micros = 0;
        for (RecordedWork work : step.works()) {
            micros += micros(work) + Assumptions.GAP_MICROS;
            if (work instanceof Transfer t && t.name().contains("Hto")) {
                micros += t.bytes() / (Assumptions.FEED_GIGABYTES * GIGA);
            }
        }
        return micros;
    }

    private static double product(Product work) {
        CudaProduct p = work.product();
        double bytes = p.bytes() / (Assumptions.COPY_GIGABYTES * GIGA);
        if (!work.isAligned()) {
            return p.flops() / (Assumptions.UNALIGNED_TERAFLOPS * TERA) + bytes;
        }
        return p.isFp8()
                ? p.flops() * (1 + Assumptions.FP8_LOST_SUM / p.k()) / (fp8Teraflops(p) * TERA)
                        + Assumptions.FP8_SHARE_OF_BYTES * bytes
                : p.flops() / (Assumptions.BF16_TERAFLOPS * TERA) + Assumptions.BF16_SHARE_OF_BYTES * bytes;
    }

    private static double fp8Teraflops(CudaProduct p) {
        return p.scaleMode().isOfBlocks() ? Assumptions.FP8_BLOCKS_TERAFLOPS : Assumptions.FP8_TERAFLOPS;
    }

    private static double kernel(Kernel kernel) {
        Traffic traffic = KernelTraffic.of(kernel)
                .orElseThrow(() -> new IllegalStateException(
                        "what " + kernel.name() + " moves is not known: add a row to KernelTraffic"));
        return traffic.micros() + traffic.bytes() / (Assumptions.COPY_GIGABYTES * GIGA * Assumptions.share(kernel));
    }

    /** Products of queries by keys on whole tiles: two forward, three for the queries' gradient, four for the keys'. */
    private static double attention(Kernel kernel) {
        Map<String, String> macros = kernel.source().defines();
        List<String> names = kernel.parameters().stream()
                .map(KernelSignature.Parameter::name)
                .toList();
        double queries = number(kernel, names, "queries");
        double keys = number(kernel, names, "keys");
        double heads = number(kernel, names, "heads");
        double warps = kernel.grid().threads() / 32.0;
        double block;
        double rows;
        double passing;
        int products;
        switch (kernel.name()) {
            case "flash_forward" -> {
                block = 16 * warps * macro(macros, "M_TILES");
                rows = tiles(queries, block);
                passing = tiles(keys, macro(macros, "KEYS"));
                products = 2;
            }
            case "flash_queries" -> {
                block = 16 * warps * macro(macros, "QUERY_TILES");
                rows = tiles(queries, block);
                passing = tiles(keys, macro(macros, "BACK_KEYS"));
                products = 3;
            }
            default -> {
                block = 16 * warps * macro(macros, "KEY_TILES");
                rows = tiles(keys, block);
                passing = tiles(queries, macro(macros, "QUERIES"));
                products = 4;
            }
        }
        boolean causal = macro(macros, "CAUSAL") == 1;
        // half of the tiles, and those on the diagonal whole
        double share = causal ? 0.5 + block / (2 * queries) : 1;
        double flops = 2.0
                * products
                * rows
                * passing
                * share
                * macro(macros, "HEAD")
                * heads
                * kernel.grid().z();
        boolean byQuery = macro(macros, "MASKED") == 1 && macro(macros, "KEYWISE") == 0;
        return flops / (Assumptions.attentionTeraflops(kernel.name(), byQuery) * TERA);
    }

    private static double tiles(double length, double tile) {
        return Math.ceil(length / tile) * tile;
    }

    private static double macro(Map<String, String> macros, String name) {
        return Double.parseDouble(macros.get(name));
    }

    private static double number(Kernel kernel, List<String> names, String name) {
        return ((Number) kernel.arguments().get(names.indexOf(name))).doubleValue();
    }
}
