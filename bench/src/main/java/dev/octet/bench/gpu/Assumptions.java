package dev.octet.bench.gpu;

import dev.octet.bench.gpu.RecordedWork.Kernel;
import dev.octet.trainer.kernel.CudaAttention;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * All that the cost model takes for granted of an H200; what kernels move is in {@link KernelTraffic}. Numbers marked M come from
 * {@code bench/results/2026-11-28-h200-gpu.json}, measured at 40531dab (products, copies and kernels that have not changed since); E are estimates for kernels
 * that no GPU has run as they are.
 */
final class Assumptions {
    private Assumptions() {}

    /** M: gigabytes a second, read and written, of a copy within the device. */
    static final double COPY_GIGABYTES = 4300;

    /** M: operations a second of an 8192-sized product of noise. */
    static final double LIMIT_BF16_TERAFLOPS = 670;

    static final double LIMIT_FP8_TERAFLOPS = 1400;

    /**
     * M: a product takes the time of its operations at this rate and a share of the time that its bytes take, because neither hides the other wholly. Above the limits of the
     * large product, which the power limit slows: a step leaves pauses.
     */
    static final double BF16_TERAFLOPS = 800;

    static final double BF16_SHARE_OF_BYTES = 0.4;

    static final double FP8_TERAFLOPS = 1600;

    static final double FP8_SHARE_OF_BYTES = 0.75;

    /** M: summed elements that a product of codes loses on its way in and out of a tile: short sums do not reach the rate. */
    static final double FP8_LOST_SUM = 160;

    /**
     * P, published and not measured by us: of products whose scales belong to blocks of 128, which are applied to parts of sums. 1140 were measured by others on an H100 with
     * cublasLt 13.1 (a weight in squares, activations in runs).
     */
    static final double FP8_BLOCKS_TERAFLOPS = 1140;

    /** M: of products with rows that are not multiples of 16 bytes. */
    static final double UNALIGNED_TERAFLOPS = 140;

    /**
     * Operations a second of attention on tiles, those that padding and masks waste included. By query: M, as GPT-2 was measured. Otherwise E: ViT-Huge without
     * a mask was measured at 157, 220 and 174; since then tiles are larger, and keys and values have two buffers.
     */
    static double attentionTeraflops(String kernel, boolean byQuery) {
        return switch (kernel) {
            case "flash_forward" -> byQuery ? 98 : 190;
            case "flash_queries" -> byQuery ? 140 : 240;
            default -> byQuery ? 130 : 200;
        };
    }

    /**
     * P, published and not measured by us: operations a second of cuDNN's attention, causal ones counted half. Heads up to 96: the least that FlashAttention-3's
     * page shows for cuDNN on an H100 with heads of 64 and rows of 512 to 1024. Larger ones: heads of 128, rows of 2048, causal, on an H200 by cuDNN 9.19
     * (cudnn-frontend, benchmark/sdpa_benchmark_training). What deterministic gradients cost is in neither.
     */
    static double cudnnTeraflops(CudaAttention attention) {
        if (attention.shape().size() <= 96) {
            return attention.isBackward() ? 270 : 290;
        }
        return attention.isBackward() ? 370 : 484;
    }

    /** Share of the copy's rate that a kernel reaches, the first pattern that matches its name counts. */
    private static final Map<Pattern, Double> SHARES = shares();

    private static Map<Pattern, Double> shares() {
        Map<Pattern, Double> shares = new LinkedHashMap<>();
        // M
        shares.put(Pattern.compile("adam_.*|square_sum_parts.*"), 0.95);
        shares.put(Pattern.compile("accumulate_.*"), 0.9);
        shares.put(Pattern.compile("box_copy_.*"), 0.65);
        shares.put(Pattern.compile("cross_entropy_forward"), 0.45);
        shares.put(Pattern.compile("cross_entropy_backward"), 0.75);
        shares.put(Pattern.compile("column_sums_.*"), 0.65);
        shares.put(Pattern.compile("binary_fold"), 0.14);
        shares.put(Pattern.compile("conv_.*|transpose_tiles.*"), 0.4);
        shares.put(Pattern.compile("norm_forward(_fused)?"), 0.75);
        // E: transposed while they are cast; an issue of instructions as much as of bytes
        shares.put(Pattern.compile("gelu_gradient_transpose.*"), 0.5);
        shares.put(Pattern.compile("gated_gradient_transpose.*"), 0.45);
        shares.put(Pattern.compile("(gated|score_gradient)_transpose.*"), 0.5);
        shares.put(Pattern.compile("(gelu|cast|product|encode)_transpose.*"), 0.55);
        shares.put(Pattern.compile("cast_(runs|squares)_.*"), 0.5);
        shares.put(Pattern.compile("(gelu|gated)_.*"), 0.7);
        shares.put(Pattern.compile("norm_(forward|backward)_transposed"), 0.65);
        shares.put(Pattern.compile("transpose_codes"), 0.2);
        shares.put(Pattern.compile("norm_backward.*"), 0.7);
        shares.put(Pattern.compile("attention_dots"), 0.6);
        shares.put(Pattern.compile("copy_rows"), 0.65);
        shares.put(Pattern.compile(".*"), 0.8);
        return shares;
    }

    static double share(Kernel kernel) {
        return SHARES.entrySet().stream()
                .filter(e -> e.getKey().matcher(kernel.name()).matches())
                .map(Map.Entry::getValue)
                .findFirst()
                .orElseThrow();
    }

    /** M: microseconds that a work takes at least when it is timed alone, between two events. */
    static final double ALONE_MICROS = 6.5;

    /** M: microseconds from one node of a graph to the next: what the sum of works one by one is more than a step. */
    static final double GAP_MICROS = 1.2;

    /** M: gigabytes a second over PCIe from pinned memory. */
    static final double UPLOAD_GIGABYTES = 50;

    /** E: gigabytes a second at which the host copies a batch to pinned memory, while the GPU waits. */
    static final double FEED_GIGABYTES = 10;
}
